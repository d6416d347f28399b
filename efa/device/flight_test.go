package device

import (
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// silentPair is a pair whose target answers nothing, so that requests stay in
// flight.
func silentPair(t *testing.T, eo epOptions) (*pair, region, region) {
	o := Options{PeerTimeout: time.Minute}
	pr := newPair(t, FabricOptions{}, o, o, eo)
	pr.b.d.Faults().Set(FaultPlan{Unresponsive: true})
	return pr, pr.a.region(8192, allAccess), pr.b.region(8192, allAccess)
}

// TestFlush: to ERR with work posted: everything completes as flushed, each once,
// also what is posted afterwards; receives too. Then the queue pair works again.
func TestFlush(t *testing.T) {
	pr, src, dst := silentPair(t, epOptions{})
	fill(src.b, 1)
	for i := range 40 {
		pr.a.put(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, 8000), dst.addr, dst.RKey))
	}
	pr.a.ring()
	eventually(t, "requests are in flight", func() bool { return pr.a.d.Stats().Network.RetransTimeoutEvents > 40 })
	for i := range 10 {
		pr.a.put(pr.ab.send(uint64(40+i), src.at(0, 1)))
	}
	pr.a.ring()
	for i := range 10 {
		pr.a.recv(uint16(100+i), src, 0, 10, 20, 10)
	}
	pr.a.state(wire.QPStateError)
	pr.a.put(pr.ab.send(50, src.at(0, 1)))
	pr.a.ring()
	pr.a.recv(110, src, 0, 10)
	seen := map[uint16]bool{}
	for range 62 {
		c := pr.a.scq.next().Base()
		id := c.ReqID()
		wantQueue := wire.SendQueue
		if id >= 100 {
			wantQueue = wire.RecvQueue
		}
		if seen[id] || c.Status() != wire.CompFlushed || c.Flags().Queue() != wantQueue || c.QP() != pr.a.info.QPNum {
			t.Fatalf("completion of %d: %v, again %v", id, c.Status(), seen[id])
		}
		seen[id] = true
	}
	pr.a.scq.quiet(2 * time.Millisecond)
	// What a link has taken is on its way to a target that has to be silent still.
	eventually(t, "the link is empty", func() bool { return pr.link[0] == nil || pr.link[0].ports[pr.a.d].empty() })
	pr.b.d.Faults().Clear()
	pr.a.scq.quiet(5 * time.Millisecond)
	if !zero(dst.b) {
		t.Error("a flushed write arrived")
	}
	pr.a.state(wire.QPStateReset)
	pr.a.pc, pr.a.rpc = 0, 0
	pr.a.rts(0, wire.QPTypeSRD)
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 7, src.at(0, 8), dst.addr, dst.RKey))
	pr.a.scq.expect(7, wire.CompOK)
}

// TestTargetInError: messages to a queue pair that goes to ERR fail, and its
// receives are flushed.
func TestTargetInError(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	pr.b.recv(1, dst, 0, 100)
	pr.b.state(wire.QPStateError)
	pr.b.scq.expect(1, wire.CompFlushed)
	pr.a.post(pr.ab.send(2, src.at(0, 10)))
	pr.a.scq.expect(2, wire.CompRemoteBadDestQPN)
	pr.b.state(wire.QPStateReset)
	pr.b.state(wire.QPStateInit)
	pr.a.post(pr.ab.send(3, src.at(0, 10)))
	pr.a.scq.expect(3, wire.CompRemoteBadDestQPN)
}

// TestDestroyInFlight: handles, regions and queue pairs go while requests are in
// flight.
func TestDestroyInFlight(t *testing.T) {
	pr, src, dst := silentPair(t, epOptions{})
	write := func(id uint64) {
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, id, src.at(0, 8000), dst.addr, dst.RKey))
	}
	write(1)
	pr.a.scq.quiet(3 * time.Millisecond)
	if err := pr.a.d.DestroyAH(pr.a.pd, pr.ab.ah); err != nil {
		t.Fatal(err)
	}
	pr.a.scq.expect(1, wire.CompLocalInvalidAH)
	pr.ab = pr.a.to(pr.b.endpoint(epOptions{}))
	write(2)
	pr.a.scq.quiet(3 * time.Millisecond)
	if err := pr.a.d.DeregisterMR(src.LKey); err != nil {
		t.Fatal(err)
	}
	pr.a.scq.expect(2, wire.CompLocalInvalidLKey)
	src = pr.a.region(8192, 0)
	write(3)
	if err := pr.b.d.DeregisterMR(dst.LKey); err != nil {
		t.Fatal(err)
	}
	pr.b.d.Faults().Clear()
	pr.a.scq.expect(3, wire.CompRemoteBadAddress)
	pr.b.d.Faults().Set(FaultPlan{Unresponsive: true})
	write(4)
	pr.a.scq.quiet(3 * time.Millisecond)
	if err := pr.a.d.DestroyQP(pr.a.info.Handle); err != nil {
		t.Fatal(err)
	}
	pr.b.d.Faults().Clear()
	pr.a.ring() // a doorbell of nothing
	pr.a.scq.quiet(5 * time.Millisecond)
	if !zero(dst.b) {
		t.Error("memory was touched")
	}
	// The device still works.
	pr.a.endpoint(epOptions{scq: pr.a.scq})
}

