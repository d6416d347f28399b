package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// A connection's first use is dear: NICs fetch what they know of the queue and
// the keys, memory is touched for the first time, threads wake. Warm pays before
// a transfer has to.

// warmName names the memory that peers write to when they warm up. Names that
// begin with 0 are the engine's own.
const warmName = "\x00warm"

// scratch is that memory, for all peers; what is in it means nothing. The blank
// letter is a region of its own, which no peer can write.
type scratch struct {
	mu    sync.Mutex
	buf   *verbs.Buffer
	own   *Region
	blank *Region
}

func (s *scratch) get(e *Engine) (own, blank *Region, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		return s.own, s.blank, nil
	}
	const page = warmPage
	buf, err := verbs.NewBuffer(2*page, verbs.BufferOptions{Populate: true})
	if err != nil {
		return nil, nil, err
	}
	mem := buf.Bytes()
	putLetter(mem[page:], letterBlank, 0, 0)
	if own, err = e.registerOwn(mem[:page]); err == nil {
		if blank, err = e.registerOwn(mem[page:]); err != nil {
			err = errors.Join(err, own.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("memory to warm up with: %w", err), buf.Close())
	}
	s.buf, s.own, s.blank = buf, own, blank
	return own, blank, nil
}

// close frees the memory, once its region was closed.
func (s *scratch) close() error {
	if s.buf == nil {
		return nil
	}
	return s.buf.Close()
}

// Warm has every rail to the peer that is connected carry a few bytes and a
// message, then as many writes as its queue holds, and has the peer do the same, so
// that the first transfer is as fast as others. It returns when all of it has
// arrived, and leaves the workers awake: who begins at once finds them polling. No
// counter counts it.
func (p *Peer) Warm(ctx context.Context) error {
	if p.e.o.Manual != nil {
		return fmt.Errorf("warm up the way to %s: %w", p.name, ErrWaits)
	}
	p.warming.Lock()
	defer p.warming.Unlock()
	p.mu.Lock()
	warmed := p.warmed
	ask := warmed == nil // else it is still about it: an earlier call gave up
	if ask {
		warmed = make(chan struct{})
		p.warmed = warmed
	}
	p.mu.Unlock()
	if ask {
		p.tell(message{kind: msgWarm})
	}
	if err := p.warm(ctx); err != nil {
		return err
	}
	select {
	case <-warmed:
		// Now, for whatever was told by the control connection, the workers have
		// fallen asleep meanwhile.
		return p.practise(ctx)
	case <-p.fenced:
		return p.Err()
	case <-ctx.Done():
		return fmt.Errorf("%s has not warmed up its side: %w", p.name, context.Cause(ctx))
	}
}

// warmBack does for the peer what it asked for.
func (p *Peer) warmBack() error {
	if !p.asked.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: it asks to be warmed up while it is", errProtocol)
	}
	if p.e.o.Manual != nil {
		p.asked.Store(false)
		p.tell(message{kind: msgWarmed})
		return nil
	}
	p.e.ending.Add(1)
	go func() {
		defer p.e.ending.Done()
		// What a transfer would meet, it will: this is a help and no more.
		err := p.warm(p.e.ctx)
		if err == nil {
			err = p.practise(p.e.ctx)
		}
		p.asked.Store(false)
		if err != nil {
			p.trouble(err)
		}
		p.tell(message{kind: msgWarmed})
	}()
	return nil
}

// warmedBack: the peer has.
func (p *Peer) warmedBack() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.warmed == nil {
		return fmt.Errorf("%w: it has warmed up unasked", errProtocol)
	}
	close(p.warmed)
	p.warmed = nil
	return nil
}

// warmPage is how many bytes of a peer's may be written to warm up.
const warmPage = 4096

// practice is how many rounds of transfers warm up what one does not.
const practice = 8

// practise makes transfers as a user does, with all there is between the call and
// the end: first as many requests as the rails' queues hold, so that all of their
// memory was used, then rounds of some.
func (p *Peer) practise(ctx context.Context) error {
	own, _, target, err := p.warmRegions(ctx)
	if err != nil {
		return err
	}
	most := 0
	for _, r := range p.e.rails[:p.rails] {
		most = max(most, r.depth*len(r.w.rails))
	}
	all := make([]Segment, most)
	for i := range all {
		all[i].Length = transfer.MinMessage
	}
	if err := p.warmWrites(ctx, Move{Local: own, Remote: target, Segments: all}); err != nil {
		return err
	}
	page := Move{Local: own, Remote: target, PageSize: warmPage, LocalPages: Pages{Index: []uint32{0}}, RemotePages: Pages{Index: []uint32{0}}}
	each := Move{Local: own, Remote: target, Segments: all[:min(most, p.rails)]}
	for i := range each.Segments {
		each.Segments[i].Length = warmPage
	}
	for range practice {
		if err := p.warm(ctx); err != nil {
			return err
		}
		for _, m := range []Move{each, page} {
			for _, m.Notify = range []Notify{Counts(warmNumber), {}} {
				if err := p.warmWrites(ctx, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// warmWrites has each worker carry out a move.
func (p *Peer) warmWrites(ctx context.Context, m Move) error {
	for range p.workersUp { // they take turns
		t, err := p.Write(ctx, m)
		if err != nil {
			return err
		}
		if err := t.Wait(ctx); err != nil {
			return err
		}
		t.Release()
	}
	return nil
}

// warmRegions gives this side's memory to warm up with, granted to the peer, and
// the peer's.
func (p *Peer) warmRegions(ctx context.Context) (own, blank *Region, target *Target, err error) {
	if own, blank, err = p.e.scratch.get(p.e); err == nil {
		_, err = p.grantName(warmName, own, Write)
	}
	if err == nil {
		target, err = p.Target(ctx, warmName)
	}
	return own, blank, target, err
}

// warm has each rail that is connected carry a write and a message.
func (p *Peer) warm(ctx context.Context) error {
	own, blank, target, err := p.warmRegions(ctx)
	if err == nil {
		err = target.use(Write)
	}
	if err != nil {
		return err
	}
	t := &Transfer{target: target, jobs: make([]job, 2*len(p.at))}
	t.left.Store(int32(len(t.jobs)))
	for i, a := range p.at {
		write := job{t: t, w: a.w, at: a, kind: transfer.OpWrite, work: &t.work, region: own, target: target, dry: true, once: true}
		t.jobs[2*i], t.jobs[2*i+1] = write, write
		t.jobs[2*i+1].kind, t.jobs[2*i+1].region = transfer.OpSend, blank
	}
	p.gate.RLock()
	if p.gone {
		p.gate.RUnlock()
		target.leave()
		return p.Err()
	}
	for i := range t.jobs {
		j := &t.jobs[i]
		j.w.do(func() { j.at.warm(j) })
	}
	p.gate.RUnlock()
	return t.Wait(ctx)
}

// warm posts to every rail that is connected and has room.
func (a *peerAt) warm(j *job) {
	a.active++
	j.held++ // until all is posted
	if a.err != nil {
		j.fail(a.err)
	}
	one := slot{job: j, kind: j.kind, piece: Segment{Length: transfer.MinMessage}}
	for _, l := range a.links {
		if l == nil || !l.room() || one.takesReceive() && l.credits == 0 || j.err != nil {
			continue
		}
		if one.takesReceive() {
			l.credits--
		}
		l.stage(one)
		l.r.ring()
	}
	j.held--
	j.settle()
}
