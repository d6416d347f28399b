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

// Receiver is a rank of those that serve.
type Receiver struct {
	plan    *Schedule
	rank    int
	weights *engine.Region

	versions, want *memory.Block // written by senders; to be written to them

	mu      sync.Mutex
	senders []*serving // by rank; nil: not attached
	pending bool
	version uint64 // that is pending
}

// serving is a sender as a receiver sees it.
type serving struct {
	rank     int
	peer     *engine.Peer
	wants    *engine.Target
	asked    bool             // for the version that is pending
	asking   *engine.Transfer // that asked last
	received uint64           // versions
}

// NewReceiver makes a receiver. Its weights are Schedule.ReceiverBytes long.
func NewReceiver(e *engine.Engine, s *Schedule, rank int, weights *engine.Region) (*Receiver, error) {
	if rank < 0 || rank >= s.Receivers || weights.Length() < uint64(s.ReceiverBytes(rank)) {
		return nil, fmt.Errorf("weights: receiver %d of %d with %d bytes of memory", rank, s.Receivers, weights.Length())
	}
	n := &Receiver{plan: s, rank: rank, weights: weights, senders: make([]*serving, s.Senders)}
	var err error
	if n.versions, err = memory.Allocate(e, 8*s.Senders); err != nil {
		return nil, err
	}
	if n.want, err = memory.Allocate(e, 8); err != nil {
		return nil, errors.Join(err, n.versions.Close())
	}
	return n, nil
}

// Attach begins to work with a sender, which attaches this receiver meanwhile. One
// that was attached before is replaced. No Receive may be under way. A sender that has
// no piece for this receiver need not be attached.
func (n *Receiver) Attach(ctx context.Context, sender int, p *engine.Peer) error {
	if sender < 0 || sender >= n.plan.Senders {
		return fmt.Errorf("weights: sender %d of %d", sender, n.plan.Senders)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.senders[sender]; old != nil {
		old.peer.Close() // nothing of it comes late
		n.senders[sender] = nil
	}
	s := &serving{rank: sender, peer: p}
	err := errors.Join(p.Grant(weightsName, n.weights, engine.Write), p.Grant(versionsName, n.versions.Region, engine.Write))
	if err == nil {
		s.wants, err = p.Target(ctx, wantsName)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("weights: receiver %d attaches sender %d: %w", n.rank, sender, err), p.Close())
	}
	n.senders[sender] = s
	return nil
}

// Receive asks every sender for a version and waits until all of it is in place. The
// weights are of no use meanwhile, nor when it has failed. After an error it may be
// called again for the same version, when the senders that the error names have been
// attached anew: what others sent stays.
func (n *Receiver) Receive(ctx context.Context, version uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending && n.version != version {
		return fmt.Errorf("weights: receiver %d: %w: %d is under way, and must come before %d", n.rank, ErrVersion, n.version, version)
	}
	if !n.pending {
		// All that were asked have given: nothing reads it any more.
		binary.BigEndian.PutUint64(n.want.Bytes, version)
		n.pending, n.version = true, version
	}
	var errs []error
	each := func(f func(*serving) error) {
		for rank, s := range n.senders {
			if n.plan.Pieces(n.rank, rank) == 0 {
				continue
			}
			err := fmt.Errorf("it is not attached")
			if s != nil {
				err = f(s)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("sender %d: %w", rank, err))
			}
		}
	}
	each(func(s *serving) error { return n.ask(ctx, s) })
	if len(errs) == 0 {
		each(func(s *serving) error { return n.wait(ctx, s) })
	}
	if len(errs) == 0 {
		each(n.given)
		n.pending = false
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("weights: receiver %d, version %d: %w", n.rank, version, err)
	}
	return nil
}

// ask asks a sender for the version, unless it was asked.
func (n *Receiver) ask(ctx context.Context, s *serving) (err error) {
	if s.asked {
		return nil
	}
	s.asking, err = s.peer.Write(ctx, engine.Move{Local: n.want.Region, Remote: s.wants, Notify: engine.Counts(wants),
		Segments: []engine.Segment{{Remote: 8 * uint64(n.rank), Length: 8}}})
	s.asked = err == nil
	return err
}

// wait waits for a sender's pieces and its version.
func (n *Receiver) wait(ctx context.Context, s *serving) error {
	each := uint64(n.plan.Pieces(n.rank, s.rank)) + 1
	if err := s.peer.Counter(arrived).Wait(ctx, (s.received+1)*each); err != nil {
		return err
	}
	return s.asking.Wait(ctx)
}

// given notes that a sender has given the version, and looks which one it was.
func (n *Receiver) given(s *serving) error {
	s.asked = false
	s.received++
	if v := binary.BigEndian.Uint64(n.versions.Bytes[8*s.rank:]); v != n.version {
		return fmt.Errorf("%w: it gave %d", ErrVersion, v)
	}
	return nil
}

// Close leaves all senders and frees what the receiver has: nothing lands in its
// weights any more.
func (n *Receiver) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, s := range n.senders {
		if s != nil {
			errs = append(errs, s.peer.Close())
		}
	}
	return errors.Join(errors.Join(errs...), n.versions.Close(), n.want.Close())
}
