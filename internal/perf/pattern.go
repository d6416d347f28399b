package perf

import (
	"encoding/binary"
	"fmt"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// VerifyError is data that arrived and is not what was sent. It is an
// exchange.ErrVerification.
type VerifyError struct {
	Size   int
	Queue  int
	Slot   int
	Offset int // of the first byte that differs
	Got    byte
	Want   byte
	Detail string // instead of the bytes
}

func (e *VerifyError) Error() string {
	where := fmt.Sprintf("verification failed: message of %d bytes, queue %d, slot %d", e.Size, e.Queue, e.Slot)
	if e.Detail != "" {
		return where + ": " + e.Detail
	}
	return fmt.Sprintf("%s: byte %d is %#02x and was sent as %#02x", where, e.Offset, e.Got, e.Want)
}

func (e *VerifyError) Unwrap() error { return exchange.ErrVerification }

// pattern is what fills one slot: bytes that neither a neighbour's slot nor an
// earlier run has in the same place.
type pattern struct {
	seed  uint64
	queue int
	slot  int
}

// word is the splitmix64 sequence at position i.
func (p pattern) word(i int) uint64 {
	z := p.seed + uint64(p.queue)<<40 + uint64(p.slot)<<24
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z += uint64(i+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (p pattern) fill(b []byte) {
	i := 0
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, p.word(i))
		i++
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], p.word(i))
	copy(b, last[:])
}

// check compares size bytes.
func (p pattern) check(b []byte, size int) error {
	var want [8]byte
	for off := 0; off < len(b); off += 8 {
		w := p.word(off / 8)
		if len(b)-off >= 8 && binary.LittleEndian.Uint64(b[off:]) == w {
			continue
		}
		binary.LittleEndian.PutUint64(want[:], w)
		for k := 0; k < 8 && off+k < len(b); k++ {
			if b[off+k] != want[k] {
				return &VerifyError{Size: size, Queue: p.queue, Slot: p.slot, Offset: off + k, Got: b[off+k], Want: want[k]}
			}
		}
	}
	return nil
}

// layout places the slots of all queues in one buffer: what goes out first,
// what comes in behind it.
type layout struct {
	queues, slots  int
	stride, region int // bytes of a slot, of a queue's slots
}

const (
	page = 4096
	line = 64
)

// newLayout has messages below a page walk through one, as they would through
// a program's memory; longer ones stay where they are.
func newLayout(w *Workload) layout {
	l := layout{queues: w.QPs, slots: 1, stride: (w.largest() + line - 1) / line * line}
	if w.Test == Bandwidth {
		l.slots = max(page/l.stride, 1)
	}
	if w.Op == Send {
		l.slots = min(l.slots, w.RxDepth) // a message and its receive use the same slot
	}
	l.region = (l.slots*l.stride + page - 1) / page * page
	return l
}

// receives is how many receives are posted on a queue: the receive queue's depth
// in whole rounds over the slots.
func (l layout) receives(w *Workload) int { return w.RxDepth / l.slots * l.slots }

// half is the bytes of one direction.
func (l layout) half() int { return l.queues * l.region }

// total is the bytes of the buffer: both directions, and two lines a queue for
// its credits.
func (l layout) total() int { return 2*l.half() + 2*l.queues*line }

// credit is where a queue's credit from the peer arrives, offer where the one
// for the peer goes out from.
func (l layout) credit(queue int) int { return 2*l.half() + queue*line }
func (l layout) offer(queue int) int  { return l.credit(l.queues + queue) }

func (l layout) out(queue, slot int) int { return queue*l.region + slot*l.stride }
func (l layout) in(queue, slot int) int  { return l.half() + l.out(queue, slot) }

// fillOut puts this side's pattern into everything that goes out, and clears
// what comes in.
func (l layout) fillOut(b []byte, seed uint64, size int) {
	for q := range l.queues {
		for s := range l.slots {
			at := l.out(q, s)
			pattern{seed, q, s}.fill(b[at : at+size])
		}
	}
	clear(b[l.half() : 2*l.half()])
}

// checkIn compares what came in with the peer's pattern: as many slots as
// messages have filled. The last skip bytes of a message are not looked at.
func (l layout) checkIn(b []byte, seed uint64, size, skip int, messages []uint64) error {
	for q := range l.queues {
		for s := range min(uint64(l.slots), messages[q]) {
			at := l.in(q, int(s))
			if err := (pattern{seed, q, int(s)}).check(b[at:at+size-skip], size); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCounter compares a counter that the peer incremented.
func checkCounter(got, want uint64, size, queue int) error {
	if got == want {
		return nil
	}
	return &VerifyError{Size: size, Queue: queue, Detail: fmt.Sprintf("the counter is %d after %d additions of 1", got, want)}
}

// checkAtomic checks both ends of fetch-and-add: the counters that the peer
// incremented, and the values that this side fetched.
func (l layout) checkAtomic(b []byte, own, peer []uint64) error {
	for q := range l.queues {
		if err := checkCounter(binary.NativeEndian.Uint64(b[l.out(q, 0):]), peer[q], atomicSize, q); err != nil {
			return err
		}
		slots := uint64(l.slots)
		for s := range min(slots, own[q]) {
			// The last addition that was fetched into this slot.
			want := (own[q]-1-s)/slots*slots + s
			if got := binary.NativeEndian.Uint64(b[l.in(q, int(s)):]); got != want {
				return &VerifyError{Size: atomicSize, Queue: q, Slot: int(s), Detail: fmt.Sprintf("addition %d fetched %d", want, got)}
			}
		}
	}
	return nil
}
