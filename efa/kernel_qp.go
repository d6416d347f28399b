//go:build cgo

package efa

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/verbs"
)

// kernelPair is a queue pair of the kernel's driver.
type kernelPair struct {
	k          *kernel
	qp         *verbs.QP
	o          qpOptions
	send, recv *wqMemory
}

func (d *kernelDomain) createQP(o qpOptions) (queuePair, error) {
	v := verbs.QPOptions{
		Type: verbs.TypeDriver, CQ: o.send.(*kernelCQ).cq, RecvCQ: o.recv.(*kernelCQ).cq,
		MaxSend: o.MaxSend, MaxRecv: o.MaxRecv, MaxSendSGE: o.MaxSendSGE, MaxRecvSGE: o.MaxRecvSGE,
		MaxInline: o.MaxInline, Create: dvCreateQP(o),
	}
	switch {
	case o.ud:
		v.Type, v.Extended, v.Create = verbs.TypeUD, verbs.OpsUD, nil
	case dvHasCreateQP():
		v.Extended = verbs.OpSend | verbs.OpSendImm
		if d.k.dv.caps&CapRead != 0 {
			v.Extended |= verbs.OpRead
		}
		if d.k.dv.caps&CapWrite != 0 {
			v.Extended |= verbs.OpWrite | verbs.OpWriteImm
		}
	}
	qp, err := d.pd.CreateQP(v)
	if o.ServiceLevel != 0 && errors.Is(err, errInvalid) {
		// Older libraries and kernels take the field for nonsense.
		return nil, failed("efadv_create_qp_ex", d.k.dev.Name(), ErrUnsupported, fmt.Sprintf("service level %d takes rdma-core 55 and Linux 6.17 (%v)", o.ServiceLevel, err))
	}
	if err != nil {
		return nil, err
	}
	p := &kernelPair{k: d.k, qp: qp, o: o}
	if err := p.start(); err != nil {
		qp.Close()
		return nil, err
	}
	return p, nil
}

// start brings the queue pair to RTS and takes its rings.
func (p *kernelPair) start() error {
	if err := p.qp.Init(p.o.QKey); err != nil {
		return err
	}
	if err := p.qp.Modify(verbs.QPAttr{State: verbs.StateRTR}, verbs.AttrState); err != nil {
		return err
	}
	if err := p.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.AttrState|verbs.AttrSQPSN); err != nil {
		return err
	}
	if p.o.Hints && !dvHasHints(p.qp.HandleEx()) {
		return &Error{Op: "efadv_qp_from_ibv_qp_ex", Object: p.k.dev.Name(), Err: ErrUnsupported, Detail: "the library gives no way to set processing hints"}
	}
	if !p.k.how.Direct {
		return nil
	}
	send, recv, err := dvQueryQP(p.qp.Handle(), p.k.dev.Name())
	if err != nil {
		return err
	}
	if send.entry != entrySize(p.o.MaxInline, p.o.InlineWrite) || recv.entry != 16 ||
		!isPowerOfTwo(send.count) || !isPowerOfTwo(recv.count) {
		return &Error{Op: "efadv_query_qp_wqs", Object: p.k.dev.Name(), Err: ErrUnsupported,
			Detail: fmt.Sprintf("%d send entries of %d bytes and %d receive entries of %d bytes are no rings of this package's", send.count, send.entry, recv.count, recv.entry)}
	}
	p.send, p.recv = &send, &recv
	return nil
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

func (p *kernelPair) qpn() uint16                    { return uint16(p.qp.QPN()) }
func (p *kernelPair) rings() (send, recv *wqMemory)  { return p.send, p.recv }
func (p *kernelPair) limits() (maxSend, maxRecv int) { return p.qp.MaxSend(), p.qp.MaxRecv() }
func (p *kernelPair) fail() error                    { return p.qp.Fail() }
func (p *kernelPair) close() error                   { return p.qp.Close() }

func (p *kernelPair) state() (State, error) {
	s, err := p.qp.State()
	switch {
	case err != nil:
		return StateOther, err
	case s == verbs.StateRTS:
		return StateReady, nil
	case s == verbs.StateError:
		return StateError, nil
	}
	return StateOther, nil
}

func (p *kernelPair) sendBatch() libBatch {
	return &kernelBatch{p: p, b: p.qp.Batch()}
}

func (p *kernelPair) recvBatch() libRecvBatch {
	return &kernelRecvBatch{p.qp.RecvBatch(), nil}
}

