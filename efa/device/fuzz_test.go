package device

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// fuzzRig is a pair of endpoints whose memory is all canary, except for what is
// registered to be written and the rings.
type fuzzRig struct {
	*pair
	src, dst, ro region
	guards       [][]byte // must stay as they are
	want         [][]byte
}

func newFuzzRig(f testing.TB) *fuzzRig {
	o := Options{RetransmitTimeout: 20 * time.Microsecond, PeerTimeout: 40 * time.Microsecond, RNRDelay: 10 * time.Microsecond, Latency: time.Nanosecond}
	r := &fuzzRig{pair: newPair(f, FabricOptions{MTU: 512}, o, o, epOptions{wide: true, rnr: 1, depth: 16})}
	guard := func(h *host) {
		_, b := h.mem.alloc(1 << 16)
		fill(b, uint64(len(r.guards)))
		r.guards = append(r.guards, b)
	}
	for _, e := range []*endpoint{r.a, r.b} {
		guard(e.host)
	}
	r.src = r.a.region(8192, wire.AccessLocalWrite)
	guard(r.a.host)
	r.dst = r.b.region(8192, allAccess)
	guard(r.b.host)
	r.ro = r.b.region(4096, wire.AccessRemoteRead)
	r.guards = append(r.guards, r.ro.b, r.a.region(4096, 0).b)
	guard(r.a.host)
	guard(r.b.host)
	for _, g := range r.guards {
		r.want = append(r.want, bytes.Clone(g))
	}
	return r
}

// use makes helpers fail the given test.
func (r *fuzzRig) use(t *testing.T) { r.a.host.t, r.b.host.t = t, t }

// settle waits until nothing is left to do, and looks at the canaries.
func (r *fuzzRig) settle(t *testing.T) {
	idle := func(e *endpoint) bool {
		e.d.mu.Lock()
		defer e.d.mu.Unlock()
		return len(e.d.w.heap) == 0 && e.d.w.active == 0 && e.d.w.parked.Load() && !e.d.w.rung()
	}
	for end := time.Now().Add(5 * time.Second); !idle(r.a) || !idle(r.b); {
		if time.Now().After(end) {
			t.Fatal("the device is not done within 5 s")
		}
		time.Sleep(10 * time.Microsecond)
	}
	for i, g := range r.guards {
		if !bytes.Equal(g, r.want[i]) {
			t.Fatalf("guard %d was written", i)
		}
	}
	for r.a.scq.poll() != nil || r.b.scq.poll() != nil {
	}
}

// works fails unless a proper request completes.
func (r *fuzzRig) works(t *testing.T) {
	r.use(t)
	for _, e := range []*endpoint{r.a, r.b} {
		e.state(wire.QPStateReset)
		e.pc, e.rpc = 0, 0
		e.rts(1, wire.QPTypeSRD)
	}
	r.settle(t)
	r.a.post(r.ab.rdma(wire.IORDMAWrite, 1, r.src.at(0, 2000), r.dst.addr, r.dst.RKey))
	r.a.scq.expect(1, wire.CompOK)
}

// FuzzTransmitEntry: whatever lies in a send ring and is rung for, the device
// survives, finishes, and touches only what is registered for it. The input changes
// entries that make sense: each 128 bytes are laid over a template by exclusive or,
// the first two give the doorbell.
func FuzzTransmitEntry(f *testing.F) {
	r := newFuzzRig(f)
	templates := []*wire.WideTxEntry{
		r.ab.send(1, r.src.at(0, 100), r.src.at(200, 300)),
		r.ab.inline(2, []byte("inline")),
		imm(r.ab.rdma(wire.IORDMAWrite, 3, r.src.at(0, 3000), r.dst.addr, r.dst.RKey), 1),
		r.ab.rdma(wire.IORDMARead, 4, r.src.at(0, 3000), r.ro.addr, r.ro.RKey),
		r.ab.rdma(wire.IORDMARead, 5, r.src.at(0, 3000), r.dst.addr, r.dst.RKey),
	}
	f.Add([]byte{5, 0})
	for i := range 128 {
		b := make([]byte, 2+128*3)
		b[0] = 3
		b[2+i], b[2+128+i], b[2+256+i] = 1<<(i%8), 0xff, 0x80
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 2 {
			return
		}
		r.use(t)
		door := binary.LittleEndian.Uint16(in)
		in = in[2:]
		for i := range 8 {
			r.b.recv(uint16(i), r.dst, i*100, 100)
		}
		for i := 0; i < r.a.depth; i++ {
			w := *templates[i%len(templates)]
			n := min(len(in), len(w))
			for j, x := range in[:n] {
				w[j] ^= x
			}
			in = in[n:]
			copy(r.a.d.LLQ()[int(r.a.info.LLQ)+i*wideEntry:], w[:])
		}
		r.a.d.Ring(r.a.info.SQDB, uint32(door))
		r.settle(t)
		r.works(t)
	})
}

// FuzzReceiveDescriptor is the same for receive rings: messages of all kinds arrive
// while the descriptors and the doorbell are the input's.
func FuzzReceiveDescriptor(f *testing.F) {
	r := newFuzzRig(f)
	f.Add([]byte{16, 0})
	for i := range 128 {
		b := make([]byte, 2+256)
		b[0] = 16
		b[2+i/8] = 1 << (i % 8)
		b[2+64+i/8] = 0xff
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 2 {
			return
		}
		r.use(t)
		door := binary.LittleEndian.Uint16(in)
		in = in[2:]
		ring := make([]byte, len(r.b.rq))
		for i := range r.b.depth {
			var x wire.RxEntry
			fl := wire.RxFirst | wire.RxLast
			if i%4 == 1 {
				fl = wire.RxFirst
			} else if i%4 == 2 {
				fl = wire.RxLast
			}
			x.Set(uint16(i), r.dst.addr+uint64(i*200), 200, r.dst.LKey, fl)
			copy(ring[i*16:], x[:])
		}
		for i := range min(len(in), len(ring)) {
			ring[i] ^= in[i]
		}
		copy(r.b.rq, ring)
		r.b.d.Ring(r.b.info.RQDB, uint32(door))
		for i := range 10 {
			switch i % 3 {
			case 0:
				r.a.put(r.ab.send(1, r.src.at(0, 150), r.src.at(0, i*20)))
			case 1:
				r.a.put(r.ab.inline(1, []byte("inline")))
			case 2:
				r.a.put(imm(r.ab.rdma(wire.IORDMAWrite, 1, r.src.at(0, 3000), r.dst.addr, r.dst.RKey), 1))
			}
		}
		r.a.ring()
		r.settle(t)
		r.b.state(wire.QPStateError) // flushes what is left, whatever it is
		r.settle(t)
		r.works(t)
	})
}

// FuzzDoorbell: any write to any doorbell.
func FuzzDoorbell(f *testing.F) {
	r := newFuzzRig(f)
	f.Add(uint32(0), uint32(1))
	f.Add(uint32(cqDoorbell), uint32(cqArm))
	f.Add(uint32(DoorbellBytes), ^uint32(0))
	var n atomic.Uint64
	f.Fuzz(func(t *testing.T, offset, value uint32) {
		r.a.d.Ring(offset, value)
		r.b.d.RingEQ(value)
		if n.Add(1)%16 == 0 {
			r.settle(t)
			r.works(t)
		}
	})
}
