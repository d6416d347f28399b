package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// Each side's region has half for what the peer writes, and behind it half for what is
// written, or read by the peer.
const (
	halfSize = 2 << 20 // bytes
	// depth is how many operations are in flight: those of a round of the step order.
	depth    = orderWrites + 1
	receives = 2 * depth // which also bounds the notices that nobody has asked for
)

// open opens the NIC and registers the memory: the step device.
func (r *run) open(st *Step) error {
	if n := r.o.Rail.NICs(); n != 1 {
		return &transfer.OptionError{Option: "device", Err: fmt.Errorf("%d NICs; a path is tested between one and one: name it with --device", n)}
	}
	var err error
	if r.rail, err = r.o.Rail.Open(transfer.Want{Peers: 1, NICs: 1, Queues: 1, Depth: depth, Receives: receives}); err != nil {
		return err
	}
	if r.memory, err = verbs.NewBuffer(2*halfSize, verbs.BufferOptions{}); err != nil {
		return err
	}
	if r.region, err = r.rail.Register(r.memory.Bytes()); err != nil {
		return err
	}
	r.result.Local = describe(&r.o, r.rail.Info())
	st.Summary = r.result.Local.String()
	return nil
}

// in is the memory that the peer writes, out what is written or read from here.
func (r *run) in() []byte  { return r.memory.Bytes()[:halfSize] }
func (r *run) out() []byte { return r.memory.Bytes()[halfSize:] }

// keys has both sides offer queue pairs and say where their memory is: the step keys.
func (r *run) keys(ctx context.Context, st *Step) error {
	p, offer, err := r.rail.Offer()
	if err != nil {
		return err
	}
	r.peer = p
	d := r.region.Descriptor()
	word := message{Kind: kindWord, Step: StepKeys, Offer: offer, Region: &place{Addr: d.Addr, Length: d.Length, Key: d.Keys[0]}}
	if err := r.tell(word); err != nil {
		return err
	}
	m, err := r.hear(ctx, kindWord, StepKeys)
	switch {
	case err != nil:
		return err
	case m.Region == nil || len(m.Offer) == 0 || m.Region.Length < 2*halfSize:
		return malformed("neither an offer nor a region of %d bytes", 2*halfSize)
	}
	r.offer = m.Offer
	r.theirs = transfer.Descriptor{Addr: m.Region.Addr, Length: m.Region.Length, Keys: []uint32{m.Region.Key}}
	st.Summary = fmt.Sprintf("%d bytes at %#x by key %#x here, %d at %#x by %#x there", d.Length, d.Addr, d.Keys[0], m.Region.Length, m.Region.Addr, m.Region.Key)
	return nil
}

// connect connects the queue pairs, at both sides at the same time: the step connect.
func (r *run) connect(_ context.Context, st *Step) error {
	if err := r.rail.Accept(r.peer, r.offer); err != nil {
		return err
	}
	i := r.rail.Info()
	st.Summary = fmt.Sprintf("%s, MTU %d", i.Transport, i.MTU)
	st.saw(fmt.Sprintf("%s: work gets into the queues by %s", r.result.Local.Host, i.Path))
	return nil
}

// turn waits until the rail has something to tell, and notes it.
func (r *run) turn(ctx context.Context) error {
	n, err := r.rail.Poll(r.got[:])
	if err == nil && n == 0 {
		if err = ctx.Err(); err == nil {
			err = r.rail.Wait(ctx)
		}
	}
	for _, c := range r.got[:n] {
		switch c.Kind {
		case transfer.Done:
			r.done++
		case transfer.Notice:
			if len(r.notices) >= receives { // an honest peer waits at most behind a round of the step order
				r.broken = cmp.Or(r.broken, malformed("more notices than were due"))
				continue
			}
			r.notices = append(r.notices, c.Imm)
		case transfer.Failed, transfer.Lost:
			if r.broken == nil || errors.Is(r.broken, transfer.ErrFlushed) {
				r.broken = c.Err
			}
		}
	}
	if r.broken != nil {
		return r.broken
	}
	return why(ctx, err)
}

// carry posts operations and waits until all are done.
func (r *run) carry(ctx context.Context, ops []transfer.Op) error {
	want := r.done + len(ops)
	for len(ops) > 0 {
		n, err := r.rail.Post(ops)
		if err != nil {
			return err
		}
		if ops = ops[n:]; len(ops) > 0 {
			if err := r.turn(ctx); err != nil {
				return err
			}
		}
	}
	for r.done < want {
		if err := r.turn(ctx); err != nil {
			if ctx.Err() != nil && r.broken == nil {
				err = fmt.Errorf("%d of the operations that were posted have not completed: %w", want-r.done, err)
			}
			return err
		}
	}
	return nil
}

// notice waits for the peer's next notice.
func (r *run) notice(ctx context.Context) (imm uint32, err error) {
	for len(r.notices) == 0 {
		if err := r.turn(ctx); err != nil {
			if ctx.Err() != nil && r.broken == nil {
				err = fmt.Errorf("no notice of it came: %w", err)
			}
			return 0, err
		}
	}
	imm = r.notices[0]
	r.notices = r.notices[1:]
	return imm, nil
}

// write is one WRITE of bytes from out to the peer's in, at the same offset.
func (r *run) write(k transfer.OpKind, offset, bytes int, imm uint32) transfer.Op {
	op := transfer.Op{Kind: k, Peer: r.peer, Imm: imm, Remote: r.theirs.At(uint64(offset))}
	if bytes > 0 {
		op.Local = r.region.At(uint64(halfSize+offset), uint32(bytes))
	}
	return op
}
