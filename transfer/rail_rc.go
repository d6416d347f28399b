package transfer

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/verbs"
)

// RC is a Rail over reliable connections of libibverbs: InfiniBand, RoCE and,
// connected through the RDMA CM, iWARP.
//
// Writes go by a peer's queue pairs in turn, a batch to each. Messages and
// notices all go by the first, whose receives the peer counts. Where a write
// completes, the peer's NIC has acknowledged it (InfiniBand, RoCE), or the
// write precedes everything sent later by the same queue pair (iWARP, whose
// rails have one queue pair to a peer for that reason): in both cases what is
// posted after the completion finds the bytes in place.
type RC struct {
	options RCOptions
	info    Info
	gid     verbs.GIDEntry
	iwarp   bool
	reads   uint8 // that the device answers at once, of a queue pair

	dev     *verbs.Device
	pd      *verbs.PD
	channel *verbs.Channel
	cq      *verbs.CQ
	inbox   *pinned // receive buffers of all peers
	outbox  *pinned // notices where the transport has no immediate
	regions regions

	peers  []*rcPeer
	queues []*rcQueue // by their index in a work request's ID

	wcs        []verbs.Completion // on their own: cgo lets no memory with Go pointers pass
	head, tail int                // of those that Poll has not given yet
	refused    []refusal          // operations that the device tells nothing of
	late       []rcLate           // what former peers had sent
	closed     bool

	marks   marker.Queue
	marking *rcQueue // that the chosen operation is to be posted to
}

// noticeBytes is the size of a notice that goes as a message: a mark and the
// immediate. No message is as short.
const (
	noticeBytes = 8
	noticeMark  = 0x544e4450
)

// OpenRC opens a rail on a device.
func OpenRC(o RCOptions) (*RC, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	r := &RC{options: o, wcs: make([]verbs.Completion, 64)}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *RC) open() (err error) {
	o := &r.options
	if r.dev, err = verbs.Open(o.Device); errors.Is(err, syscall.EINVAL) {
		return &OptionError{Option: "device", Err: err} // there are several
	} else if err != nil {
		return err
	}
	if err = r.describe(); err != nil {
		return err
	}
	if r.iwarp {
		o.Queues = 1
	}
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return err
	}
	if r.channel, err = r.dev.CreateChannel(); err != nil {
		return err
	}
	depth := o.Peers * (o.Queues*(o.SendDepth+1) + o.RecvDepth)
	if r.cq, err = r.dev.CreateCQ(verbs.CQOptions{Depth: depth, Channel: r.channel}); err != nil {
		return err
	}
	if r.inbox, err = r.pin(o.Peers * o.RecvDepth * MessageSize); err != nil || !r.iwarp {
		return err
	}
	r.outbox, err = r.pin(o.Peers * o.SendDepth * noticeBytes)
	return err
}

// describe finds the port and the GID, and says which option is wrong where
// there is none.
func (r *RC) describe() error {
	o := &r.options
	port, err := r.dev.Port(o.Port)
	if err != nil {
		return &OptionError{Option: "port", Err: err}
	}
	if port.State != verbs.PortActive {
		return fmt.Errorf("port %d of %s is %v: bring its interface up: %w", o.Port, r.dev.Name(), port.State, verbs.ErrNoDevice)
	}
	r.marks.Name(r.dev.Name())
	r.iwarp = r.dev.Transport() == verbs.TransportIWARP
	r.info = Info{
		Device: r.dev.Name(), Port: o.Port, Transport: r.dev.Transport().String(),
		LinkLayer: port.LinkLayer.String(), MTU: port.ActiveMTU.Bytes(), NICs: 1, Path: "libibverbs",
	}
	if a, err := r.dev.Attr(); err == nil {
		r.info.MaxRegion = a.MaxMRSize
		r.reads = uint8(min(mostReads, a.MaxQPReadAtomic, a.MaxQPInitReadAtomic))
		r.info.Reads = !r.iwarp && r.reads > 0
	}
	switch {
	case o.GIDIndex != nil:
		if r.gid, err = r.dev.GIDAt(o.Port, *o.GIDIndex); err != nil {
			return &OptionError{Option: "GID index", Err: err}
		}
	case r.iwarp || port.LinkLayer == verbs.LinkInfiniBand:
	default:
		if r.gid, err = r.dev.BestGID(o.Port); err != nil {
			return err
		}
	}
	if !r.gid.GID.IsZero() {
		r.info.GID, r.info.GIDIndex = r.gid.GID.String(), r.gid.Index
		if port.LinkLayer == verbs.LinkEthernet && !r.iwarp {
			r.info.Transport = r.gid.Type.String()
		}
	}
	return nil
}

func (r *RC) pin(bytes int) (*pinned, error) {
	p := new(pinned)
	var err error
	if p.buf, err = verbs.NewBuffer(bytes, verbs.BufferOptions{}); err != nil {
		return nil, err
	}
	if p.mr, err = r.pd.Register(p.buf.Bytes(), verbs.LocalWrite); err != nil {
		p.buf.Close()
		return nil, err
	}
	return p, nil
}

func (p *pinned) close() error {
	if p == nil {
		return nil
	}
	if err := p.mr.Close(); err != nil {
		return err // the device may still write it: leave it mapped
	}
	return p.buf.Close()
}

// Info describes the rail.
func (r *RC) Info() Info {
	i := r.info
	i.Queues = r.options.Queues
	return i
}

// Depth is how many writes a peer's queues hold at once.
func (r *RC) Depth() int { return r.options.Queues * r.options.SendDepth }

// Receives is how many messages and notices a peer may send ahead.
func (r *RC) Receives() int { return r.options.RecvDepth }

// receive adds the receive of a buffer, which the next repost posts.
func (r *RC) receive(q *rcQueue, buffer uint64) {
	q.recvs.Recv(r.inbox.mr.At(buffer*MessageSize, MessageSize), idRecv|q.index|buffer)
}

// Close ends the connections and frees everything. What fails to close is
// reported, and tried again by the next Close.
func (r *RC) Close() error {
	r.closed = true
	var errs []error
	try := func(err error) { errs = append(errs, err) }
	for _, p := range r.peers {
		for _, q := range p.queues {
			q.batch.Close()
			q.recvs.Close()
			try(q.qp.Close())
		}
		try(p.link.Close())
		try(p.meeting.Close())
	}
	try(r.regions.close())
	try(r.inbox.close())
	try(r.outbox.close())
	if r.cq != nil {
		try(r.cq.Close())
	}
	if r.channel != nil {
		try(r.channel.Close())
	}
	if r.pd != nil {
		try(r.pd.Close())
	}
	if r.dev != nil {
		try(r.dev.Close())
	}
	return errors.Join(errs...)
}
