package perf

import (
	"fmt"

	"github.com/peerdirect/peerdirect/verbs"
)

// openRDMA opens the device and finds what is wrong with the options before
// anything else is started.
func openRDMA(o *Options) (*rdmaSide, error) {
	dev, err := verbs.Open(o.Device)
	if err != nil {
		return nil, err
	}
	r := &rdmaSide{o: o, dev: dev, clock: newClock()}
	if err := r.query(); err != nil {
		dev.Close()
		return nil, err
	}
	return r, nil
}

func (r *rdmaSide) query() error {
	var err error
	if r.attr, err = r.dev.Attr(); err != nil {
		return err
	}
	if r.port, err = r.dev.Port(r.o.IBPort); err != nil {
		return usage("%v", err)
	}
	if r.port.State != verbs.PortActive {
		return fmt.Errorf("port %d of %s is %v: bring its link or network interface up", r.o.IBPort, r.dev.Name(), r.port.State)
	}
	r.gid.Index = Auto
	switch {
	case r.o.GID != Auto:
		if r.gid, err = r.dev.GIDAt(r.o.IBPort, r.o.GID); err != nil {
			return usage("%v", err)
		}
	case r.port.LinkLayer == verbs.LinkEthernet && r.dev.Transport() == verbs.TransportIB:
		if r.gid, err = r.dev.BestGID(r.o.IBPort); err != nil {
			return err
		}
	}
	return nil
}

// allocate makes everything that the workload needs but the connection.
func (r *rdmaSide) allocate() error {
	w := &r.o.Workload
	r.lay = newLayout(w)
	var err error
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return err
	}
	if r.mem, err = verbs.NewBuffer(r.lay.total(), verbs.BufferOptions{Populate: true}); err != nil {
		return err
	}
	access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	if w.Op == Atomic {
		access |= verbs.RemoteAtomic
	}
	if r.mr, err = r.pd.Register(r.mem.Bytes(), access); err != nil {
		return err
	}
	if r.scq, err = r.createCQ(r.sendDepth(w) * w.QPs); err != nil {
		return err
	}
	if w.Op == Send {
		if r.rcq, err = r.createCQ(w.RxDepth * w.QPs); err != nil {
			return err
		}
	}
	return r.createQPs(access)
}

func (r *rdmaSide) createCQ(depth int) (*verbs.CQ, error) {
	opts := verbs.CQOptions{Depth: depth}
	if r.o.Events {
		ch, err := r.dev.CreateChannel()
		if err != nil {
			return nil, err
		}
		r.channels = append(r.channels, ch)
		opts.Channel = ch
	}
	return r.dev.CreateCQ(opts)
}

func (r *rdmaSide) createQPs(access verbs.Access) error {
	w := &r.o.Workload
	opts := verbs.RCOptions{
		CQ: r.scq, RecvCQ: r.rcq, MaxSend: r.sendDepth(w), MaxRecv: 1,
		Port: r.o.IBPort, GID: r.gid, Access: access &^ verbs.LocalWrite,
	}
	if w.Op == Send {
		opts.MaxRecv = w.RxDepth
	}
	var err error
	for i := range w.QPs {
		var qp *verbs.RC
		if i == 0 {
			qp, err = r.firstQP(opts)
		} else {
			opts.MaxInline = r.inline
			qp, err = r.pd.CreateRC(opts)
		}
		if err != nil {
			return err
		}
		r.qps = append(r.qps, qp)
	}
	return nil
}

// firstQP finds the inline size: only making a queue pair tells what the device
// allows.
func (r *rdmaSide) firstQP(opts verbs.RCOptions) (*verbs.RC, error) {
	w := &r.o.Workload
	sizes := []int{w.Inline}
	if w.Inline == Auto {
		switch {
		case w.Test == Latency && w.Op == Write:
			sizes = []int{inlineWrite, 64, 0}
		case w.Test == Latency && w.Op == Send:
			sizes = []int{inlineSend, 64, 0}
		default:
			sizes = []int{0}
		}
	}
	var first error
	for _, size := range sizes {
		opts.MaxInline = size
		qp, err := r.pd.CreateRC(opts)
		if err == nil {
			r.inline = size
			return qp, nil
		}
		if first == nil {
			first = err
		}
	}
	if w.Inline > 0 {
		opts.MaxInline = 0
		if qp, err := r.pd.CreateRC(opts); err == nil {
			qp.Close()
			return nil, r.limit("it takes no %d bytes inline (-I)", w.Inline)
		}
	}
	return nil, first
}
