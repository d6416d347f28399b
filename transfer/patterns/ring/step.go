package ring

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

type kind uint32

const (
	reduceScatter kind = 1 + iota
	allGather
	allReduce
	directAllGather
	directAllReduce
	hop
)

func (k kind) String() string {
	switch k {
	case reduceScatter:
		return "reduce-scatter"
	case allGather:
		return "all-gather"
	case allReduce:
		return "all-reduce"
	case directAllGather:
		return "direct all-gather"
	case directAllReduce:
		return "direct all-reduce"
	case hop:
		return "one hop"
	}
	return fmt.Sprintf("operation %d", uint32(k))
}

// operation is what all nodes do at the time.
type operation struct {
	kind   kind
	number uint64
	n      int         // elements of the vector
	alarm  *time.Timer // of a neighbour that is silent
}

// The header of a slot, big-endian: 8 bytes number of the operation, 8 elements of
// the vector, 8 number of the chunk, 4 kind, 4 elements of the chunk. The elements
// follow at byte 64, as they are in the memory of the nodes, which are of one kind.
const slotHeader = 64

func (r *Ring) slotBytes() int { return slotHeader + 4*r.chunk }

// slot is where chunk k goes.
func slot(k uint64) engine.Number { return engine.Number(k % slots) }

// span is a run of elements.
type span struct{ from, to int }

// walk goes through the chunks that a node sends, or takes, one after the other: of
// part p, of the one before it, and so on.
type walk struct {
	r            *Ring
	n, chunk     int
	part         int // modulo the size
	steps, step  int // of them, and the one it is in
	at, partEnds int
}

func (r *Ring) walk(n, chunk, part, steps int) walk {
	return walk{r: r, n: n, chunk: chunk, part: part, steps: steps, step: -1}
}

// next gives the next chunk and its step; false at the end.
func (w *walk) next() (s span, step int, ok bool) {
	for w.at == w.partEnds {
		if w.step++; w.step >= w.steps {
			w.step = w.steps
			return s, 0, false
		}
		w.at, w.partEnds = w.r.Part(((w.part-w.step)%w.r.size+w.r.size)%w.r.size, w.n)
	}
	s = span{w.at, min(w.at+w.chunk, w.partEnds)}
	w.at = s.to
	return s, w.step, true
}

// staged does an operation by way of slots.
func (r *Ring) staged(ctx context.Context, kind kind, x elements) error {
	return r.do(ctx, kind, x.length(), func(ctx context.Context, o *operation) error {
		hops := r.size - 1
		switch kind {
		case reduceScatter:
			return r.steps(ctx, o, x, r.rank-1, hops, hops)
		case allGather:
			return r.steps(ctx, o, x, r.rank, hops, 0)
		}
		// The sum of part rank ends here, and its way around begins here.
		return r.steps(ctx, o, x, r.rank-1, 2*hops, hops)
	})
}

// steps has parts go around: this node sends the first, and in each step that follows
// what it took in the step before. In the first steps what comes is added.
//
// A node is at most slots chunks ahead with sending of what it has taken. One that
// waits for a credit has therefore taken more than the next one, so not all of them
// wait for credits; and a chunk that somebody waits for was sent, or can be.
func (r *Ring) steps(ctx context.Context, o *operation, x elements, first, steps, sums int) error {
	out, in := r.walk(o.n, r.chunk, first, steps), r.walk(o.n, r.chunk, first-1, steps)
	sent, taken := r.sent, r.taken // before this operation
	held, step, more := out.next()
	// Chunks of the first step need nothing taken; each other one is a chunk taken in
	// the step before, and those come in the order in which they are sent.
	own := uint64(0)
	for {
		for more && r.sent-sent < slots+r.taken-taken && (step == 0 || r.sent-sent-own < r.taken-taken) {
			if err := r.send(ctx, o, x, held); err != nil {
				return err
			}
			if step == 0 {
				own++
			}
			held, step, more = out.next()
		}
		s, at, ok := in.next()
		if !ok {
			if more {
				continue
			}
			return nil
		}
		if err := r.take(ctx, o, x, s, at < sums); err != nil {
			return err
		}
	}
}

// send sends the next chunk when its slot is free.
func (r *Ring) send(ctx context.Context, o *operation, x elements, s span) error {
	k := r.sent
	if err := r.wait(ctx, o, r.next.Counter(credit+slot(k)), k/slots); err != nil {
		return fmt.Errorf("credit for chunk %d from the next node: %w", k, err)
	}
	if err := r.finish(ctx, o, &r.writes[slot(k)]); err != nil { // which has been read, so it ends soon
		return fmt.Errorf("chunk %d to the next node: %w", k-slots, err)
	}
	at := uint64(slot(k)) * uint64(r.slotBytes())
	b := r.out.Bytes[at:]
	n := s.to - s.from
	r.header(b[:0], o, k, n)
	begun := time.Now()
	if err := x.load(floats(b[slotHeader:], n), s.from); err != nil {
		return err
	}
	r.spent.Copy += time.Since(begun)
	list := &r.segments[slot(k)]
	list[0] = engine.Segment{Local: at, Remote: at, Length: slotHeader + 4*uint64(n)}
	w, err := r.next.Write(ctx, engine.Move{Local: r.out.Region, Remote: r.slots, Notify: engine.Counts(arrived + slot(k)), Segments: list[:]})
	if err != nil {
		return fmt.Errorf("chunk %d to the next node: %w", k, err)
	}
	r.writes[slot(k)] = w
	r.sent++
	return nil
}

// take waits for the next chunk, takes it out of its slot and gives the credit.
func (r *Ring) take(ctx context.Context, o *operation, x elements, s span, sum bool) error {
	k := r.taken
	if err := r.wait(ctx, o, r.prev.Counter(arrived+slot(k)), k/slots+1); err != nil {
		return fmt.Errorf("chunk %d from the node before: %w", k, err)
	}
	b := r.in.Bytes[int(slot(k))*r.slotBytes():]
	n := s.to - s.from
	if err := r.check(b, o, k, n); err != nil {
		return err
	}
	if err := x.take(&r.spent, floats(b[slotHeader:], n), s.from, sum); err != nil {
		return err
	}
	given := &r.given[slot(k)]
	err := r.finish(ctx, o, given)
	if err == nil {
		*given, err = r.prev.Notify(ctx, credit+slot(k))
	}
	if err != nil {
		return fmt.Errorf("credit for chunk %d to the node before: %w", k, err)
	}
	r.taken++
	return nil
}

func (r *Ring) header(b []byte, o *operation, k uint64, n int) []byte {
	b = binary.BigEndian.AppendUint64(b, o.number)
	b = binary.BigEndian.AppendUint64(b, uint64(o.n))
	b = binary.BigEndian.AppendUint64(b, k)
	b = binary.BigEndian.AppendUint32(b, uint32(o.kind))
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// check compares the header of a slot with what is expected there.
func (r *Ring) check(b []byte, o *operation, k uint64, n int) error {
	var want [slotHeader]byte
	if h := r.header(want[:0], o, k, n); string(b[:len(h)]) == string(h) {
		return nil
	}
	return fmt.Errorf("%w: the node before sends chunk %d with %d elements, of operation %d, %v of %d elements; this one takes chunk %d with %d, of operation %d, %v of %d",
		ErrMismatch, binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint32(b[28:]),
		binary.BigEndian.Uint64(b), kind(binary.BigEndian.Uint32(b[24:])), binary.BigEndian.Uint64(b[8:]),
		k, n, o.number, o.kind, o.n)
}

// floats are the elements in memory that begins with them.
func floats(b []byte, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n)
}
