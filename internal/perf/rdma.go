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
