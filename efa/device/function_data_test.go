package device

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// end is one side of a connection: a queue pair with its rings in guest memory, as
// the user's library sets them up.
type end struct {
	*driver
	pd    uint16
	qp    wire.CreateQPResp
	cqDB  uint32
	cqe   []byte
	seen  uint32
	rq    []byte
	posts uint32
	recvs uint32
	ah    uint16
}

const (
	cqDepth = 16
	qpDepth = 8
)

// connect makes a domain, a doorbell page, an event queue, a completion queue and
// a queue pair in RTS.
func connect(d *driver) *end {
	d.t.Helper()
	e := &end{driver: d}
	d.probe()
	var pd wire.AllocPDResp
	var uar wire.AllocUARResp
	d.do(wire.OpAllocPD, 0, nil, &pd)
	d.do(wire.OpAllocUAR, 0, nil, &uar)
	e.pd = pd.PD
	var eq wire.CreateEQResp
	addr, _ := d.mem.alloc(d.t, 64*wire.SizeEQE)
	d.do(wire.OpCreateEQ, 0, &wire.CreateEQ{Depth: 64, MSIXVector: 1, EntryWords: wire.SizeEQE / 4, BaseAddr: addr, Events: wire.EQCompletionEvents}, &eq)
	d.set(wire.RegEQDB, wire.EQDoorbell(eq.EQN, true))
	var cq wire.CreateCQResp
	addr, e.cqe = d.mem.alloc(d.t, cqDepth*16)
	d.do(wire.OpCreateCQ, 0, &wire.CreateCQ{
		Caps: wire.CQInterruptMode, EQN: eq.EQN, EntryWords: 4, SubCQDepth: cqDepth, NumSubCQs: 1, BaseAddr: addr, UAR: uar.UAR,
	}, &cq)
	e.cqDB = cq.DB
	addr, e.rq = d.mem.alloc(d.t, qpDepth*wire.SizeRxDesc)
	d.do(wire.OpCreateQP, 0, &wire.CreateQP{
		PD: e.pd, Type: wire.QPTypeSRD, RQBaseAddr: addr, SendCQ: uint32(cq.CQ), RecvCQ: uint32(cq.CQ),
		SQRingSize: qpDepth * 64, SQDepth: qpDepth, RQRingSize: qpDepth * wire.SizeRxDesc, RQDepth: qpDepth, UAR: uar.UAR,
	}, &e.qp)
	for _, state := range []wire.QPState{wire.QPStateInit, wire.QPStateRTR, wire.QPStateRTS} {
		d.do(wire.OpModifyQP, 0, &wire.ModifyQP{
			Mask: wire.ModifyState | wire.ModifyQKey, Handle: e.qp.Handle, State: state, QKey: 0x1234,
		}, nil)
	}
	var q wire.QueryQPResp
	d.do(wire.OpQueryQP, 0, &wire.QueryQP{Handle: e.qp.Handle}, &q)
	if q.State != wire.QPStateRTS || q.QKey != 0x1234 {
		d.t.Errorf("the queue pair is %+v", q)
	}
	return e
}

// meet makes an address handle of the other end's device.
func (e *end) meet(gid wire.GID) {
	var r wire.CreateAHResp
	e.do(wire.OpCreateAH, 0, &wire.CreateAH{DestAddr: gid, PD: e.pd}, &r)
	e.ah = r.AH
}

// arm asks for an event at the next completion.
func (e *end) arm() {
	e.write(regionDoorbells, uint64(e.cqDB), uint32(wire.MakeCQDoorbell(uint16(e.seen), 0, true)))
}

// post writes an entry into device memory as a guest's stores arrive, eight bytes
// at a time, and rings.
func (e *end) post(entry *wire.TxEntry) {
	at := uint64(e.qp.LLQ) + uint64(e.posts%qpDepth)*64
	for i := 0; i < 64; i += 8 {
		if err := e.bus.WriteRegion(regionLLQ, at+uint64(i), entry[i:i+8]); err != nil {
			e.t.Fatal(err)
		}
	}
	e.posts++
	e.write(regionDoorbells, uint64(e.qp.SQDB), e.posts)
}

// receive posts a buffer.
func (e *end) receive(addr uint64, n uint16, lkey uint32) {
	desc := wire.RxDesc{ReqID: uint16(e.recvs), Addr: addr, Length: n, LKey: lkey, First: true, Last: true}
	desc.Encode(e.rq[e.recvs%qpDepth*wire.SizeRxDesc:])
	e.recvs++
	e.write(regionDoorbells, uint64(e.qp.RQDB), e.recvs)
}

// poll waits for a completion.
func (e *end) poll() *wire.CQE {
	e.t.Helper()
	b := (*wire.CQE)(e.cqe[e.seen%cqDepth*16:])
	for limit := time.Now().Add(patience); ; time.Sleep(100 * time.Microsecond) {
		if wire.CQEWord(atomic.LoadUint32((*uint32)(unsafe.Pointer(b)))).Phase() == (e.seen/cqDepth%2 == 0) {
			break
		}
		if time.Now().After(limit) {
			e.t.Fatal("no completion came")
		}
	}
	e.seen++
	return b
}

// TestDataPathThroughRegions sends between two functions, with nothing but what a
// guest can do: commands, device memory, doorbells and its own memory.
func TestDataPathThroughRegions(t *testing.T) {
	f := newTestFabric(t)
	a, b := connect(newDriver(t, f, FunctionOptions{})), connect(newDriver(t, f, FunctionOptions{}))
	a.meet(b.fn.Device().GID())
	b.meet(a.fn.Device().GID())
	const n = 2*4096 + 100 // less than the MTU
	src, from := a.region(a.pd, 0x500000000200, n, "inline")
	dst, to := b.region(b.pd, 0x600000000300, n, "indirect"[:8])
	for i, p := range from {
		for k := range p {
			p[k] = byte(i*31 + k)
		}
	}
	irqs := b.irqs[1].Load()
	b.arm()
	b.receive(0x600000000300, n, dst.LKey)
	var e wire.TxEntry
	e.Set(7, wire.TxAlways|wire.TxHasImm, b.qp.QPNum, 1) // SEND is 0
	e.SetPeer(0xabcd, a.ah, 0)
	e.SetQKey(0x1234)
	e.SetBuf(0, 0x500000000200, n, src.LKey)
	a.post(&e)
	if c := a.poll(); c.Status() != wire.CompOK || c.ReqID() != 7 || c.QP() != a.qp.QPNum {
		t.Errorf("send completion: status %v, id %d, QP %d", c.Status(), c.ReqID(), c.QP())
	}
	c := b.poll()
	if c.Status() != wire.CompOK || c.Length16() != n || c.SrcQP() != a.qp.QPNum || !c.Flags().HasImm() || c.Imm() != 0xabcd {
		t.Errorf("receive completion: status %v, length %d, from %d, immediate %v %#x", c.Status(), c.Length16(), c.SrcQP(), c.Flags().HasImm(), c.Imm())
	}
	got, want := bytes.Join(to, nil)[0x300:][:n], bytes.Join(from, nil)[0x200:][:n]
	if !bytes.Equal(got, want) {
		t.Error("other bytes arrived than were sent")
	}
	b.interrupted(1, irqs)
}
