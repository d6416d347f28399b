package transfer

import (
	"context"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/verbs"
)

func (r *fakeRail) Post(ops []Op) (int, error) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if r.closed {
		return 0, verbs.ErrClosed
	}
	for n := range ops {
		if err := ops[n].check(); err != nil {
			return n, err
		}
		if int(ops[n].Peer) >= len(r.peers) || r.peers[ops[n].Peer].stage != peerOpen {
			return n, noPeer(ops[n].Peer)
		}
		p := r.peers[ops[n].Peer]
		if p.lost == nil && len(r.flying) >= r.o.depth {
			return n, nil
		}
		p.owed++
		r.flying = append(r.flying, ops[n])
	}
	time.AfterFunc(time.Millisecond, func() { // nobody may poll this side
		r.net.mu.Lock()
		defer r.net.mu.Unlock()
		r.work(true)
		r.rouse()
	})
	return len(ops), nil
}

// rouse wakes who sleeps in Wait.
func (r *fakeRail) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// work carries some of the posted operations out, in any order.
func (r *fakeRail) work(all bool) {
	for len(r.flying) > 0 && (all || r.rng.IntN(4) > 0) {
		i := r.rng.IntN(len(r.flying))
		op := r.flying[i]
		r.flying = slices.Delete(r.flying, i, i+1)
		p := r.peers[op.Peer]
		if p.lost == nil && (p.other.rail.closed || p.other.stage != peerOpen || p.other.other != p) {
			p.lost = &LostError{Device: "fake0", Err: errors.New("nobody answers")}
		}
		if p.lost == nil && r.net.drop != nil && r.net.drop(&op) {
			p.lost = &LostError{Device: "fake0", Err: errors.New("the cable is cut")}
		}
		if p.lost == nil {
			p.lost = r.carry(p, &op)
		}
		c := Completion{Kind: Done, Peer: p.id, ID: op.ID}
		if p.lost != nil {
			c.Kind, c.Err = Failed, ErrFlushed
			if !p.told {
				c.Err, p.told = p.lost, true
			}
		}
		r.ready = append(r.ready, c)
	}
	r.rng.Shuffle(len(r.ready), func(i, j int) { r.ready[i], r.ready[j] = r.ready[j], r.ready[i] })
}

func (r *fakeRail) carry(p *fakePeer, op *Op) error {
	data := r.bytes(op.Local)
	other := p.other.rail
	switch op.Kind {
	case OpWrite, OpNotify, OpRead:
		if len(data) > 0 {
			region := other.regions[op.Remote.Key]
			if region == nil {
				return &LostError{Device: "fake0", Err: errors.New("a key that is nobody's")}
			}
			there := region.mem[op.Remote.Addr-uint64(uintptr(unsafe.Pointer(unsafe.SliceData(region.mem)))):][:len(data)]
			if op.Kind == OpRead {
				copy(data, there)
				return nil
			}
			copy(there, data)
			if r.net.damage != nil {
				r.net.damage(op, there)
			}
		}
		if op.Kind == OpNotify {
			other.deliver(Completion{Kind: Notice, Peer: p.other.id, Imm: op.Imm})
		}
	case OpSend:
		other.deliver(Completion{Kind: Message, Peer: p.other.id, Data: slices.Clone(data)})
	}
	return nil
}

func (r *fakeRail) bytes(l Local) []byte {
	if l.Length == 0 {
		return nil
	}
	mem := r.regions[l.Key].mem
	return mem[l.Addr-uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))):][:l.Length]
}

// deliver leaves something for the peer to poll.
func (r *fakeRail) deliver(c Completion) {
	if r.inbox++; r.inbox > r.o.receives {
		r.overrun++
	}
	i := r.rng.IntN(len(r.ready) + 1)
	r.ready = slices.Insert(r.ready, i, c)
	r.rouse()
}

func (r *fakeRail) Poll(out []Completion) (int, error) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if r.closed {
		return 0, verbs.ErrClosed
	}
	r.work(false)
	n := copy(out, r.ready)
	r.ready = slices.Delete(r.ready, 0, n)
	for _, c := range out[:n] {
		switch c.Kind {
		case Message, Notice:
			r.inbox--
		case Done, Failed:
			r.peers[c.Peer].owed--
		}
	}
	return n, nil
}

func (r *fakeRail) Wait(ctx context.Context) error {
	for {
		r.net.mu.Lock()
		r.work(true)
		for _, p := range r.peers {
			if p.lost == nil && p.stage == peerOpen && p.other.rail.closed {
				p.lost, p.told = &LostError{Device: "fake0", Err: errors.New("the peer closed")}, true
				r.ready = append(r.ready, Completion{Kind: Lost, Peer: p.id, Err: p.lost})
			}
		}
		ready := len(r.ready) > 0
		r.net.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
