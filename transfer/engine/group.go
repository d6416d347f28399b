package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/peerdirect/peerdirect/transfer"
)

// Group is transfers to many peers that were begun by one call. Each part ends as
// any transfer does; the group ends with the last.
type Group struct {
	parts []*Transfer
	left  atomic.Int32
	ended atomic.Bool

	mu   sync.Mutex
	done chan struct{}
}

// GroupError is the parts of a group that failed.
type GroupError struct {
	Parts []PartError
	Of    int // parts of the group
}

// PartError is a part that failed.
type PartError struct {
	Part int    // its number
	Peer string // the peer's name
	Err  error
}

func (e *GroupError) Error() string {
	const told = 4
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d parts failed: ", len(e.Parts), e.Of)
	for i, p := range e.Parts[:min(told, len(e.Parts))] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s (part %d): %v", p.Peer, p.Part, p.Err)
	}
	if more := len(e.Parts) - told; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Unwrap gives the parts' errors.
func (e *GroupError) Unwrap() []error {
	errs := make([]error, len(e.Parts))
	for i, p := range e.Parts {
		errs[i] = p.Err
	}
	return errs
}

var groups = sync.Pool{New: func() any { return new(Group) }}

// Scatter begins to write to many peers, each move to the peer whose region it
// names, and gives one handle for all. All moves are checked before anything is
// posted: one that makes no sense is an error, and nothing is written. A peer that
// is lost fails its own part only. Workers post to the peers in turn.
//
// The lists of the moves belong to the group until it has ended. The context bounds
// the wait for places in the queues only: parts that found none when it ends fail.
func (e *Engine) Scatter(ctx context.Context, moves []Move) (*Group, error) {
	g := groups.Get().(*Group)
	for i := range moves {
		m := &moves[i]
		if m.Remote == nil {
			return nil, g.refuse(i, errors.New("it names no region of a peer"))
		}
		if m.Remote.p.e != e {
			return nil, g.refuse(i, fmt.Errorf("the peer %s is another engine's", m.Remote.p.name))
		}
		t, err := m.Remote.p.prepare(transfer.OpWrite, Write, m)
		if err != nil {
			return nil, g.refuse(i, err)
		}
		t.owner = g
		g.parts = append(g.parts, t)
	}
	g.left.Store(int32(len(moves)) + 1) // and this call
	for _, t := range g.parts {
		t.target.p.submit(ctx, t) // what fails is the part's
	}
	g.partEnded()
	return g, nil
}

// refuse gives up what was prepared.
func (g *Group) refuse(part int, err error) error {
	for _, t := range g.parts {
		t.drop()
	}
	g.parts = g.parts[:0]
	groups.Put(g)
	return fmt.Errorf("part %d of a scatter: %w", part, err)
}

// partEnded counts a part that has ended.
func (g *Group) partEnded() {
	if g.left.Add(-1) > 0 {
		return
	}
	g.mu.Lock()
	g.ended.Store(true)
	if g.done != nil {
		close(g.done)
	}
	g.mu.Unlock()
}

// Transfers are the parts, in the order of the moves. They are the group's: it
// releases them.
func (g *Group) Transfers() []*Transfer { return g.parts }

// Progress is how many bytes were placed, of how many, at all peers.
func (g *Group) Progress() (moved, of uint64) {
	for _, t := range g.parts {
		m, o := t.Progress()
		moved, of = moved+m, of+o
	}
	return moved, of
}

// Ended tells whether every part has ended.
func (g *Group) Ended() bool { return g.ended.Load() }

// Done is closed when every part has ended.
func (g *Group) Done() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done == nil {
		g.done = make(chan struct{})
		if g.ended.Load() {
			close(g.done)
		}
	}
	return g.done
}

// Err names the peers whose parts failed, by a *GroupError: nil while the group
// has not ended and where all was done.
func (g *Group) Err() error {
	if !g.Ended() {
		return nil
	}
	var failed []PartError
	for i, t := range g.parts {
		if err := t.Err(); err != nil {
			failed = append(failed, PartError{Part: i, Peer: t.target.p.name, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &GroupError{Parts: failed, Of: len(g.parts)}
}

// Wait returns when the group has ended, with its error. If the context ends
// before, the group goes on: Cancel ends it.
func (g *Group) Wait(ctx context.Context) error {
	select {
	case <-g.Done():
		return g.Err()
	case <-ctx.Done():
		moved, of := g.Progress()
		return fmt.Errorf("%d of %d bytes are placed: %w", moved, of, context.Cause(ctx))
	}
}

// Cancel cancels every part (see [Transfer.Cancel]).
func (g *Group) Cancel() {
	for _, t := range g.parts {
		t.Cancel()
	}
}

// Release gives a group that has ended, and its parts, to those that will be
// begun, so that they allocate nothing. Nobody may use any of it any more.
func (g *Group) Release() {
	for _, t := range g.parts {
		t.Release()
	}
	clear(g.parts)
	g.mu.Lock()
	g.parts, g.done = g.parts[:0], nil
	g.ended.Store(false)
	g.mu.Unlock()
	groups.Put(g)
}
