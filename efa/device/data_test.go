package device

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// profiles are devices that differ in what queues look like.
var profiles = map[string]struct {
	o  Options
	eo epOptions
}{
	"default":    {},
	"two subCQs": {o: Options{SubCQs: 2}},
	"wide":       {eo: epOptions{wide: true}},
	"narrow":     {o: Options{MaxInline: 32}},
}

func TestSend(t *testing.T) {
	for name, p := range profiles {
		t.Run(name, func(t *testing.T) {
			pr := newPair(t, FabricOptions{}, p.o, p.o, p.eo)
			src, dst := pr.a.region(8192, 0), pr.b.region(8192, allAccess)
			fill(src.b, 1)
			pr.b.recv(7, dst, 100, 3000, 4000, 50, 5000, 3000)
			pr.a.post(imm(pr.ab.send(9, src.at(10, 2000), src.at(4000, 1500)), 0xfeed))
			r := pr.b.scq.expect(7, wire.CompOK)
			pr.a.scq.expect(9, wire.CompOK)
			if r.Length() != 3500 || r.Base().Imm() != 0xfeed || !r.Base().Flags().HasImm() || r.Base().SrcQP() != pr.a.info.QPNum || r.Base().AH() != pr.ba.ah {
				t.Errorf("receive completion % x", r[:])
			}
			want := append(bytes.Clone(src.b[10:2010]), src.b[4000:5500]...)
			got := bytes.Clone(dst.b[100:3100])
			got = append(append(got, dst.b[4000:4050]...), dst.b[5000:5450]...)
			if !bytes.Equal(got, want) {
				t.Error("the bytes differ")
			}
			if !zero(dst.b[:100]) || !zero(dst.b[3100:4000]) || !zero(dst.b[4050:5000]) || !zero(dst.b[5450:]) {
				t.Error("bytes beside the message were written")
			}
			// Inline, empty, and more messages than the ring has entries.
			pr.b.recv(8, dst, 0, 32)
			pr.a.post(pr.ab.inline(10, []byte("inline data")))
			pr.b.scq.expect(8, wire.CompOK)
			pr.a.scq.expect(10, wire.CompOK)
			if string(dst.b[:11]) != "inline data" {
				t.Errorf("inline: %q", dst.b[:11])
			}
			for i := range 500 {
				pr.b.recv(uint16(i), dst, 0, 64)
				pr.a.post(pr.ab.send(uint64(i), src.at(i, i%64)))
				if r := pr.b.scq.expect(uint16(i), wire.CompOK); r.Length() != uint32(i%64) {
					t.Fatalf("message %d has length %d", i, r.Length())
				}
				pr.a.scq.expect(uint16(i), wire.CompOK)
				if !bytes.Equal(dst.b[:i%64], src.b[i:i+i%64]) {
					t.Fatalf("message %d differs", i)
				}
			}
		})
	}
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func TestWriteRead(t *testing.T) {
	for name, p := range profiles {
		t.Run(name, func(t *testing.T) {
			const size = 1 << 20
			pr := newPair(t, FabricOptions{Seed: 3}, p.o, p.o, p.eo)
			src, dst := pr.a.region(size, allAccess), pr.b.region(size+8192, allAccess)
			for i, n := range []int{1, 63, 4096, DefaultMTU, DefaultMTU + 1, 100_000, size} {
				fill(src.b[:n], uint64(i))
				clear(dst.b)
				pr.a.post(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, n), dst.addr+4096, dst.RKey))
				c := pr.a.scq.expect(uint16(i), wire.CompOK)
				if c.Base().Flags().Op() != wire.IORDMAWrite || c.Base().Flags().Queue() != wire.SendQueue {
					t.Errorf("completion % x", c[:])
				}
				if !bytes.Equal(dst.b[4096:4096+n], src.b[:n]) || !zero(dst.b[:4096]) || !zero(dst.b[4096+n:]) {
					t.Fatalf("write of %d bytes: the bytes differ", n)
				}
				clear(src.b)
				pr.a.post(pr.ab.rdma(wire.IORDMARead, uint64(i), src.at(0, n), dst.addr+4096, dst.RKey))
				pr.a.scq.expect(uint16(i), wire.CompOK)
				if !bytes.Equal(dst.b[4096:4096+n], src.b[:n]) || !zero(src.b[n:]) {
					t.Fatalf("read of %d bytes: the bytes differ", n)
				}
			}
		})
	}
}