// TestDestroyQueued: queue pairs that are destroyed before their turn leave no trace,
// however many.
func TestDestroyQueued(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	q := h.cqueue(64, wire.CreateCQ{})
	mr := h.region(4096, allAccess)
	h.d.Fail("so that nothing is fetched")
	for range 2 * maxQPs {
		e := h.endpoint(epOptions{scq: q, depth: 2})
		e.post(e.to(e).rdma(wire.IORDMAWrite, 1, mr.at(0, 8), mr.addr+100, mr.RKey))
		eventually(t, "the doorbell is served", func() bool { return !h.d.w.rung() })
		if err := h.d.DestroyQP(e.info.Handle); err != nil {
			t.Fatal(err)
		}
		h.mem.next -= 4096 // its receive ring
	}
	q.quiet(2 * time.Millisecond)
	h.d.mu.Lock()
	n := h.d.w.runLen
	h.d.mu.Unlock()
	if n != 0 {
		t.Errorf("%d queue pairs still wait for their turn", n)
	}
}

// TestDrain: in SQD what is in flight ends and nothing new begins; the end is told.
func TestDrain(t *testing.T) {
	pr, src, dst := silentPair(t, epOptions{})
	write := func(id uint64) {
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, id, src.at(0, 8), dst.addr, dst.RKey))
	}
	write(1)
	eventually(t, "the request is in flight", func() bool { return pr.a.d.Stats().Network.RetransTimeoutEvents > 0 })
	pr.a.modify(wire.ModifyQP{
		Handle: pr.a.info.Handle, Mask: wire.ModifyState | wire.ModifySQDrainedAsyncNotify,
		State: wire.QPStateSQD, SQDrainedAsyncNotify: 1,
	})
	write(2)
	if r := must(pr.a.d.QueryQP(pr.a.info.Handle))(t); r.SQDraining != 1 || r.State != wire.QPStateSQD {
		t.Errorf("query: %+v", r)
	}
	pr.b.d.Faults().Clear()
	pr.a.scq.expect(1, wire.CompOK)
	if e := <-pr.a.evs; e.Kind != EventDrained || e.QP != pr.a.info.QPNum {
		t.Errorf("event %+v", e)
	}
	if r := must(pr.a.d.QueryQP(pr.a.info.Handle))(t); r.SQDraining != 0 {
		t.Errorf("query: %+v", r)
	}
	pr.a.scq.quiet(3 * time.Millisecond)
	pr.a.state(wire.QPStateRTS)
	pr.a.scq.expect(2, wire.CompOK)
}

// TestRateAndLatency: a modelled line takes as long as it should, about.
func TestRateAndLatency(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{LineRate: 0.1}, Options{}, epOptions{})
	src, dst := pr.a.region(1<<19, 0), pr.b.region(1<<19, allAccess)
	start := time.Now()
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 1<<19), dst.addr, dst.RKey))
	pr.a.scq.expect(1, wire.CompOK)
	// 2^19 bytes at 0.1 Gbit/s are 41.9 ms, less the slack and a packet.
	if d := time.Since(start); d < 41*time.Millisecond-time.Duration(pr.a.d.slack)*(pacePackets+1)/pacePackets {
		t.Errorf("512 KiB at 0.1 Gbit/s took %v", d)
	}
	pr = newPair(t, FabricOptions{}, Options{Latency: 10 * time.Millisecond}, Options{Latency: 5 * time.Millisecond}, epOptions{})
	src, dst = pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	pr.b.recv(2, dst, 0, 8)
	start = time.Now()
	pr.a.post(pr.ab.send(1, src.at(0, 8)))
	pr.b.scq.expect(2, wire.CompOK)
	there := time.Since(start)
	pr.a.scq.expect(1, wire.CompOK)
	if back := time.Since(start); there < 10*time.Millisecond || back < 15*time.Millisecond {
		t.Errorf("there %v, back %v", there, back)
	}
}

// TestPaceHoldsOnAverage: a worker that comes late loses nothing of the rate
// while something waits for the line; a line that was idle has saved nothing up.
func TestPaceHoldsOnAverage(t *testing.T) {
	for _, rate := range []float64{0.7, 100, 399} {
		w := &worker{}
		w.d = &Device{byteTime: 8 * paceUnit / rate, slack: paceSlack}
		const size, packets = 4096, 200_000
		start := int64(time.Second)
		now, waits := start, int64(0)
		for range packets {
			for due := w.pace(w.d, size, now); due > 0; due = w.pace(w.d, size, now) {
				waits++
				now = due + waits*7919%int64(3*time.Millisecond)
			}
		}
		// The last wait may have been up to 3 ms too long.
		want := packets * size * 8 / rate
		if took := float64(now - start); took < want-float64(2*paceSlack) || took > want*1.0001+float64(4*time.Millisecond) {
			t.Errorf("%g Gbit/s: %v instead of %v, after %d waits", rate, time.Duration(took), time.Duration(want), waits)
		}
		w.lineBusy = false // as when nothing was left
		now += int64(time.Second)
		for w.pace(w.d, size, now) == 0 {
		}
		if ahead := w.d.txFree.Load()/paceUnit - now; ahead < paceSlack {
			t.Errorf("%g Gbit/s: the line was idle and is only %v ahead", rate, time.Duration(ahead))
		}
	}
}
