package device

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

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
	pr.a.state(wire.QPStateErr)
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
	pr.b.state(wire.QPStateErr)
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

// TestUnsignaled: without comp_req success posts nothing, failure does.
func TestUnsignaled(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	for id, rkey := range []uint32{dst.RKey, dst.RKey + 1, dst.RKey} {
		w := pr.ab.rdma(wire.IORDMAWrite, uint64(id), src.at(0, 8), dst.addr, rkey)
		w[3] &^= byte(wire.TxCompReq >> 8)
		pr.a.post(w)
	}
	pr.a.scq.expect(1, wire.CompRemoteBadAddress)
	pr.a.scq.quiet(2 * time.Millisecond)
}

// TestDoorbells: a count beyond the ring is ignored until it makes sense again, and
// doorbells through another page than the queue's do nothing.
func TestDoorbells(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	pr.a.put(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 8), dst.addr, dst.RKey))
	for _, off := range []uint32{pr.a.info.SQDB + DoorbellPage, pr.a.info.SQDB + 1, 3 * 8, DoorbellBytes, 1<<32 - 4, cqDoorbell + 400, DoorbellPage - 4} {
		pr.a.d.Ring(off, 1)
	}
	pr.a.d.Ring(pr.a.info.SQDB, 65)
	pr.a.d.RingEQ(77)
	pr.a.d.RingEQ(1<<32 - 1)
	pr.a.scq.quiet(3 * time.Millisecond)
	eventually(t, "ten bad doorbells are counted", func() bool { return pr.a.d.Stats().BadDoorbells >= 10 })
	pr.a.d.Ring(pr.a.info.SQDB, 1+7<<16) // the high half does not count
	pr.a.scq.expect(1, wire.CompOK)
	pr.b.d.Ring(pr.b.info.RQDB, 65)
	pr.a.post(pr.ab.send(2, src.at(0, 8)))
	pr.a.scq.quiet(3 * time.Millisecond)
	pr.b.recv(3, dst, 0, 8)
	pr.b.scq.expect(3, wire.CompOK)
	pr.a.scq.expect(2, wire.CompOK)
}

// TestEntrySizes: completions of 16 bytes, alone and with two sub-CQs.
func TestEntrySizes(t *testing.T) {
	for _, subs := range []int{1, 2} {
		f := NewFabric(FabricOptions{})
		h := newHost(t, f, Options{SubCQs: subs})
		q := h.cqueue(8, wire.CreateCQ{EntryWords: 4})
		e := h.endpoint(epOptions{scq: q, depth: 4})
		if subs == 2 && e.info.SendSubCQ == e.info.RecvSubCQ {
			t.Errorf("sends and receives both go to sub-CQ %d", e.info.SendSubCQ)
		}
		src, dst := h.region(4096, 0), h.region(4096, allAccess)
		p := e.to(e)
		for i := range 100 {
			e.recv(uint16(i), dst, 0, 100)
			e.post(p.send(uint64(i), src.at(0, i)))
			for range 2 {
				c := q.expect(uint16(i), wire.CompOK)
				if c.Base().Flags().Queue() == wire.RecvQueue && (int(c.Base().Length16()) != i || c.Base().AH() != p.ah) {
					t.Fatalf("completion % x", c[:16])
				}
			}
		}
		f.Close()
	}
}

