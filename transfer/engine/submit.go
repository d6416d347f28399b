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

// Write begins to write into the peer's region. The lists belong to the transfer
// until it has ended. The context bounds the wait for a place in the queue only.
func (p *Peer) Write(ctx context.Context, m Move) (*Transfer, error) {
	return p.begin(ctx, transfer.OpWrite, Write, m)
}

// Read begins to read from the peer's region.
func (p *Peer) Read(ctx context.Context, m Move) (*Transfer, error) {
	if m.Notify.on {
		return nil, errors.New("read: the peer takes no part in it and counts nothing: notify by a write")
	}
	return p.begin(ctx, transfer.OpRead, Read, m)
}

func (p *Peer) begin(ctx context.Context, kind transfer.OpKind, need Rights, m Move) (*Transfer, error) {
	switch {
	case m.Local == nil || m.Remote == nil:
		return nil, errors.New("a transfer takes a region of each side")
	case m.Local.e != p.e:
		return nil, errors.New("the local region is another engine's")
	case m.Remote.p != p:
		return nil, fmt.Errorf("the region %q is of %s, another peer than %s or another incarnation of it", m.Remote.name, m.Remote.p.name, p.name)
	case m.PageSize != 0 && m.Segments != nil:
		return nil, errors.New("segments and pages in one transfer")
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
	t.work.most = p.piece(bytes)
	proto := job{t: t, kind: kind, region: m.Local, target: m.Remote, notify: m.Notify.on, number: m.Notify.number}
	if m.Notify.on {
		proto.out = p.outgoing(m.Notify.number)
	}
	p.divide(t, &proto)
	for i := range t.jobs {
		if err := p.queue(ctx, &t.jobs[i]); err != nil {
			if i == 0 {
				m.Remote.leave()
				return nil, err
			}
			// Some of it is under way: the rest fails, and so does the whole.
			t.fail(err)
			t.Cancel()
			for range t.jobs[i:] {
				t.finish()
			}
			break
		}
	}
	return t, nil
}

// piece is the most bytes of a request: a transfer that would make few of them is
// cut so that each rail has a share, down to MinShard.
func (p *Peer) piece(bytes uint64) uint64 {
	const page = 4096
	most := uint64(p.e.o.MaxPiece)
	if share := (bytes/uint64(p.rails) + page) &^ (page - 1); share < most {
		most = max(share, min(uint64(p.e.o.MinShard), most))
	}
	return most
}

// divide makes the jobs of a transfer: a share for each worker that has rails to
// the peer. One that is not worth it goes to one of them.
func (p *Peer) divide(t *Transfer, proto *job) {
	workers := p.e.workers[:p.workersUp]
	units := t.work.units()
	n := len(workers)
	if n == 1 || t.bytes < 2*t.work.most {
		n = 1
	} else if units < n {
		t.work.cut(n)
		units = t.work.units()
	}
	t.jobs = t.own[:]
	if n > 1 {
		t.jobs = make([]job, min(n, units))
	}
	n = len(t.jobs)
	t.left.Store(int32(n))
	t.moving.Store(int32(n))
	first := int(p.next.Add(1))
	for i := range t.jobs {
		j := &t.jobs[i]
		*j = *proto
		j.at = p.at[(first+i)%len(workers)]
		j.w, j.work = j.at.w, &t.work
		j.c = cursor{unit: units * i / n, end: units * (i + 1) / n}
	}
}

// cut makes n segments or more of a few.
func (w *work) cut(n int) {
	cut := work{most: w.most}
	for i := range w.units() {
		u := w.unit(i)
		each := (u.Length/uint64(n) + 4096) &^ 4095
		for u.Length > 0 {
			l := min(each, u.Length)
			cut.segments = append(cut.segments, Segment{u.Local, u.Remote, l})
			u = Segment{u.Local + l, u.Remote + l, u.Length - l}
		}
	}
	*w = cut
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
			return fmt.Errorf("%d operations wait for worker %d already", cap(w.queue), w.index)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d operations wait for worker %d already: %w", cap(w.queue), w.index, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}
