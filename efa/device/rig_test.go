package device

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// must fails the test on an error: must(f())(t).
func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// endpoint is a queue pair and its producers.
type endpoint struct {
	*host
	info  wire.CreateQPResp
	scq   *cqueue
	rcq   *cqueue
	qkey  uint32
	entry int
	depth int
	pc    uint16
	rq    []byte
	rpc   uint16
}

type epOptions struct {
	typ      wire.QPType
	flags    wire.CreateQPFlags
	depth    int // of both queues; default 64
	wide     bool
	rnr      uint8
	scq, rcq *cqueue
	stay     bool // in RESET
}

func (h *host) endpoint(o epOptions) *endpoint {
	h.t.Helper()
	if o.typ == 0 {
		o.typ = wire.QPTypeSRD
	}
	if o.depth == 0 {
		o.depth = 64
	}
	if o.scq == nil {
		o.scq = h.cqueue(1024, wire.CreateCQ{})
	}
	if o.rcq == nil {
		o.rcq = o.scq
	}
	e := &endpoint{host: h, scq: o.scq, rcq: o.rcq, qkey: 0x1234, entry: entrySize, depth: o.depth}
	if o.wide {
		e.entry = wideEntry
	}
	addr, ring := h.mem.alloc(o.depth * wire.SizeRxDesc)
	e.rq = ring
	e.info = must(h.d.CreateQP(QPOptions{CreateQP: wire.CreateQP{
		PD: h.pd, UAR: h.uar, Type: o.typ, Flags: o.flags, SendCQ: uint32(o.scq.info.CQ), RecvCQ: uint32(o.rcq.info.CQ),
		SQDepth: uint32(o.depth), SQRingSize: uint32(o.depth * e.entry),
		RQDepth: uint32(o.depth), RQRingSize: uint32(len(ring)), RQBaseAddr: addr,
	}}))(h.t)
	if !o.stay {
		e.rts(o.rnr, o.typ)
	}
	return e
}

// rts moves a queue pair from RESET to RTS. An RNR count of 0 stands for no limit.
func (e *endpoint) rts(rnr uint8, typ wire.QPType) {
	e.t.Helper()
	m := wire.ModifyQP{Handle: e.info.Handle, Mask: wire.ModifyState | wire.ModifyQKey, State: wire.QPStateInit, QKey: e.qkey}
	e.modify(m)
	e.modify(wire.ModifyQP{Handle: e.info.Handle, Mask: wire.ModifyState, State: wire.QPStateRTR})
	m = wire.ModifyQP{Handle: e.info.Handle, Mask: wire.ModifyState | wire.ModifySQPSN, State: wire.QPStateRTS}
	if rnr != 0 {
		m.Mask |= wire.ModifyRNRRetry
		m.RNRRetry = rnr
	}
	e.modify(m)
}

func (e *endpoint) modify(m wire.ModifyQP) {
	e.t.Helper()
	if err := e.d.ModifyQP(m); err != nil {
		e.t.Fatal(err)
	}
}

func (e *endpoint) state(s wire.QPState) {
	e.t.Helper()
	e.modify(wire.ModifyQP{Handle: e.info.Handle, Mask: wire.ModifyState, State: s})
}

// put writes an entry without ringing.
func (e *endpoint) put(w *wire.WideTxEntry) {
	off := int(e.info.LLQ) + int(e.pc)%e.depth*e.entry
	copy(e.d.LLQ()[off:off+e.entry], w[:])
	e.pc++
}

func (e *endpoint) ring() { e.d.Ring(e.info.SQDB, uint32(e.pc)) }

func (e *endpoint) post(w *wire.WideTxEntry) {
	e.put(w)
	e.ring()
}

// recv posts a receive into parts of a region: pairs of offset and length.
func (e *endpoint) recv(id uint16, r region, parts ...int) {
	for i := 0; i < len(parts); i += 2 {
		var f wire.RxFlags
		if i == 0 {
			f |= wire.RxFirst
		}
		if i+2 == len(parts) {
			f |= wire.RxLast
		}
		var x wire.RxEntry
		x.Set(id, r.addr+uint64(parts[i]), uint16(parts[i+1]), r.LKey, f)
		copy(e.rq[int(e.rpc)%e.depth*wire.SizeRxDesc:], x[:])
		e.rpc++
	}
	e.d.Ring(e.info.RQDB, uint32(e.rpc))
}

// peer is where requests go: an endpoint's queue pair and the handle of its device.
type peer struct {
	ah   uint16
	qp   uint16
	qkey uint32
}

func (e *endpoint) to(other *endpoint) peer {
	e.t.Helper()
	return peer{must(e.d.CreateAH(e.pd, other.d.GID()))(e.t), other.info.QPNum, other.qkey}
}

// send, write and read make entries.
func (p peer) send(id uint64, bufs ...wire.TxBuf) *wire.WideTxEntry {
	var w wire.WideTxEntry
	e := w.Entry()
	e.Set(uint16(id), wire.TxAlways|wire.TxControl(wire.IOSend), p.qp, uint16(len(bufs)))
	e.SetPeer(0, p.ah, 0)
	e.SetQKey(p.qkey)
	e.SetReqIDHigh(id)
	for i, b := range bufs {
		e.SetBuf(i, b.Addr, b.Length, b.LKey)
	}
	return &w
}

func (p peer) inline(id uint64, data []byte) *wire.WideTxEntry {
	w := p.send(id)
	w.Entry().Set(uint16(id), wire.TxAlways|wire.TxInline|wire.TxControl(wire.IOSend), p.qp, uint16(len(data)))
	copy(w[32:], data)
	return w
}

func (p peer) rdma(op wire.IOOp, id uint64, local wire.TxBuf, addr uint64, rkey uint32) *wire.WideTxEntry {
	w := p.send(id)
	e := w.Entry()
	n := uint16(1)
	if local.Length == 0 {
		n = 0
	}
	e.Set(uint16(id), wire.TxAlways|wire.TxControl(op), p.qp, n)
	e.SetRemote(addr, local.Length, rkey)
	e.SetLocal(local.Addr, local.Length, local.LKey)
	return w
}

// imm adds an immediate to an entry.
func imm(w *wire.WideTxEntry, v uint32) *wire.WideTxEntry {
	w[2] |= byte(wire.TxHasImm)
	binary.LittleEndian.PutUint32(w[8:], v)
	return w
}

// pair is two hosts with an endpoint each that know each other.
type pair struct {
	f    *Fabric
	a, b *endpoint
	ab   peer
	ba   peer
	link [2]*Link // if b is on another fabric
}

// acrossLink makes the ends of new pairs be on two fabrics that are linked.
var acrossLink bool

func newPair(t testing.TB, fo FabricOptions, ao, bo Options, eo epOptions) *pair {
	t.Helper()
	p := &pair{f: NewFabric(fo)}
	t.Cleanup(p.f.Close)
	g := p.f
	if acrossLink {
		fo.Seed += 1000 // for other addresses
		if ao.PeerTimeout == 0 {
			ao.PeerTimeout = 8 * time.Second // the machine may be busy
		}
		g = NewFabric(fo)
		t.Cleanup(g.Close)
	}
	p.a = newHost(t, p.f, ao).endpoint(eo)
	p.b = newHost(t, g, bo).endpoint(eo)
	if acrossLink {
		x, y := streams(t)
		p.link[0], p.link[1] = linkFabrics(t, p.f, g, x, y)
	}
	p.ab, p.ba = p.a.to(p.b), p.b.to(p.a)
	return p
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
