package perf

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// rdmaSide is one side's device and what it made on it.
type rdmaSide struct {
	o    *Options
	dev  *verbs.Device
	attr verbs.DeviceAttr
	port verbs.PortAttr
	gid  verbs.GIDEntry // Index is Auto where the port needs none

	clock    clock
	lay      layout
	inline   int
	pd       *verbs.PD
	mem      *verbs.Buffer
	mr       *verbs.MR
	channels []*verbs.Channel // of the send queue, of the receive queue; with events only
	scq, rcq *verbs.CQ        // rcq is nil where nothing is received
	qps      []*verbs.RC
	link     *exchange.Link
	rings    *rings
	remote   verbs.RemoteRegion
	mtu      int
}

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

// LimitError is a workload that the device cannot do. It is an
// errors.ErrUnsupported.
type LimitError struct {
	Device  string
	Problem string
}

func (e *LimitError) Error() string { return e.Device + ": " + e.Problem }
func (e *LimitError) Unwrap() error { return errors.ErrUnsupported }

func (r *rdmaSide) limit(format string, args ...any) error {
	return &LimitError{r.dev.Name(), fmt.Sprintf(format, args...)}
}

// check compares the workload with the device's limits.
func (r *rdmaSide) check(w *Workload) error {
	a := &r.attr
	lay := newLayout(w)
	cqes := max(r.sendDepth(w), w.RxDepth) * w.QPs
	switch {
	case w.Op == Atomic && (a.AtomicCap == 0 || r.dev.Transport() == verbs.TransportIWARP):
		return r.limit("the device has no atomic operations")
	case uint64(w.largest()) > uint64(r.port.MaxMsgSize):
		return r.limit("a message has at most %d bytes, %d were asked for (-s)", r.port.MaxMsgSize, w.largest())
	case a.MaxMRSize != 0 && uint64(lay.total()) > a.MaxMRSize:
		return r.limit("a memory region has at most %d bytes, this test needs %d (-s, -q)", a.MaxMRSize, lay.total())
	case r.sendDepth(w) > a.MaxQPWR:
		return r.limit("a send queue holds at most %d requests, %d were asked for (-t)", a.MaxQPWR, r.sendDepth(w))
	case w.Op == Send && w.RxDepth > a.MaxQPWR:
		return r.limit("a receive queue holds at most %d requests, %d were asked for (-r)", a.MaxQPWR, w.RxDepth)
	case w.QPs > a.MaxQP:
		return r.limit("it has at most %d queue pairs, %d were asked for (-q)", a.MaxQP, w.QPs)
	case w.QPs > exchange.MaxQueuePairs:
		return usage("%d queue pairs: at most %d", w.QPs, exchange.MaxQueuePairs)
	case cqes > a.MaxCQE:
		return r.limit("a completion queue holds at most %d entries, this test needs %d (-q times -t or -r)", a.MaxCQE, cqes)
	case r.needsCredits(w) && w.List > max(lay.receives(w)/2, 1):
		return r.limit("iWARP receives in halves of the queue, which takes no list of %d at once (-l, -r)", w.List)
	case w.MTU > r.port.ActiveMTU.Bytes():
		return r.limit("the port's MTU is %d, %d was asked for (-m)", r.port.ActiveMTU.Bytes(), w.MTU)
	case w.MTU != 0 && r.dev.Transport() == verbs.TransportIWARP:
		return r.limit("iWARP has no path MTU of its own (-m)")
	}
	return nil
}

// needsCredits tells whether the sender must know of the receiver's room: loop.h
// says why.
func (r *rdmaSide) needsCredits(w *Workload) bool {
	return w.Op == Send && r.dev.Transport() == verbs.TransportIWARP
}

// sendDepth is what a send queue is made for.
func (r *rdmaSide) sendDepth(w *Workload) int {
	if r.needsCredits(w) {
		return w.TxDepth + offersInFlight
	}
	return w.TxDepth
}

// readDepth is how many reads and atomics this side can have in flight, both
// asking and answering.
func (r *rdmaSide) readDepth() int {
	if r.o.Op != Read && r.o.Op != Atomic {
		return 1
	}
	return max(1, min(r.attr.MaxQPReadAtomic, r.attr.MaxQPInitReadAtomic, math.MaxUint8))
}

func (r *rdmaSide) loops() int { return 1 }