func TestWriteImmediate(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(1<<18, 0), pr.b.region(1<<18, allAccess)
	fill(src.b, 5)
	pr.b.recv(1, dst, 0, 16)
	pr.a.post(imm(pr.ab.rdma(wire.IORDMAWrite, 2, src.at(0, 200_000), dst.addr, dst.RKey), 77))
	r := pr.b.scq.expect(1, wire.CompOK)
	if f := r.Base().Flags(); r.Length() != 200_000 || r.Base().Imm() != 77 || f.Unsolicited() || f.Op() != wire.IORDMAWrite {
		t.Errorf("receive completion % x", r[:])
	}
	if !bytes.Equal(dst.b[:200_000], src.b[:200_000]) {
		t.Error("the notice came before the bytes")
	}
	pr.a.scq.expect(2, wire.CompOK)

	// Unsolicited: no receive is consumed, and none is needed.
	u := pr.b.host.endpoint(epOptions{flags: wire.QPUnsolicitedWriteRecv})
	pr.a.post(imm(pr.a.to(u).rdma(wire.IORDMAWrite, 3, wire.TxBuf{}, dst.addr, dst.RKey), 78))
	r = u.scq.expect(0, wire.CompOK)
	if !r.Base().Flags().Unsolicited() || r.Base().Imm() != 78 || r.Length() != 0 || r.Base().QP() != u.info.QPNum {
		t.Errorf("unsolicited completion % x", r[:])
	}
	pr.a.scq.expect(3, wire.CompOK)
}

func TestInlineWrite(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{wide: true})
	dst := pr.b.region(4096, allAccess)
	w := pr.ab.rdma(wire.IORDMAWrite, 1, wire.TxBuf{Length: 80}, dst.addr, dst.RKey)
	w.Entry().Set(1, wire.TxAlways|wire.TxInline|wire.TxControl(wire.IORDMAWrite), pr.ab.qp, 80)
	fill(w.RDMAInline()[:], 4)
	pr.a.post(w)
	pr.a.scq.expect(1, wire.CompOK)
	if !bytes.Equal(dst.b[:80], w.RDMAInline()[:]) || !zero(dst.b[80:]) {
		t.Error("the bytes differ")
	}
}

func TestRequestIDs64(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	q := h.cqueue(64, wire.CreateCQ{Flags: wire.CQReqID64})
	e := h.endpoint(epOptions{flags: wire.QPSQReqID64, scq: q})
	src, dst := h.region(4096, 0), h.region(4096, allAccess)
	const id = 0x0123456789abcdef
	e.post(e.to(e).rdma(wire.IORDMAWrite, id, src.at(0, 8), dst.addr, dst.RKey))
	if c := q.next(); c.Base().ReqID64() != id || c.Base().Status() != wire.CompOK {
		t.Errorf("completion % x", c[:])
	}
}

func TestDatagram(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{typ: wire.QPTypeUD})
	src, dst := pr.a.region(16384, 0), pr.b.region(16384, allAccess)
	fill(src.b, 1)
	pr.b.recv(1, dst, 0, 16000)
	pr.a.post(pr.ab.send(2, src.at(0, DefaultMTU)))
	if r := pr.b.scq.expect(1, wire.CompOK); r.Length() != DefaultMTU+40 {
		t.Errorf("length %d", r.Length())
	}
	pr.a.scq.expect(2, wire.CompOK)
	if gid := pr.a.d.GID(); !bytes.Equal(dst.b[8:24], gid[:]) || !bytes.Equal(dst.b[40:40+DefaultMTU], src.b[:DefaultMTU]) {
		t.Error("the bytes differ")
	}
	// What is dropped still completes at the sender, and shows in the statistics.
	pr.a.post(pr.ab.send(3, src.at(0, 10))) // no receive
	pr.a.scq.expect(3, wire.CompOK)
	eventually(t, "it is dropped", func() bool { return pr.b.d.Stats().Basic.RxDrops == 1 })
	bad := pr.ab
	bad.qkey++
	pr.b.recv(2, dst, 0, 16000)
	pr.a.post(bad.send(4, src.at(0, 10)))
	pr.a.scq.expect(4, wire.CompOK)
	eventually(t, "it is dropped", func() bool { return pr.b.d.Stats().Basic.RxDrops == 2 })
	pr.b.scq.quiet(5 * time.Millisecond)
	if s := pr.b.d.Stats(); s.Basic.RxDrops != 2 || s.Basic.QKeyViol != 1 {
		t.Errorf("drops %d, qkey violations %d", s.Basic.RxDrops, s.Basic.QKeyViol)
	}
	// Datagrams have no more than a packet, and no RDMA.
	pr.a.post(pr.ab.send(5, src.at(0, DefaultMTU+1)))
	pr.a.scq.expect(5, wire.CompLocalBadLength)
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 6, src.at(0, 8), dst.addr, dst.RKey))
	pr.a.scq.expect(6, wire.CompLocalUnsupportedOp)
}

