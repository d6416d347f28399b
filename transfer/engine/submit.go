package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// Notify says which number of the peer's counts a transfer that is done. The zero
// value says that none does.
type Notify struct {
	number Number
	on     bool
}

// Counts is the number that counts.
func Counts(n Number) Notify { return Notify{n, true} }

// Move is what a transfer moves: either segments or pages, between a region of
// this side and one of the peer's.
type Move struct {
	Local  *Region
	Remote *Target

	Segments []Segment

	PageSize    uint64 // bytes; with the two lists, which are of one length
	LocalPages  Pages
	RemotePages Pages

	// Notify has the peer count the transfer once all its bytes are in place.
	// Only writes notify.
	Notify Notify
}

var errNumber = fmt.Errorf("notify: the number %d is the engine's own; they go from 0 to %d", warmNumber, MaxNumber)

// Write begins to write into the peer's region. The lists belong to the transfer
// until it has ended. The context bounds the wait for a place in the queue only.
func (p *Peer) Write(ctx context.Context, m Move) (*Transfer, error) {
	return p.begin(ctx, transfer.OpWrite, Write, &m)
}

// Read begins to read from the peer's region.
func (p *Peer) Read(ctx context.Context, m Move) (*Transfer, error) {
	if m.Notify.on {
		return nil, errors.New("read: the peer takes no part in it and counts nothing: notify by a write")
	}
	return p.begin(ctx, transfer.OpRead, Read, &m)
}

// Notify has the peer count a number, without any bytes. It takes no region, and is
// no promise about other transfers: name the number in their moves for that.
func (p *Peer) Notify(ctx context.Context, n Number) (*Transfer, error) {
	if n > MaxNumber {
		return nil, errNumber
	}
	t := transfers.Get().(*Transfer)
	t.target = &p.own
	p.own.users.Add(1)
	p.divide(t, &job{t: t, kind: transfer.OpWrite, target: &p.own, notify: true, number: n, out: p.outgoing(n)})
	return p.start(ctx, t)
}

func (p *Peer) begin(ctx context.Context, kind transfer.OpKind, need Rights, m *Move) (*Transfer, error) {
	t, err := p.prepare(kind, need, m)
	if err != nil {
		return nil, err
	}
	return p.start(ctx, t)
}

// start submits a transfer; one of which nothing could be queued is an error.
func (p *Peer) start(ctx context.Context, t *Transfer) (*Transfer, error) {
	if n, err := p.submit(ctx, t); n == 0 && err != nil {
		t.Release() // it has ended, and nobody else knows of it
		return nil, err
	}
	return t, nil
}

// prepare checks a move, and makes a transfer of it that uses its target. It is
// to be submitted, or dropped.
func (p *Peer) prepare(kind transfer.OpKind, need Rights, m *Move) (*Transfer, error) {
	switch {
	case m.Local == nil || m.Remote == nil:
		return nil, errors.New("a transfer takes a region of each side")
	case m.Local.e != p.e:
		return nil, errors.New("the local region is another engine's")
	case m.Remote.p != p:
		return nil, fmt.Errorf("the region %q is of %s, another peer than %s or another incarnation of it", m.Remote.name, m.Remote.p.name, p.name)
	case m.PageSize != 0 && m.Segments != nil:
		return nil, errors.New("segments and pages in one transfer")
	case m.Notify.number > MaxNumber && m.Remote.name != warmName:
		return nil, errNumber
	}
	t := transfers.Get().(*Transfer)
	t.work = work{segments: m.Segments, local: m.LocalPages, remote: m.RemotePages, size: m.PageSize}
	bytes, err := t.work.check(m.Local.length, m.Remote.Length())
	if err == nil {
		err = m.Remote.use(need)
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	t.bytes, t.target = bytes, m.Remote
	lanes, err := p.lanes(m.Local, m.Remote, &t.lanes)
	if err != nil {
		t.drop()
		return nil, err
	}
	t.work.most = p.piece(bytes, lanes)
	if m.Notify.on && t.work.units() == 1 && bytes <= p.share() {
		t.work.most = uint64(p.e.o.MaxPiece) // whole, with its notice, if it may be
	}
	proto := job{t: t, kind: kind, region: m.Local, target: m.Remote, lanes: lanes, notify: m.Notify.on, number: m.Notify.number}
	if m.Notify.on {
		proto.out = p.outgoing(m.Notify.number)
	}
	p.divide(t, &proto)
	return t, nil
}

// drop gives up a transfer that was prepared and not submitted.
func (t *Transfer) drop() {
	t.target.leave()
	t.Release()
}

// submit queues a transfer's jobs and tells how many. Where one cannot be queued,
// the transfer fails, and ends with those that were.
func (p *Peer) submit(ctx context.Context, t *Transfer) (queued int, err error) {
	many := len(t.jobs)
	for queued < many && err == nil {
		if err = p.queue(ctx, &t.jobs[queued]); err == nil {
			queued++
		}
	}
	if err == nil {
		return queued, nil
	}
	t.fail(err)
	if queued > 0 {
		t.Cancel()
	}
	notify := t.jobs[many-1].notify // it was not queued
	for range many - queued {
		if notify && t.moving.Add(-1) == 0 && queued > 0 {
			t.jobs[0].others()
		}
		t.finish()
	}
	return queued, err
}

// queue hands a job to its worker.
func (p *Peer) queue(ctx context.Context, j *job) error {
	w := j.w // once it is queued, it may be handed over
	for wait := time.Microsecond; ; wait = min(2*wait, time.Millisecond) {
		p.gate.RLock()
		if p.gone {
			p.gate.RUnlock()
			return p.Err()
		}
		select {
		case w.queue <- j:
			p.gate.RUnlock()
			w.poke()
			return nil
		default:
		}
		p.gate.RUnlock()
		if p.e.o.Manual != nil {
			return fmt.Errorf("%d operations wait for worker %d already: %w", cap(w.queue), w.index, ErrWaits)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d operations wait for worker %d already: %w", cap(w.queue), w.index, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}