func (r *rdmaSide) describe() *Side {
	s := thisMachine(r.o)
	s.Device, s.Port = r.dev.Name(), r.o.IBPort
	s.Protocol, s.LinkLayer = r.dev.Transport().String(), r.port.LinkLayer.String()
	if r.gid.Type == verbs.GIDTypeRoCEv1 || r.gid.Type == verbs.GIDTypeRoCEv2 {
		s.Protocol = r.gid.Type.String()
	}
	s.GIDIndex = r.gid.Index
	if s.GIDIndex >= 0 {
		s.GIDType = r.gid.Type.String()
	}
	s.MTU, s.Inline = r.mtu, r.inline
	return s
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

// connect makes the objects, and connects them with the peer's.
func (r *rdmaSide) connect(ctx context.Context, s *session) error {
	if err := r.allocate(); err != nil {
		return err
	}
	own := setup{Seed: s.seed, Region: r.mr.Remote(), MaxRead: r.readDepth(), MTU: r.port.ActiveMTU.Bytes()}
	peer, err := s.swapSetup(ctx, own)
	if err != nil {
		return err
	}
	if want := uint64(r.lay.total()); peer.Region.Length < want {
		return fmt.Errorf("the peer's region has %d bytes and the test needs %d: %w", peer.Region.Length, want, exchange.ErrProtocol)
	}
	r.remote = peer.Region
	opts := exchange.Options{Connect: verbs.ConnectOptions{
		Timeout: r.o.QPTimeout, SL: uint8(r.o.SL),
		MaxRead: uint8(max(1, min(own.MaxRead, peer.MaxRead))),
	}}
	if r.o.QPTimeout == 0 {
		opts.Connect.Timeout = verbs.NoRetry // an endless timeout, which is the encoded 0
	}
	if r.dev.Transport() != verbs.TransportIWARP {
		r.mtu = min(own.MTU, peer.MTU)
		if r.o.MTU != 0 {
			r.mtu = r.o.MTU
		}
		var ok bool
		if opts.Connect.MTU, ok = verbs.MTUOf(r.mtu); !ok {
			return fmt.Errorf("the peer's MTU is %d bytes: %w", peer.MTU, exchange.ErrProtocol)
		}
	}
	err = s.within(ctx, func(ctx context.Context) (err error) {
		r.link, err = exchange.ConnectRC(ctx, s.conn, r.qps, opts)
		return err
	})
	if err != nil {
		return err
	}
	r.rings, err = newRings(r)
	return err
}

// prepare sets the next size up: patterns, requests, receives.
func (r *rdmaSide) prepare(s *session, size int) error {
	r.lay.fillOut(r.mem.Bytes(), s.seed, size)
	if r.o.Op == Atomic {
		clear(r.mem.Bytes()[:2*r.lay.half()]) // the counters
	}
	return r.rings.make(size)
}

// verify checks what this side received: own are the messages it initiated on
// each queue, peer those of the peer.
func (r *rdmaSide) verify(s *session, size int, own, peer []uint64) error {
	b := r.mem.Bytes()
	if s.o.beforeCheck != nil {
		s.o.beforeCheck(b[r.lay.half() : 2*r.lay.half()])
	}
	switch r.o.Op {
	case Atomic:
		return r.lay.checkAtomic(b, own, peer)
	case Read:
		return r.lay.checkIn(b, s.peerSeed, size, 0, own)
	}
	skip := 0
	if r.o.Op == Write && r.o.Test == Latency {
		skip = 1 // the byte that counts
	}
	return r.lay.checkIn(b, s.peerSeed, size, skip, peer)
}

// close gives everything back, queue pairs first. The first error counts, and
// none keeps the rest from being tried.
func (r *rdmaSide) close() error {
	var first error
	try := func(err error) {
		if first == nil {
			first = err
		}
	}
	if r.rings != nil {
		r.rings.free()
	}
	for _, qp := range r.qps {
		try(qp.Close())
	}
	try(r.link.Close())
	if r.rcq != nil {
		try(r.rcq.Close())
	}
	if r.scq != nil {
		try(r.scq.Close())
	}
	for _, ch := range r.channels {
		try(ch.Close())
	}
	if r.mr != nil {
		try(r.mr.Close())
	}
	if r.mem != nil {
		try(r.mem.Close())
	}
	if r.pd != nil {
		try(r.pd.Close())
	}
	try(r.dev.Close())
	return first
}
