package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// grant is a region that this side named to the peer.
type grant struct {
	region    *Region
	rights    Rights
	confirmed chan struct{} // the peer confirmed that it was withdrawn
	leaving   bool
	widening  bool // the peer has asked for more rails, and waits
}

// Target is a peer's region that transfers may name, until the peer withdraws it
// or is gone.
type Target struct {
	// What every request looks at is in one line of the cache.
	withdrawn atomic.Bool
	users     atomic.Int64    // transfers that have not ended
	keys      []atomic.Uint64 // by rail, with keyBit where there is one
	Remote

	p       *Peer
	name    string
	confirm sync.Once

	everywhere bool        // near is all rails that are connected with the peer's
	near       railSet     // those of the first description
	have       sharedSet   // those of which there is a key
	asking     atomic.Bool // the peer was asked for more
	asked      sharedSet   // for these
	refused    sharedSet   // those that it did not give lately
}

// keyBit tells a key from none.
const keyBit = 1 << 32

// keep takes the keys of a description that there were none of.
func (t *Target) keep(r *Remote) {
	r.rails.each(func(i int) bool {
		if i < len(t.keys) && t.keys[i].Load() == 0 {
			t.keys[i].Store(keyBit | uint64(r.d.Keys[i]))
			t.have.add(i) // who sees it finds the key
		}
		return true
	})
}

// Name is the name under which the region was granted.
func (t *Target) Name() string { return t.name }

// use lets a transfer use the region, which gives it back by leave.
func (t *Target) use(need Rights) error {
	t.users.Add(1)
	switch {
	case t.withdrawn.Load():
		t.leave()
		return t.refusal()
	case t.Rights&need == 0:
		t.leave()
		return fmt.Errorf("%w: %s granted %q for %v only", ErrRights, t.p.name, t.name, t.Rights)
	}
	return nil
}

func (t *Target) refusal() error {
	return fmt.Errorf("%w: %s has withdrawn %q", ErrRights, t.p.name, t.name)
}

// leave gives the region back. The last one confirms a withdrawal.
func (t *Target) leave() {
	if t.users.Add(-1) == 0 && t.withdrawn.Load() {
		t.confirmed()
	}
}

func (t *Target) confirmed() {
	t.confirm.Do(func() { t.p.tell(message{kind: msgWithdrawn, name: t.name}) })
}

// Grant tells the peer of a region under a name, and lets it do with it what
// rights say. What the peer may reach is the region and no more. A name that is
// granted already is refused: withdraw it first. A peer takes 16,384 regions.
func (p *Peer) Grant(name string, r *Region, rights Rights) error {
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("grant: a name of %d bytes; it has 1 to %d", len(name), maxName)
	case name[0] == 0:
		return fmt.Errorf("grant %q: names that begin with 0 are the engine's own", name)
	case rights == 0 || rights&^(Read|Write) != 0:
		return fmt.Errorf("grant %q: rights %#x", name, uint8(rights))
	case r.e != p.e:
		return fmt.Errorf("grant %q: the region is another engine's", name)
	}
	granted, err := p.grantName(name, r, rights)
	if err == nil && !granted {
		err = fmt.Errorf("grant %q to %s: it is granted already: withdraw it first", name, p.name)
	}
	return err
}

// grantName grants a region; false if the name is granted already.
func (p *Peer) grantName(name string, r *Region, rights Rights) (bool, error) {
	if err := r.ownAll(); err != nil {
		return false, err
	}
	bytes, err := r.remote(rights).MarshalBinary()
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	if p.err != nil || p.grants[name] != nil {
		err = p.err
		p.mu.Unlock()
		return false, err
	}
	if len(p.grants) >= maxGrants {
		p.mu.Unlock()
		return false, fmt.Errorf("grant %q to %s: %d regions are granted already, as many as a peer takes: withdraw some first", name, p.name, maxGrants)
	}
	p.grants[name] = &grant{region: r, rights: rights, confirmed: make(chan struct{})}
	p.mu.Unlock()
	p.tell(message{kind: msgGrant, name: name, bytes: bytes})
	return true, nil
}

