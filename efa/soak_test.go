package efa

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
)

// TestASoakThroughFaults runs writes, reads and messages between three devices
// while packets are lost, doubled and late, answers are lost, and peers refuse.
// Every request completes once, what completes well has moved its bytes and no
// others, and every message that was sent well was received once.
func TestASoakThroughFaults(t *testing.T) {
	faults := uint64(10_000)
	if testing.Short() {
		faults = 1_000
	}
	const (
		nodes = 3
		depth = 64  // requests in flight from each node
		slot  = 512 // bytes of a request's place, with a margin
		size  = 448
	)
	f := fabric(t, device.FabricOptions{Seed: 11})
	f.Faults().Set(device.FaultPlan{Seed: 12, Loss: .03, Duplicate: .05, Delay: .05, AckLoss: .03, RNR: .03, CorruptKey: .03, Abort: .02})
	type request struct {
		open bool
		op   Op
		to   int
		seed byte
	}
	type peer struct {
		side
		to  [nodes]*Dest
		req [depth]request // a request's id is its place here, and in everyone's memory
	}
	var all [nodes]*peer
	// A node's memory: its own sources, then places for each node's requests,
	// then receives.
	place := func(node, i int) int { return (1+node)*depth*slot + i*slot }
	const recvAt = (1 + nodes) * depth * slot
	for i := range all {
		p := &peer{}
		p.dev = must[*Device](t)(Embedded(f, device.Options{PeerTimeout: patience}))
		p.mem = memory(t, recvAt+4*depth*slot)
		p.mr = must[*MR](t)(p.dev.Register(p.mem, allAccess))
		p.ep = must[*Endpoint](t)(p.dev.CreateSRD(SRDOptions{MaxSend: depth, MaxRecv: 4 * depth}))
		p.b, p.r = p.ep.Batch(), p.ep.RecvBatch()
		p.receive(t, 4*depth, recvAt, slot, 0)
		all[i] = p
	}
	for i, p := range all {
		for k, other := range all {
			if k != i {
				p.to[k] = must[*AH](t)(p.dev.CreateAH(other.dev.Attr().GID)).To(other.ep.QPN(), other.ep.Address().QKey)
			}
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	want := make([]byte, size)
	var posted, done, good, sentWell, received int
	start := func(i, id int) {
		p := all[i]
		r := &p.req[id]
		*r = request{open: true, op: []Op{OpWrite, OpRead, OpSend}[rng.IntN(3)], to: (i + 1 + rng.IntN(nodes-1)) % nodes, seed: byte(rng.Uint32())}
		other := all[r.to]
		mine, theirs := p.mem[id*slot:][:slot], other.mem[place(i, id):][:slot]
		clear(mine)
		clear(theirs)
		there := other.remote().At(uint64(place(i, id)))
		switch r.op {
		case OpWrite:
			fill(mine[:size], r.seed)
			p.b.Write(p.to[r.to], p.mr.At(uint64(id*slot), size), there, uint64(id))
		case OpRead:
			fill(theirs[:size], r.seed)
			p.b.Read(p.to[r.to], p.mr.At(uint64(id*slot), size), there, uint64(id))
		case OpSend:
			fill(mine[:size], r.seed)
			p.b.SendImm(p.to[r.to], p.mr.At(uint64(id*slot), size), uint32(r.seed), uint64(id))
		}
		posted++
	}
	finish := func(i int, c *Completion) {
		p := all[i]
		done++
		r := &p.req[c.ID]
		if !r.open || c.Op != r.op {
			t.Fatalf("node %d: %+v is not of an open request (%+v)", i, c, r)
		}
		r.open = false
		fill(want, r.seed)
		id := int(c.ID)
		target := all[r.to].mem[place(i, id):][:slot]
		if r.op == OpRead {
			target = p.mem[id*slot:][:slot]
		}
		switch {
		case c.Err() == nil && r.op == OpSend:
			sentWell++
			good++
		case c.Err() == nil:
			good++
			if !bytes.Equal(target[:size], want) {
				t.Fatalf("node %d: %v %d completed well, and its bytes are not there", i, r.op, id)
			}
		case c.Status == StatusRemoteAddress && r.op != OpSend:
			if !bytes.Equal(target[:size], make([]byte, size)) {
				t.Fatalf("node %d: %v %d was refused and moved bytes", i, r.op, id)
			}
		}
		if r.op != OpSend && !bytes.Equal(target[size:], make([]byte, slot-size)) {
			t.Fatalf("node %d: %v %d wrote beyond its bytes", i, r.op, id)
		}
	}
	out := make([]Completion, 32)
	end := time.Now().Add(4 * time.Minute)
	for stop := false; !stop || done < posted; {
		stop = stop || f.Faults().Counts().Total() >= faults
		if time.Now().After(end) {
			t.Fatalf("%d of %d requests completed, %d faults", done, posted, f.Faults().Counts().Total())
		}
		for i, p := range all {
			for id := range p.req {
				if !stop && !p.req[id].open {
					start(i, id)
				}
			}
			post(t, p.b)
			n, err := p.ep.Poll(out)
			if err != nil {
				t.Fatal(err)
			}
			for k := range out[:n] {
				c := &out[k]
				if c.Op != OpRecv {
					finish(i, c)
					continue
				}
				if c.Err() != nil {
					t.Fatalf("node %d: %+v", i, c)
				}
				received++
				at := recvAt + int(c.ID)*slot
				fill(want, byte(c.Imm))
				if c.Bytes != size || !bytes.Equal(p.mem[at:at+size], want) {
					t.Fatalf("node %d: %+v has other bytes than were sent", i, c)
				}
				p.receive(t, 1, at, slot, c.ID)
			}
		}
		runtime.Gosched()
	}
	f.Faults().Clear()
	// Messages whose answer was lost for good, or that were aborted, may have been
	// received; none that were sent well may be missing.
	for i, p := range all {
		for {
			n, err := p.ep.Poll(out)
			if err != nil {
				t.Fatal(err)
			}
			for k := range out[:n] {
				if out[k].Op != OpRecv {
					t.Fatalf("node %d: %+v after the end", i, out[k])
				}
				received++
			}
			if n == 0 {
				break
			}
		}
	}
	t.Logf("%d requests, %d well, %d messages sent well, %d received; %+v", posted, good, sentWell, received, f.Faults().Counts())
	if received < sentWell {
		t.Errorf("%d messages were sent well, %d received", sentWell, received)
	}
	if good == 0 || good == posted {
		t.Errorf("%d of %d requests went well: no soak", good, posted)
	}
}
