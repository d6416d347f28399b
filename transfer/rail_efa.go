package transfer

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/verbs"
)

// EFA is a Rail over SRD, the reliable and unordered transport of the Elastic
// Fabric Adapter: one queue pair for all peers, on the kernel's driver or on a
// device in this process.
//
// Where a write completes, the peer's device has placed it. A peer that does
// not answer fails each operation to it on its own and leaves the queue pair to
// the others. SRD has no connections: that a peer ended shows by what is sent to
// it, or by the control connection.
type EFA struct {
	options EFAOptions
	info    Info

	dev    *efa.Device
	ep     *efa.Endpoint
	batch  *efa.Batch
	recvs  *efa.RecvBatch
	inbox  *efaPinned // receive buffers; peers cannot reach them
	notice *efaPinned // what peers name as the target of notices without bytes
	mrs    regions

	peers  []*efaPeer
	byName map[uint32]*efaPeer // by what completions tell of a sender
	room   int                 // operations that fit the send queue
	posted []uint64            // IDs of the batch that is being made

	got        []efa.Completion
	head, tail int          // of those that Poll has not given yet
	refused    []efaRefusal // operations that the device did not take
	late       []efaLate    // what former peers had sent
	lost       int          // peers whose loss has not been told
	closed     bool

	marks marker.Queue
}

type efaPinned struct {
	buf *verbs.Buffer
	mr  *efa.MR
}

type efaPeer struct {
	id     Peer
	stage  peerStage
	ah     *efa.AH
	name   uint32 // see efaName
	to     *efa.Dest
	notice efa.RemoteSlice // for notices without bytes
	flight int             // operations that have not completed
	back   int             // and those in refused, or in late
	err    error           // why it is lost
	told   bool            // and whether Poll has said so
}

type efaRefusal struct {
	peer *efaPeer
	id   uint64
}

// A work request's ID is the operation's, with the peer above it; that of a
// receive is its buffer's number with the highest bit.
const (
	efaIDRecv   = 1 << 63
	efaIDMarked = 1 << 62 // tracers are told of it
	efaIDPeer   = 48      // shift
	maxEFAPeers = 1 << 13
	efaPeerMask = maxEFAPeers - 1
)

// OpenEFA opens a rail on a device.
func OpenEFA(o EFAOptions) (*EFA, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	r := &EFA{options: o, byName: make(map[uint32]*efaPeer), got: make([]efa.Completion, 64), posted: make([]uint64, 0, o.SendDepth)}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *EFA) open() (err error) {
	o := &r.options
	if o.On != nil {
		r.dev = o.On
	} else if e := o.embedded; e != nil {
		r.dev, err = efa.Embedded(e.fabric, device.Options{Name: o.Device, GUID: embeddedGUID(), PeerTimeout: cmp.Or(e.o.PeerTimeout, embeddedPeerTimeout), Latency: e.o.Latency, LineRate: e.o.Gbps, LLQBytes: embeddedLLQ})
	} else {
		r.dev, err = efa.Open(o.Device)
	}
	if err != nil {
		return err
	}
	r.marks.Name(r.dev.Name())
	a := r.dev.Attr()
	switch {
	case a.Caps&efa.CapWrite == 0:
		return fmt.Errorf("%s has no RDMA write: it takes a newer device, driver (linux 6.12 has it) or rdma-core: %w", r.dev.Name(), errors.ErrUnsupported)
	case a.MTU < MessageSize:
		return fmt.Errorf("%s sends messages of up to %d bytes, %d are needed: %w", r.dev.Name(), a.MTU, MessageSize, errors.ErrUnsupported)
	}
	if most := r.dev.MaxSendDepth(0, false); o.SendDepth > most {
		return &OptionError{Option: "depth", Err: fmt.Errorf("%d operations in flight; %s takes %d", o.SendDepth, r.dev.Name(), most)}
	}
	if err = o.share(r.dev.Name(), r.dev.MaxRecvDepth(1)); err != nil {
		return err
	}
	receives := o.Peers * o.RecvDepth
	if r.ep, err = r.dev.CreateSRD(efa.SRDOptions{MaxSend: o.SendDepth, MaxRecv: receives, Notify: true}); err != nil {
		return err
	}
	r.room = o.SendDepth // what the device rounded up is not used
	r.batch, r.recvs = r.ep.Batch(), r.ep.RecvBatch()
	if r.inbox, err = r.pin(receives*MessageSize, efa.LocalWrite); err != nil {
		return err
	}
	if r.notice, err = r.pin(MinMessage, efa.LocalWrite|efa.RemoteWrite); err != nil {
		return err
	}
	r.info = Info{
		Device: r.dev.Name(), NICs: 1, Port: 1, Transport: "EFA SRD", LinkLayer: "unspecified", MTU: a.MTU,
		GID: a.GID.String(), Queues: 1, Path: r.ep.Path().String(), Embedded: o.embedded != nil,
		MaxRegion: a.MaxMRSize, Reads: a.Caps&efa.CapRead != 0,
	}
	for i := range receives {
		r.receive(uint64(i))
	}
	return r.recvs.Post()
}

// embeddedLLQ is the device memory of an embedded device, bytes: more than a
// rail's one send queue needs.
const embeddedLLQ = 4 << 20

// embeddedPeerTimeout is how long a peer may be silent. One on a link may be a busy
// machine away.
const embeddedPeerTimeout = 3 * time.Second

// embeddedGUID draws an address that no device of another process has, whatever
// seed its fabric was given.
func embeddedGUID() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])&^(0xff<<56) | 2<<56 // locally administered
}

func (r *EFA) pin(bytes int, access efa.Access) (*efaPinned, error) {
	p := new(efaPinned)
	var err error
	if p.buf, err = verbs.NewBuffer(bytes, verbs.BufferOptions{}); err != nil {
		return nil, err
	}
	if p.mr, err = r.dev.Register(p.buf.Bytes(), access); err != nil {
		p.buf.Close()
		return nil, err
	}
	return p, nil
}

func (p *efaPinned) close() error {
	if p == nil {
		return nil
	}
	if err := p.mr.Close(); err != nil {
		return err // the device may still write it: leave it mapped
	}
	return p.buf.Close()
}

// Info describes the rail.
func (r *EFA) Info() Info { return r.info }

// Depth is how many operations the send queue holds at once.
func (r *EFA) Depth() int { return r.options.SendDepth }

// Receives is how many messages and notices a peer may send ahead.
func (r *EFA) Receives() int { return r.options.RecvDepth }

// receive adds the receive of a buffer, which the next repost posts.
func (r *EFA) receive(buffer uint64) {
	r.recvs.Recv(r.inbox.mr.At(buffer*MessageSize, MessageSize), efaIDRecv|buffer)
}

// Close ends everything. What fails to close is reported, and tried again by the
// next Close.
func (r *EFA) Close() error {
	r.closed = true
	var errs []error
	try := func(err error) { errs = append(errs, err) }
	if r.batch != nil {
		r.batch.Close()
		r.recvs.Close()
	}
	if r.ep != nil {
		try(r.ep.Close())
	}
	for _, p := range r.peers {
		if p.ah != nil {
			try(p.ah.Close())
		}
	}
	try(r.mrs.close())
	try(r.inbox.close())
	try(r.notice.close())
	if r.dev != nil {
		try(r.dev.Close())
	}
	return errors.Join(errs...)
}
