package ring

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// steps has parts go around, straight between vectors; in the first steps, from
// vectors into scratches, for what comes is added.
//
// Memory into which a neighbour writes is not changed here: a write that was counted
// may be done again, if its rail failed, until it has ended at the neighbour.
func (v *Vector) steps(ctx context.Context, o *operation, first, steps, sums int) error {
	r, d := v.r, &v.r.direct
	chunk := max(r.chunk, (o.n+maxChunks-1)/maxChunks)
	if err := v.begin(ctx, o, chunk); err != nil {
		return err
	}
	out, in := r.walk(o.n, chunk, first, 1), r.walk(o.n, chunk, first-1, steps)
	sent := 0
	send := func(s span, step int) error {
		if err := v.write(ctx, o, sent, s, step, sums); err != nil {
			return fmt.Errorf("chunk %d to the next node: %w", sent, err)
		}
		sent++
		return nil
	}
	for s, _, ok := out.next(); ok; s, _, ok = out.next() {
		if err := send(s, 0); err != nil {
			return err
		}
	}
	taken := 0
	for s, step, ok := in.next(); ok; s, step, ok = in.next() {
		if len(d.came) == taken {
			d.came = append(d.came, 0)
		}
		d.came[taken]++
		if err := r.wait(ctx, o, r.prev.Counter(placed+engine.Number(taken)), d.came[taken]); err != nil {
			return fmt.Errorf("chunk %d from the node before: %w", taken, err)
		}
		taken++
		if step < sums {
			if err := v.add(s, step == sums-1); err != nil {
				return err
			}
		}
		if step < steps-1 {
			if err := send(s, step+1); err != nil {
				return err
			}
		}
	}
	return v.end(ctx, o)
}

// begin tells the node before that this one is ready, and for what, and waits until
// the next one is.
func (v *Vector) begin(ctx context.Context, o *operation, chunk int) error {
	r, d := v.r, &v.r.direct
	if d.flight == nil {
		d.flight = make([]flight, min(max(leastFlight, railFlight*len(r.e.Rails())), mostFlight))
	}
	if err := r.finish(ctx, o, &d.told[0]); err != nil {
		return fmt.Errorf("the last plan to the node before: %w", err)
	}
	at := uint64(slots * r.slotBytes())
	r.header(r.out.Bytes[at:at], o, 0, chunk)
	t, err := r.prev.Write(ctx, engine.Move{Local: r.out.Region, Remote: r.plans, Notify: engine.Counts(ready),
		Segments: []engine.Segment{{Local: at, Length: slotHeader}}})
	if err != nil {
		return fmt.Errorf("plan to the node before: %w", err)
	}
	d.told[0] = t
	d.ready++
	if err := r.wait(ctx, o, r.next.Counter(ready), d.ready); err != nil {
		return fmt.Errorf("plan from the next node: %w", err)
	}
	return r.agree(o, chunk)
}

// write sends a chunk, whose number is by its place in this operation: it is this
// operation's last until the node before has begun the next one.
func (v *Vector) write(ctx context.Context, o *operation, k int, s span, step, sums int) error {
	r, d := v.r, &v.r.direct
	f := &d.flight[k%len(d.flight)]
	if err := r.finish(ctx, o, &f.t); err != nil {
		return err
	}
	at := 4 * uint64(s.from)
	f.list[0] = engine.Segment{Local: at, Remote: at, Length: 4 * uint64(s.to-s.from)}
	m := engine.Move{Local: v.region, Remote: v.next, Notify: engine.Counts(placed + engine.Number(k)), Segments: f.list[:]}
	if step < sums {
		m.Remote = d.scratchNext
		if step > 0 && v.host == nil {
			m.Local = d.work.Region
		}
	}
	t, err := r.next.Write(ctx, m)
	f.t = t
	return err
}

// add adds what came into the scratch. A part's last sum belongs into the vector;
// others do where that is in the process.
func (v *Vector) add(s span, last bool) error {
	r, d := v.r, &v.r.direct
	came := floats(d.scratch.Bytes[4*s.from:], s.to-s.from)
	begun := time.Now()
	if v.host != nil {
		own := v.host[s.from:s.to]
		add(own, came, own)
		r.spent.Sum += time.Since(begun)
		return nil
	}
	if len(v.own) < len(came) {
		v.own = make([]float32, len(came))
	}
	own := v.own[:len(came)]
	if err := readAt(v.mem, own, s.from); err != nil {
		return err
	}
	copied := time.Now()
	sum := floats(d.work.Bytes[4*s.from:], len(came))
	add(sum, came, own)
	added := time.Now()
	r.spent.Copy += copied.Sub(begun)
	r.spent.Sum += added.Sub(copied)
	if !last {
		return nil
	}
	err := writeAt(v.mem, sum, s.from)
	r.spent.Copy += time.Since(added)
	return err
}

// end waits until all that this node wrote has ended, tells the next one, and waits
// for that of the node before: then nobody writes into this node's memory any more.
func (v *Vector) end(ctx context.Context, o *operation) error {
	r, d := v.r, &v.r.direct
	if err := v.landed(ctx, o); err != nil {
		return err
	}
	err := r.finish(ctx, o, &d.told[1])
	if err == nil {
		d.told[1], err = r.next.Notify(ctx, ended)
	}
	if err != nil {
		return fmt.Errorf("the end to the next node: %w", err)
	}
	if err := r.wait(ctx, o, r.prev.Counter(ended), d.ready); err != nil {
		return fmt.Errorf("the end from the node before: %w", err)
	}
	return nil
}

// agree compares the next node's plan with this one's.
func (r *Ring) agree(o *operation, chunk int) error {
	b := r.plan.Bytes
	var want [slotHeader]byte
	if h := r.header(want[:0], o, 0, chunk); string(b[:len(h)]) == string(h) {
		return nil
	}
	return fmt.Errorf("%w: the next node is ready for operation %d, %v of %d elements in chunks of %d; this one does operation %d, %v of %d in chunks of %d",
		ErrMismatch, binary.BigEndian.Uint64(b), kind(binary.BigEndian.Uint32(b[24:])), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint32(b[28:]),
		o.number, o.kind, o.n, chunk)
}

// landed waits until all that was written has ended.
func (v *Vector) landed(ctx context.Context, o *operation) error {
	for i := range v.r.direct.flight {
		if err := v.r.finish(ctx, o, &v.r.direct.flight[i].t); err != nil {
			return fmt.Errorf("a chunk to the next node: %w", err)
		}
	}
	return nil
}
