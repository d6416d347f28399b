package ring

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

type kind uint32

const (
	reduceScatter kind = 1 + iota
	allGather
	allReduce
)

func (k kind) String() string {
	switch k {
	case reduceScatter:
		return "reduce-scatter"
	case allGather:
		return "all-gather"
	case allReduce:
		return "all-reduce"
	}
	return fmt.Sprintf("operation %d", uint32(k))
}

// operation is what all nodes do at the time.
type operation struct {
	kind   kind
	number uint64
	x      []float32
}

// The header of a slot, big-endian: 8 bytes number of the operation, 8 elements of
// the vector, 8 number of the chunk, 4 kind, 4 elements of the chunk. The elements
// follow at byte 64, as they are in the memory of the nodes, which are of one kind.
const slotHeader = 64

func (r *Ring) slotBytes() int { return slotHeader + 4*r.chunk }

// slot is where chunk k goes.
func slot(k uint64) engine.Number { return engine.Number(k % slots) }

// steps has parts go once around, except for the last hop: this node sends the
// first, and in each step that follows what it took in the step before.
func (r *Ring) steps(ctx context.Context, o *operation, first int, take func(x, chunk []float32)) error {
	for s := range r.size - 1 {
		out, in := r.part(o, first-s), r.part(o, first-s-1)
		// Sending and taking by turns, no node waits for a credit that another
		// gives only later.
		for len(out) > 0 || len(in) > 0 {
			if n := min(len(out), r.chunk); n > 0 {
				if err := r.send(ctx, o, out[:n]); err != nil {
					return err
				}
				out = out[n:]
			}
			if n := min(len(in), r.chunk); n > 0 {
				if err := r.take(ctx, o, in[:n], take); err != nil {
					return err
				}
				in = in[n:]
			}
		}
	}
	return nil
}

// part is a part by its number modulo the size.
func (r *Ring) part(o *operation, p int) []float32 {
	from, to := r.Part((p+2*r.size)%r.size, len(o.x))
	return o.x[from:to]
}

// add is the reduction: what comes is the sum so far.
func add(x, chunk []float32) {
	for i := range x {
		x[i] = chunk[i] + x[i]
	}
}

func put(x, chunk []float32) { copy(x, chunk) }

// wait waits for notices of a neighbour, so long as it may be silent.
func (r *Ring) wait(ctx context.Context, c *engine.Counter, n uint64) error {
	if c.Count() >= n {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.silence, fmt.Errorf("%w for %v", ErrSilent, r.silence))
	defer cancel()
	return c.Wait(ctx, n)
}

// send sends the next chunk when its slot is free.
func (r *Ring) send(ctx context.Context, o *operation, chunk []float32) error {
	k := r.sent
	if err := r.wait(ctx, r.next.Counter(credit+slot(k)), k/slots); err != nil {
		return fmt.Errorf("credit for chunk %d from the next node: %w", k, err)
	}
	if w := r.writes[slot(k)]; w != nil { // which has been read, so it ends soon
		if err := w.Wait(ctx); err != nil {
			return fmt.Errorf("chunk %d to the next node: %w", k-slots, err)
		}
		w.Release()
		r.writes[slot(k)] = nil
	}
	at := uint64(slot(k)) * uint64(r.slotBytes())
	b := r.out.Bytes[at:]
	r.header(b[:0], o, k, len(chunk))
	copy(floats(b, len(chunk)), chunk)
	w, err := r.next.Write(ctx, engine.Move{Local: r.out.Region, Remote: r.slots, Notify: engine.Counts(arrived + slot(k)),
		Segments: []engine.Segment{{Local: at, Remote: at, Length: slotHeader + 4*uint64(len(chunk))}}})
	if err != nil {
		return fmt.Errorf("chunk %d to the next node: %w", k, err)
	}
	r.writes[slot(k)] = w
	r.sent++
	return nil
}

// take waits for the next chunk, takes it out of its slot and gives the credit.
func (r *Ring) take(ctx context.Context, o *operation, x []float32, take func(x, chunk []float32)) error {
	k := r.taken
	if err := r.wait(ctx, r.prev.Counter(arrived+slot(k)), k/slots+1); err != nil {
		return fmt.Errorf("chunk %d from the node before: %w", k, err)
	}
	b := r.in.Bytes[int(slot(k))*r.slotBytes():]
	if err := r.check(b, o, k, len(x)); err != nil {
		return err
	}
	take(x, floats(b, len(x)))
	if _, err := r.prev.Write(ctx, engine.Move{Local: r.out.Region, Remote: r.credits, Notify: engine.Counts(credit + slot(k))}); err != nil {
		return fmt.Errorf("credit for chunk %d to the node before: %w", k, err)
	}
	r.taken++
	return nil
}

func (r *Ring) header(b []byte, o *operation, k uint64, n int) []byte {
	b = binary.BigEndian.AppendUint64(b, o.number)
	b = binary.BigEndian.AppendUint64(b, uint64(len(o.x)))
	b = binary.BigEndian.AppendUint64(b, k)
	b = binary.BigEndian.AppendUint32(b, uint32(o.kind))
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// check compares the header of a slot with what is expected there.
func (r *Ring) check(b []byte, o *operation, k uint64, n int) error {
	want := r.header(nil, o, k, n)
	if string(b[:len(want)]) == string(want) {
		return nil
	}
	return fmt.Errorf("%w: the node before sends chunk %d with %d elements, of operation %d, %v of %d elements; this one takes chunk %d with %d, of operation %d, %v of %d",
		ErrMismatch, binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint32(b[28:]),
		binary.BigEndian.Uint64(b), kind(binary.BigEndian.Uint32(b[24:])), binary.BigEndian.Uint64(b[8:]),
		k, n, o.number, o.kind, len(o.x))
}

// floats are the elements in a slot.
func floats(slot []byte, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&slot[slotHeader])), n)
}
