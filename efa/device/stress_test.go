package device

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// TestCQOverrun: completions that nobody polls wrap around in their ring and touch
// nothing else; the queue pair goes on.
func TestCQOverrun(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	_, before := h.mem.alloc(4096)
	q := h.cqueue(4, wire.CreateCQ{})
	_, after := h.mem.alloc(4096)
	e := h.endpoint(epOptions{scq: q})
	mr := h.region(4096, allAccess)
	h.d.Ring(q.info.DB, 1) // a consumer count, so that overruns can be seen
	for i := range 200 {
		e.put(e.to(e).rdma(wire.IORDMAWrite, uint64(i), mr.at(0, 8), mr.addr+100, mr.RKey))
		if i%50 == 49 {
			e.ring()
			eventually(t, "the requests complete", func() bool {
				h.d.mu.Lock()
				defer h.d.mu.Unlock()
				return h.d.qp(e.info.Handle).sqConsumer == uint16(i+1) && h.d.qp(e.info.Handle).inFlight == 0
			})
		}
	}
	if !zero(before) || !zero(after) || !zero(q.ring[4*q.size:]) {
		t.Error("memory beside the ring was written")
	}
	if n := h.d.Stats().CQOverruns; n < 190 {
		t.Errorf("%d overruns were counted", n)
	}
}

// TestFairness: a queue with endless large work and a peer that does not answer keep
// nobody from sending.
func TestFairness(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	a, b, c := newHost(t, f, Options{}), newHost(t, f, Options{}), newHost(t, f, Options{})
	q := a.cqueue(1024, wire.CreateCQ{})
	big, small, lost := a.endpoint(epOptions{scq: q}), a.endpoint(epOptions{scq: q}), a.endpoint(epOptions{depth: 1024})
	eb, ec := b.endpoint(epOptions{}), c.endpoint(epOptions{})
	toB, toC := handle(a, b), handle(a, c)
	handle(b, a)
	src, dst := a.region(4<<20, 0), b.region(4<<20, allAccess)
	c.d.Faults().Set(FaultPlan{Unresponsive: true})
	for range 1000 {
		lost.put(peer{toC, ec.info.QPNum, ec.qkey}.rdma(wire.IORDMAWrite, 1, src.at(0, 100), 0, 0))
	}
	for range 64 {
		big.put(peer{toB, eb.info.QPNum, eb.qkey}.rdma(wire.IORDMAWrite, 1, src.at(0, 4<<20), dst.addr, dst.RKey))
	}
	for range 40 {
		small.put(peer{toB, eb.info.QPNum, eb.qkey}.rdma(wire.IORDMAWrite, 2, src.at(0, 8), dst.addr, dst.RKey))
	}
	// All doorbells at once, the small work's last.
	a.d.mu.Lock()
	lost.ring()
	big.ring()
	small.ring()
	a.d.mu.Unlock()
	large := 0
	for n := 0; n < 40; {
		switch q.next().Base().ReqID() {
		case 1:
			large++
		case 2:
			n++
		}
	}
	if large > 16 {
		t.Errorf("%d large writes went before small ones", large)
	}
}

// handle makes a handle of one host's device at another's.
func handle(at, of *host) uint16 {
	return must(at.d.CreateAH(at.pd, of.d.GID()))(at.t)
}

// countReady is how many completions could be polled now.
func (q *cqueue) countReady() int {
	n := 0
	for q.poll() != nil {
		n++
	}
	return n
}

// TestControlUnderLoad: three devices that all write to each other, two of them
// sharing one memory, while control operations, unmapping and resets of queue pairs go
// on: nothing deadlocks, and no byte lands beside its region.
func TestControlUnderLoad(t *testing.T) {
	f := NewFabric(FabricOptions{Seed: 4})
	defer f.Close()
	o := Options{PeerTimeout: 5 * time.Millisecond, RetransmitTimeout: 100 * time.Microsecond}
	var es []*endpoint
	// Each writes and reads its own part of each region: who lets two devices write
	// to one place has a race in his program.
	const part = 1 << 14
	var own, regions []region
	for i := range 3 {
		if i == 2 {
			o.Memory = es[0].mem
		}
		h := newHost(t, f, o)
		if i == 2 {
			h.mem = es[0].mem
		}
		es = append(es, h.endpoint(epOptions{}))
		own = append(own, h.region(part, allAccess))
		regions = append(regions, h.region(3*part, allAccess))
	}
	var peers [3][3]peer
	for i, a := range es {
		for j, b := range es {
			peers[i][j] = a.to(b)
		}
	}
	var guards [][]byte
	for _, e := range es[:2] {
		_, g := e.mem.alloc(1 << 16)
		guards = append(guards, g)
	}
	stop := time.Now().Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	run := func(step func()) {
		wg.Go(func() {
			for time.Now().Before(stop) {
				step()
			}
		})
	}
	for i, e := range es {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		run(func() { // posts, polls, and now and then starts its queue pair afresh
			for range 16 {
				j := rng.IntN(3)
				op := wire.IORDMAWrite
				if rng.IntN(3) == 0 {
					op = wire.IORDMARead
				}
				e.put(peers[i][j].rdma(op, 1, own[i].at(0, rng.IntN(part)), regions[j].addr+uint64(i*part), regions[j].RKey))
			}
			e.ring()
			if rng.IntN(20) == 0 {
				e.state(wire.QPStateError)
				e.state(wire.QPStateReset)
				e.pc = 0
				e.rts(0, wire.QPTypeSRD)
				e.scq.countReady()
				return
			}
			for n := 0; n < 16 && time.Now().Before(stop); runtime.Gosched() {
				n += e.scq.countReady()
			}
		})
		run(func() { // registers and makes handles
			mr, err := e.d.RegisterMR(MROptions{PD: e.pd, Length: 100, Pages: []uint64{e.mem.base}})
			if err == nil {
				err = e.d.DeregisterMR(mr.LKey)
			}
			ah, err2 := e.d.CreateAH(e.pd, wire.GID{9, byte(i)})
			if err2 == nil {
				err2 = e.d.DestroyAH(e.pd, ah)
			}
			if err != nil || err2 != nil {
				t.Error(err, err2)
			}
			runtime.Gosched()
		})
	}
	for _, e := range es[:2] {
		run(func() {
			e.mem.unmap(false) // waits for all holds, as unmapping does
			time.Sleep(50 * time.Microsecond)
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		buf := make([]byte, 1<<20)
		t.Fatalf("deadlock:\n%s", buf[:runtime.Stack(buf, true)])
	}
	for i, g := range guards {
		if !bytes.Equal(g, make([]byte, len(g))) {
			t.Errorf("guard %d was written", i)
		}
	}
}