// TestUnknownSender: the receiver has no handle of the sender, and is told its
// address instead.
func TestUnknownSender(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	a, b := newHost(t, f, Options{}), newHost(t, f, Options{})
	ea := a.endpoint(epOptions{})
	eb := b.endpoint(epOptions{rcq: b.cqueue(64, wire.CreateCQ{Flags: wire.CQSetSrcAddr})})
	src, dst := a.region(4096, 0), b.region(4096, allAccess)
	eb.recv(1, dst, 0, 100)
	ea.post(ea.to(eb).send(2, src.at(0, 50)))
	r := eb.rcq.expect(1, wire.CompOK)
	if r.Base().AH() != wire.UnknownAH || *r.SrcAddr() != a.d.GID() {
		t.Errorf("handle %#x, address %x", r.Base().AH(), *r.SrcAddr())
	}
	ea.scq.expect(2, wire.CompOK)
	ea.post(ea.to(eb).rdma(wire.IORDMAWrite, 3, src.at(0, 8), dst.addr, dst.RKey))
	ea.scq.expect(3, wire.CompRemoteUnknownPeer)
	if !zero(dst.b[50:]) {
		t.Error("an unknown peer wrote")
	}
	eb.to(ea)
	ea.post(ea.to(eb).rdma(wire.IORDMAWrite, 4, src.at(0, 8), dst.addr, dst.RKey))
	ea.scq.expect(4, wire.CompOK)
}

// TestReorder: with many messages of different sizes in flight, some pass others,
// and the packets of one arrive in another order than by address; the same fabric
// in order does neither.
func TestReorder(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		pr := newPair(t, FabricOptions{Seed: 1, InOrder: inOrder}, Options{}, Options{}, epOptions{})
		src, dst := pr.a.region(1<<20, 0), pr.b.region(1<<20, allAccess)
		fill(src.b, 1)
		passed := 0
		for range 10 {
			for i := range 32 {
				n := 100
				if i%4 == 0 {
					n = 100_000
				}
				pr.a.put(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(i*1000, n), dst.addr+uint64(i*1000), dst.RKey))
			}
			pr.a.ring()
			last := -1
			for range 32 {
				id := int(pr.a.scq.next().Base().ReqID())
				if id < last {
					passed++
				}
				last = max(last, id)
			}
		}
		if got := passed > 0; got == inOrder {
			t.Errorf("in order %v: %d of 320 messages were passed", inOrder, passed)
		}
		eventually(t, "statistics agree", func() bool { return pr.a.d.Stats().OutOfOrder == uint64(passed) })
	}
	var m message
	m.length, m.key = 10*DefaultMTU, 12345
	m.order(DefaultMTU, false)
	var seen [10]bool
	sorted := true
	for last := uint32(0); m.todo > 0; {
		p := m.packet()
		if seen[p] {
			t.Fatalf("packet %d twice", p)
		}
		seen[p] = true
		sorted = sorted && p >= last
		last = p
	}
	if sorted {
		t.Error("the packets of a message are in order")
	}
}

// TestWriterShutOutBeforeItsNotice: its bytes are there, and the notice still
// waits for a receive when the target gives up its handle of the writer.
func TestWriterShutOutBeforeItsNotice(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	fill(src.b, 1)
	pr.a.post(imm(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 4096), dst.addr, dst.RKey), 7))
	eventually(t, "the notice waits for a receive", func() bool { return pr.b.d.Stats().RNRs > 0 })
	if err := pr.b.d.DestroyAH(pr.b.pd, pr.ba.ah); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dst.b, src.b) {
		t.Error("the notice waited before its bytes were there")
	}
	pr.b.recv(2, dst, 0, 64)
	pr.a.scq.expect(1, wire.CompRemoteUnknownPeer)
	pr.b.scq.quiet(10 * time.Millisecond)
}