func TestEventCounters(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{rnr: 1})
	src, dst := pr.a.region(4096, allAccess), pr.b.region(4096, allAccess)
	counters := map[wire.CounterEvents]*uint64{}
	add := func(e *endpoint, ev wire.CounterEvents) uint32 {
		addr, b := e.mem.alloc(8)
		h := must(e.d.CreateCounter(e.uar, addr))(t)
		if err := e.d.AttachCounter(wire.AttachEventCounter{Handle: h, QPHandle: e.info.Handle, Events: ev}); err != nil {
			t.Fatal(err)
		}
		counters[ev] = (*uint64)(unsafe.Pointer(&b[0]))
		return h
	}
	for _, ev := range []wire.CounterEvents{wire.CountSend, wire.CountSendErr, wire.CountRead, wire.CountReadErr, wire.CountWrite, wire.CountWriteErr} {
		add(pr.a, ev)
	}
	for _, ev := range []wire.CounterEvents{wire.CountRecv, wire.CountRecvErr, wire.CountRemoteRead, wire.CountRemoteWrite} {
		add(pr.b, ev)
	}
	for i := range 3 {
		pr.b.recv(1, dst, 0, 100)
		pr.a.post(pr.ab.send(1, src.at(0, 8)))
		pr.a.scq.expect(1, wire.CompOK)
		for range i {
			pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 8), dst.addr, dst.RKey))
			pr.a.scq.expect(1, wire.CompOK)
			pr.a.post(pr.ab.rdma(wire.IORDMARead, 1, src.at(0, 8), dst.addr, dst.RKey+1))
			pr.a.scq.expect(1, wire.CompRemoteBadAddress)
			pr.a.post(pr.ab.rdma(wire.IORDMARead, 1, src.at(0, 8), dst.addr, dst.RKey))
			pr.a.scq.expect(1, wire.CompOK)
		}
	}
	pr.a.post(pr.ab.send(1, src.at(0, 8)))
	pr.a.scq.expect(1, wire.CompRemoteRNR)
	pr.b.recv(1, dst, 0, 1)
	pr.a.post(pr.ab.send(1, src.at(0, 8)))
	pr.a.scq.expect(1, wire.CompRemoteBadLength)
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 8), 0, dst.RKey))
	pr.a.scq.expect(1, wire.CompRemoteBadAddress)
	for ev, want := range map[wire.CounterEvents]uint64{
		wire.CountSend: 3, wire.CountSendErr: 2, wire.CountWrite: 3, wire.CountWriteErr: 1, wire.CountRead: 3, wire.CountReadErr: 3,
		wire.CountRecv: 3, wire.CountRecvErr: 1, wire.CountRemoteRead: 3, wire.CountRemoteWrite: 3,
	} {
		eventually(t, "a counter reaches its value", func() bool { return atomic.LoadUint64(counters[ev]) == want })
	}
	addr, b := pr.a.mem.alloc(8)
	h := must(pr.a.d.CreateCounter(pr.a.uar, addr))(t)
	set := func(op wire.CounterOp, v uint64) error {
		return pr.a.d.ModifyCounter(wire.ModifyEventCounter{Handle: h, Operation: op, Value: v})
	}
	if err := set(wire.CounterSet, 100); err != nil {
		t.Error(err)
	}
	if err := set(wire.CounterAdd, ^uint64(0)); err != nil {
		t.Error(err)
	}
	if v := *(*uint64)(unsafe.Pointer(&b[0])); v != 99 {
		t.Errorf("the counter is %d", v)
	}
	wantStatus(t, set(2, 0), wire.AdminIllegalParameter)
}

// TestReset: everything is gone at once, nothing completes, and the device works
// again; also while requests are under way.
func TestReset(t *testing.T) {
	pr, src, dst := silentPair(t, epOptions{})
	for i := range 30 {
		pr.a.put(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, 8000), dst.addr, dst.RKey))
	}
	pr.a.ring()
	pr.a.scq.quiet(3 * time.Millisecond)
	pr.a.d.Reset()
	if e := <-pr.a.evs; e.Kind != EventReset {
		t.Errorf("event %v", e.Kind)
	}
	pr.a.ring()
	pr.a.scq.quiet(3 * time.Millisecond)
	wantStatus(t, pr.a.d.DestroyQP(pr.a.info.Handle), wire.AdminIllegalParameter)
	pr.b.d.Faults().Clear()
	pr.a.pd, pr.a.uar = must(pr.a.d.AllocPD())(t), must(pr.a.d.AllocUAR())(t)
	e := pr.a.host.endpoint(epOptions{})
	mr := pr.a.host.region(4096, allAccess)
	e.post(e.to(pr.b).rdma(wire.IORDMAWrite, 1, mr.at(0, 8), dst.addr, dst.RKey))
	e.scq.expect(1, wire.CompOK)
	for range 20 {
		for i := range 30 {
			e.put(e.to(pr.b).rdma(wire.IORDMAWrite, uint64(i), mr.at(0, 4096), dst.addr, dst.RKey))
		}
		e.ring()
		e.d.Reset()
		e.pd, e.uar = must(e.d.AllocPD())(t), must(e.d.AllocUAR())(t)
		e = e.host.endpoint(epOptions{depth: 32})
		mr = e.host.region(4096, allAccess)
	}
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
