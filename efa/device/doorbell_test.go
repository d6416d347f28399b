package device

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

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