// kernelBatch posts through ibv_wr_*.
type kernelBatch struct {
	p       *kernelPair
	b       *verbs.Batch
	slices  []verbs.Slice
	scratch *verbs.Buffer // inline data until it is posted: memory that C may see
	used    int
}

func (b *kernelBatch) add(r request) error {
	local := verbs.Slice{Addr: r.local.Addr, Length: r.local.Length, LKey: r.local.LKey}
	var flags verbs.SendFlags
	if r.inline != nil {
		if b.scratch == nil {
			var err error
			if b.scratch, err = verbs.NewBuffer(max(1, b.p.qp.MaxSend()*b.p.o.MaxInline), verbs.BufferOptions{}); err != nil {
				return err
			}
		}
		room := b.scratch.Bytes()[b.used:]
		n := copy(room, r.inline)
		b.used += n
		local = verbs.Slice{Addr: uint64(uintptr(pointer(room))), Length: uint32(n)}
		flags = verbs.Inline
	}
	remote := verbs.RemoteSlice{Addr: r.remote.Addr, RKey: r.remote.RKey, Left: r.remote.Left}
	var wr *verbs.WR
	switch {
	case r.op == OpRead:
		wr = b.b.Read(local, remote, r.id)
	case r.op == OpWrite && r.hasImm:
		wr = b.b.WriteImm(local, remote, r.imm, r.id)
	case r.op == OpWrite:
		wr = b.b.Write(local, remote, r.id)
	case r.more != nil:
		b.slices = b.slices[:0]
		for _, s := range r.more {
			b.slices = append(b.slices, verbs.Slice{Addr: s.Addr, Length: s.Length, LKey: s.LKey})
		}
		wr = b.b.SendV(b.slices, r.id)
	case r.hasImm:
		wr = b.b.SendImm(local, r.imm, r.id)
	default:
		wr = b.b.Send(local, r.id)
	}
	name := wr.ToPeer
	if b.p.o.ud {
		name = wr.To
	}
	wr.Flags(flags)
	name(r.to.ah.ctl.(*kernelHandle).ah, uint32(r.to.QPN()), r.to.QKey())
	return nil
}

func (b *kernelBatch) post() error {
	b.used = 0
	return b.b.Post()
}

func (b *kernelBatch) reset() {
	b.used = 0
	b.b.Reset()
}

func (b *kernelBatch) close() {
	b.b.Close()
	if b.scratch != nil {
		b.scratch.Close()
	}
}

// kernelRecvBatch posts through ibv_post_recv.
type kernelRecvBatch struct {
	b      *verbs.RecvBatch
	slices []verbs.Slice
}

func (b *kernelRecvBatch) add(into Slice, more []Slice, id uint64) {
	if more == nil {
		b.b.Recv(verbs.Slice{Addr: into.Addr, Length: into.Length, LKey: into.LKey}, id)
		return
	}
	b.slices = b.slices[:0]
	for _, s := range more {
		b.slices = append(b.slices, verbs.Slice{Addr: s.Addr, Length: s.Length, LKey: s.LKey})
	}
	b.b.RecvV(b.slices, id)
}

func (b *kernelRecvBatch) post() error { return b.b.Post() }
func (b *kernelRecvBatch) reset()      { b.b.Reset() }
func (b *kernelRecvBatch) close()      { b.b.Close() }

// kernelCounter is a completion counter.
type kernelCounter struct{ *verbs.CompletionCounter }

func (k *kernel) createCounter(o CounterOptions) (counter, error) {
	c, err := k.dev.CreateCompletionCounterBy("efadv_create_comp_cntr", dvCreateCounter(o))
	if errors.Is(err, ErrUnsupported) {
		return nil, err
	}
	if err != nil {
		return nil, callError("efadv_create_comp_cntr", k.dev.Name(), err)
	}
	return kernelCounter{c}, nil
}

func (c kernelCounter) read() (done, failed uint64, err error) { return c.Read() }
func (c kernelCounter) set(done, failed uint64) error          { return c.Set(done, failed) }
func (c kernelCounter) add(done, failed uint64) error          { return c.Add(done, failed) }
func (c kernelCounter) close() error                           { return c.Close() }

func (p *kernelPair) attach(c counter, ops CounterOps) error {
	kc, ok := c.(kernelCounter)
	if !ok {
		return &Error{Op: "attach counter", Object: p.k.dev.Name(), Err: errInvalid, Detail: "the counter is of another device"}
	}
	return p.qp.AttachCounter(kc.CompletionCounter, verbs.CounterOps(ops))
}
