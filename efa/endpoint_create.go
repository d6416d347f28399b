package efa

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
)

// SRDOptions describe an endpoint. Zero fields take the default in the comment.
type SRDOptions struct {
	PD     *PD // default: the device's own
	CQ     *CQ // completions of both queues; default: one of the endpoint's own, closed with it
	RecvCQ *CQ // completions of receives, if they are to be apart
	// Notify makes Wait possible on the endpoint's own completion queue.
	Notify bool
	// SGID has the endpoint's own completion queue tell senders' GIDs; see
	// CQOptions.SGID.
	SGID bool

	MaxSend    int // sends, writes and reads in flight; default 128; the device may round up
	MaxRecv    int // receives posted; default 128
	MaxSendSGE int // buffers of a SEND; default 1, at most 2
	MaxRecvSGE int // buffers of a receive; default 1
	MaxInline  int // bytes that a request may carry itself; default 0; over 32 doubles the entries

	// InlineWrite allows WriteInline, which doubles the entries
	// (EFADV_QP_FLAGS_INLINE_WRITE).
	InlineWrite bool
	// Unsolicited has peers' writes with immediate complete here without taking a
	// receive (EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV). It takes
	// CapUnsolicitedWrite, of both devices.
	Unsolicited bool
	// Hints allows Batch.Hint (EFADV_WR_EX_WITH_PROCESSING_HINTS).
	Hints bool
	// ServiceLevel is the class of traffic, 0 or 8 for low latency; what it
	// means is the network's.
	ServiceLevel uint8
	QKey         uint32 // messages must carry it; default: drawn by chance
}

// UDOptions describe a datagram endpoint; those of them that need RDMA are
// refused.
type UDOptions = SRDOptions

// qpOptions are an endpoint's options as a domain's createQP wants them.
type qpOptions struct {
	SRDOptions
	ud         bool
	send, recv queue
}

// generations tells queue pairs apart that had one number after another.
var generations atomic.Uint32

// CreateSRD makes a reliable, unordered endpoint, ready to send.
func (d *Device) CreateSRD(o SRDOptions) (*Endpoint, error) { return d.create(o, false) }

// CreateUD makes a datagram endpoint, ready to send. It has SEND alone.
func (d *Device) CreateUD(o UDOptions) (*Endpoint, error) { return d.create(o, true) }

func (o *SRDOptions) defaults() {
	set := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	set(&o.MaxSend, 128)
	set(&o.MaxRecv, 128)
	set(&o.MaxSendSGE, 1)
	set(&o.MaxRecvSGE, 1)
	for o.QKey == 0 {
		// The upper bit marks keys that only the kernel may use.
		o.QKey = rand.Uint32() &^ (1 << 31)
	}
}

func (d *Device) create(o SRDOptions, ud bool) (_ *Endpoint, err error) {
	o.defaults()
	if err := d.check(o, ud); err != nil {
		return nil, err
	}
	if o.PD == nil {
		if o.PD, err = d.PD(); err != nil {
			return nil, err
		}
	}
	ep := &Endpoint{dev: d, opts: o, ud: ud, cq: o.CQ}
	var undo []func() error
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	if ep.cq == nil {
		// The device rounds the queues up to powers of two, and small ones to
		// the least that it has.
		depth := max(1024, powerOfTwo(o.MaxSend)+powerOfTwo(o.MaxRecv*o.MaxRecvSGE))
		if ep.cq, err = d.CreateCQ(CQOptions{Depth: depth, Notify: o.Notify, SGID: o.SGID, Unsolicited: o.Unsolicited}); err != nil {
			return nil, err
		}
		ep.own = true
		undo = append(undo, ep.cq.Close)
	}
	if ep.rcq = o.RecvCQ; ep.rcq == nil {
		ep.rcq = ep.cq
	}
	kind := "srd"
	if ud {
		kind = "ud"
	}
	parents := []*object{&o.PD.object, &ep.cq.object}
	if ep.rcq != ep.cq {
		parents = append(parents, &ep.rcq.object)
	}
	if err = ep.attach("create endpoint", kind, parents...); err != nil {
		return nil, err
	}
	undo = append(undo, func() error { ep.detach(); return nil })
	ep.ctl, err = o.PD.ctl.createQP(qpOptions{SRDOptions: o, ud: ud, send: ep.cq.ctl, recv: ep.rcq.ctl})
	if err != nil {
		return nil, err
	}
	undo = append(undo, ep.ctl.close)
	ep.sends, ep.recvs = ep.ctl.limits()
	if err = ep.cq.reserve(ep.sends); err != nil {
		return nil, err
	}
	undo = append(undo, func() error { ep.cq.release(ep.sends); return nil })
	if err = ep.rcq.reserve(ep.recvs); err != nil {
		return nil, err
	}
	ep.drive()
	ep.rename("%d", ep.ctl.qpn())
	return ep, nil
}