// Target waits until the peer has granted a region under a name.
func (p *Peer) Target(ctx context.Context, name string) (*Target, error) {
	for {
		p.mu.Lock()
		t, changed, err := p.targets[name], p.changed, p.err
		p.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case t != nil:
			return t, nil
		}
		if p.e.o.Manual != nil {
			return nil, fmt.Errorf("%s has not granted %q: %w", p.name, name, ErrWaits)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has not granted %q: %w", p.name, name, context.Cause(ctx))
		}
	}
}

// Withdraw takes a grant back and returns when nothing of the peer lands in the
// region any more: because the peer said so, or, if the context ends before,
// because the peer was given up and is fenced; the error is the context's then.
// A peer that is gone needs no more than its fence.
//
// It is the peer's word: an authenticated peer that breaks it can still reach
// the region until that is closed.
func (p *Peer) Withdraw(ctx context.Context, name string) error {
	p.mu.Lock()
	g, err := p.grants[name], p.err
	ask := g != nil && !g.leaving && err == nil
	if ask {
		g.leaving = true
	}
	p.mu.Unlock()
	switch {
	case g == nil:
		return fmt.Errorf("withdraw %q: it was not granted to %s", name, p.name)
	case ask:
		p.tell(message{kind: msgWithdraw, name: name})
	}
	select {
	case <-g.confirmed:
		return nil
	case <-p.fenced:
		return nil
	case <-ctx.Done():
		err := fmt.Errorf("%s did not confirm that it has left %q: %w", p.name, name, context.Cause(ctx))
		p.end(fmt.Errorf("%w: %w", ErrLost, err))
		<-p.fenced
		return err
	}
}

// maxGrants is how many regions a peer may name: with MaxRails, 50 MiB of keys.
const maxGrants = 1 << 14

// granted takes the peer's description of a region.
func (p *Peer) granted(m *message) error {
	t := &Target{p: p, name: m.name}
	if err := t.UnmarshalBinary(m.bytes); err != nil {
		return err
	}
	switch {
	case t.Incarnation != p.incarnation:
		return fmt.Errorf("%w: it granted a region of another incarnation", errProtocol)
	case len(t.d.Keys) < p.rails:
		return fmt.Errorf("%w: it granted a region with keys of %d rails; %d are connected", errProtocol, len(t.d.Keys), p.rails)
	}
	t.keys = make([]atomic.Uint64, p.rails)
	t.keep(&t.Remote)
	t.near = t.have.load()
	t.everywhere = t.near == p.all
	if m.name == warmName && !t.everywhere {
		return fmt.Errorf("%w: it granted memory to warm up with that has keys of rails %v only", errProtocol, t.near)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.targets[m.name] != nil:
		return fmt.Errorf("%w: it granted %q twice", errProtocol, m.name)
	case len(p.targets) == maxGrants:
		return errors.New("it granted more regions than any peer has use for")
	}
	p.targets[m.name] = t
	p.change()
	return nil
}

// withdrawn stops what goes to a region of the peer's, and confirms when nothing
// is on its way any more.
func (p *Peer) withdrawn(name string) {
	p.mu.Lock()
	t := p.targets[name]
	delete(p.targets, name)
	p.mu.Unlock()
	if t == nil {
		return
	}
	t.withdrawn.Store(true)
	if t.users.Load() == 0 {
		t.confirmed()
		return
	}
	for _, a := range p.at {
		a.w.cancels.Store(true)
		a.w.poke()
	}
}

// confirmed notes that the peer has left a region.
func (p *Peer) confirmed(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.grants[name]; g != nil && g.leaving {
		delete(p.grants, name)
		close(g.confirmed)
	}
}
