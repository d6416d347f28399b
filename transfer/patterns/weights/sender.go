package weights

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/memory"
)

// The numbers of notices, in the two directions.
const (
	wants   engine.Number = 1 // the receiver wants a version
	arrived engine.Number = 2 // a piece is there, or the version's number
)

const (
	wantsName    = "weights/wants"    // at the sender: 8 bytes for each receiver
	weightsName  = "weights/weights"  // at the receiver
	versionsName = "weights/versions" // at the receiver: 8 bytes for each sender
)

// ErrVersion: the two sides are not at the same version.
var ErrVersion = errors.New("another version of the weights")

// Sender is a rank of those that train.
type Sender struct {
	e       *engine.Engine
	plan    *Schedule
	rank    int
	weights *engine.Region

	wants, version *memory.Block // written by receivers; to be written to them

	mu        sync.Mutex
	receivers []*receiving // by rank; nil: not attached
}

// receiving is a receiver as a sender sees it.
type receiving struct {
	rank              int
	peer              *engine.Peer
	weights, versions *engine.Target
	sent              uint64 // versions
}

// NewSender makes a sender. Its weights are Schedule.SenderBytes long.
func NewSender(e *engine.Engine, s *Schedule, rank int, weights *engine.Region) (*Sender, error) {
	if rank < 0 || rank >= s.Senders || weights.Length() < uint64(s.SenderBytes(rank)) {
		return nil, fmt.Errorf("weights: sender %d of %d with %d bytes of memory", rank, s.Senders, weights.Length())
	}
	n := &Sender{e: e, plan: s, rank: rank, weights: weights, receivers: make([]*receiving, s.Receivers)}
	var err error
	if n.wants, err = memory.Allocate(e, 8*s.Receivers); err != nil {
		return nil, err
	}
	if n.version, err = memory.Allocate(e, 8); err != nil {
		return nil, errors.Join(err, n.wants.Close())
	}
	return n, nil
}

// Attach begins to work for a receiver, which attaches this sender meanwhile. One that
// was attached before is left. A receiver that this sender has no piece for need not be
// attached. From here on the peer is the sender's: when Attach fails it is left, and the
// next try takes one that was joined anew.
func (n *Sender) Attach(ctx context.Context, receiver int, p *engine.Peer) error {
	if receiver < 0 || receiver >= n.plan.Receivers {
		return fmt.Errorf("weights: receiver %d of %d", receiver, n.plan.Receivers)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.receivers[receiver]; old != nil {
		old.peer.Close() // nothing of it comes late
		n.receivers[receiver] = nil
	}
	r := &receiving{rank: receiver, peer: p}
	err := p.Grant(wantsName, n.wants.Region, engine.Write)
	if err == nil {
		r.weights, err = p.Target(ctx, weightsName)
	}
	if err == nil {
		r.versions, err = p.Target(ctx, versionsName)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("weights: sender %d attaches receiver %d: %w", n.rank, receiver, err), p.Close())
	}
	n.receivers[receiver] = r
	return nil
}

// Send sends a version to all receivers that this sender has pieces for, or to those
// given, when each has asked for it. It returns when all is in place: then the weights
// may change. The error names the receivers that did not get it: those that were
// lost, and those that asked for another version. One that got a part of it is left;
// it is attached anew.
func (n *Sender) Send(ctx context.Context, version uint64, receivers ...int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(receivers) == 0 {
		for r := range n.plan.Receivers {
			if n.plan.Pieces(r, n.rank) > 0 {
				receivers = append(receivers, r)
			}
		}
	}
	binary.BigEndian.PutUint64(n.version.Bytes, version)
	to := make([]*sending, n.plan.Receivers)
	var errs []error
	for _, rank := range receivers {
		if rank < 0 || rank >= n.plan.Receivers || n.receivers[rank] == nil {
			errs = append(errs, fmt.Errorf("receiver %d: it is not attached", rank))
			continue
		}
		r := n.receivers[rank]
		if err := n.asked(ctx, r, version); err != nil {
			errs = append(errs, fmt.Errorf("receiver %d: %w", rank, err))
			continue
		}
		to[rank] = &sending{receiving: r}
	}
	for _, p := range n.plan.Sent(n.rank) {
		if s := to[p.To]; s != nil {
			s.write(ctx, engine.Move{Local: n.weights, Remote: s.weights, Segments: p.Segments, Notify: engine.Counts(arrived)})
		}
	}
	for _, s := range to {
		if s == nil {
			continue
		}
		s.write(ctx, engine.Move{Local: n.version.Region, Remote: s.versions, Notify: engine.Counts(arrived),
			Segments: []engine.Segment{{Remote: 8 * uint64(n.rank), Length: 8}}})
		if err := s.wait(ctx); err != nil {
			errs = append(errs, fmt.Errorf("receiver %d: %w", s.rank, err))
			continue
		}
		s.sent++
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("weights: sender %d, version %d: %w", n.rank, version, err)
	}
	return nil
}

// asked waits until a receiver asks for a version, and looks whether it is this one.
func (n *Sender) asked(ctx context.Context, r *receiving, version uint64) error {
	if err := r.peer.Counter(wants).Wait(ctx, r.sent+1); err != nil {
		return err
	}
	if want := binary.BigEndian.Uint64(n.wants.Bytes[8*r.rank:]); want != version {
		return fmt.Errorf("%w: it waits for %d", ErrVersion, want)
	}
	return nil
}

// Close leaves all receivers and frees what the sender has. A receiver that asks for
// the next version has counted the one before; one that has not yet may take the
// sender for lost in the middle of it.
func (n *Sender) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, r := range n.receivers {
		if r != nil {
			errs = append(errs, r.peer.Close())
		}
	}
	return errors.Join(errors.Join(errs...), n.wants.Close(), n.version.Close())
}

// sending is a version on its way to a receiver.
type sending struct {
	*receiving
	transfers []*engine.Transfer
	err       error
}

func (s *sending) write(ctx context.Context, m engine.Move) {
	if s.err != nil {
		return
	}
	t, err := s.peer.Write(ctx, m)
	if err != nil {
		s.err = err
		return
	}
	s.transfers = append(s.transfers, t)
}

// wait waits until all is in place. If not all is, the receiver cannot know how many
// notices to expect: it is left.
func (s *sending) wait(ctx context.Context) error {
	err := s.err
	for _, t := range s.transfers {
		if err == nil {
			err = t.Wait(ctx)
		}
	}
	if err != nil {
		s.peer.Close() // ends the transfers
	}
	return err
}