// drive takes the rings, where the device gives them.
func (ep *Endpoint) drive() {
	ep.path = ep.dev.ctl.path()
	send, recv := ep.ctl.rings()
	if send == nil {
		return
	}
	ep.path = Path{Direct: true}
	ep.blocks = send.entry / 64
	generation := generations.Add(1)
	ep.send = newWorkQueue(send, ep.sends, generation)
	ep.recv = newWorkQueue(recv, ep.recvs, generation)
	qpn := uint32(ep.ctl.qpn())
	if ep.cq == ep.rcq {
		ep.cq.ring.attach(qpSlot{qpn, ep.send, ep.recv})
		return
	}
	ep.cq.ring.attach(qpSlot{qpn, ep.send, nil})
	ep.rcq.ring.attach(qpSlot{qpn, nil, ep.recv})
}

// check names the limit that the device does not have; what is left is the
// device's to refuse.
func (d *Device) check(o SRDOptions, ud bool) error {
	wrong := func(err error, format string, args ...any) error {
		return &Error{Op: "create endpoint", Object: d.dev, Err: err, Detail: fmt.Sprintf(format, args...)}
	}
	for _, l := range []struct {
		name      string
		want, max int
	}{
		{"MaxSend", o.MaxSend, d.MaxSendDepth(o.MaxInline, o.InlineWrite)},
		{"MaxRecv", o.MaxRecv, d.MaxRecvDepth(o.MaxRecvSGE)},
		{"MaxSendSGE", o.MaxSendSGE, d.a.MaxSendSGE}, {"MaxRecvSGE", o.MaxRecvSGE, d.a.MaxRecvSGE},
		{"MaxInline", o.MaxInline, max(d.a.MaxInline, d.a.MaxInlineEx)},
	} {
		if l.want < 0 || l.want > l.max {
			return wrong(syscall.EINVAL, "%s is %d, the device's limit is %d", l.name, l.want, l.max)
		}
	}
	switch {
	case o.Unsolicited && d.a.Caps&CapUnsolicitedWrite == 0:
		return wrong(ErrUnsupported, "the device has no unsolicited writes (%v)", d.a.Caps)
	case o.InlineWrite && d.a.Caps&CapWrite == 0:
		return wrong(ErrUnsupported, "the device has no writes (%v)", d.a.Caps)
	case ud && (o.Unsolicited || o.InlineWrite):
		return wrong(ErrUnsupported, "a datagram endpoint has no RDMA")
	case o.PD != nil && o.PD.dev != d || o.CQ != nil && o.CQ.dev != d || o.RecvCQ != nil && o.RecvCQ.dev != d:
		return wrong(syscall.EINVAL, "the domain or a completion queue is of another device")
	case o.RecvCQ != nil && o.CQ == nil:
		return wrong(syscall.EINVAL, "RecvCQ without CQ: name both, or CQ alone")
	}
	return nil
}

func powerOfTwo(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}
