package weights

import (
	"fmt"
	"slices"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Piece is what is written in one go.
type Piece struct {
	Tensor   int // among those of the plan
	From, To int // ranks
	Bytes    uint64
	Segments []engine.Segment // Local is the sender's memory, Remote the receiver's
}

// Schedule says who sends what to whom. It does not change.
type Schedule struct {
	Senders, Receivers int
	Tensors            []Tensor

	sent   [][]Piece  // by sender, in order
	pieces [][]int    // how many, by receiver and sender
	place  [2][][]int // of each tensor at each rank of a side: offset, or -1
	bytes  [2][]int   // of each rank's memory
}

const (
	from = iota
	to
)

// align is what tensors' places are multiples of, bytes.
const align = 256

// Plan makes the schedule. Pieces have at most chunk bytes.
func Plan(tensors []Tensor, senders, receivers, chunk int) (*Schedule, error) {
	if senders < 1 || receivers < 1 || chunk < 1 {
		return nil, fmt.Errorf("weights: %d senders, %d receivers, chunks of %d bytes", senders, receivers, chunk)
	}
	s := &Schedule{Senders: senders, Receivers: receivers, Tensors: tensors}
	s.pieces = make([][]int, receivers)
	for r := range s.pieces {
		s.pieces[r] = make([]int, senders)
	}
	s.bytes = [2][]int{make([]int, senders), make([]int, receivers)}
	var all []candidates
	for i := range tensors {
		t := &tensors[i]
		if err := t.check(senders, receivers); err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		s.lay(from, t, t.From)
		s.lay(to, t, t.To)
		all = append(all, s.overlaps(i, max(1, chunk/t.Element))...)
	}
	s.assign(all)
	return s, nil
}

// lay finds places for the parts of a tensor.
func (s *Schedule) lay(side int, t *Tensor, split Split) {
	place := make([]int, len(s.bytes[side]))
	for r := range place {
		place[r] = -1
	}
	for i, ranks := range split.Holders {
		bytes := split.part(t.Shape, i).elements() * t.Element
		for _, r := range ranks {
			place[r] = s.bytes[side][r]
			s.bytes[side][r] += (bytes + align - 1) / align * align
		}
	}
	s.place[side] = append(s.place[side], place)
}

// candidates is a piece, and who could send it.
type candidates struct {
	tensor     int
	what       span
	bytes      int
	to         int
	in, out    span // the parts that it lies in
	candidates []int
}

// overlaps are the pieces of a tensor, of at most so many elements, in the order of
// parts and receivers.
func (s *Schedule) overlaps(tensor, elements int) (all []candidates) {
	t := &s.Tensors[tensor]
	for k, needs := range t.To.Holders {
		out := t.To.part(t.Shape, k)
		for i, holders := range t.From.Holders {
			in := t.From.part(t.Shape, i)
			what, ok := in.overlap(out)
			if !ok {
				continue
			}
			var cut func(span)
			cut = func(p span) {
				if a, b, ok := p.halves(); ok && p.elements() > elements {
					cut(a)
					cut(b)
					return
				}
				for _, r := range needs {
					all = append(all, candidates{tensor, p, p.elements() * t.Element, r, in, out, holders})
				}
			}
			cut(what)
		}
	}
	return all
}

// assign gives each piece to the one with the least to send, and orders them.
func (s *Schedule) assign(all []candidates) {
	slices.SortStableFunc(all, func(a, b candidates) int { return b.bytes - a.bytes })
	load := make([]int, s.Senders)
	pairs := make([][][]Piece, s.Senders) // by sender and receiver
	for i := range pairs {
		pairs[i] = make([][]Piece, s.Receivers)
	}
	for _, c := range all {
		best := slices.MinFunc(c.candidates, func(a, b int) int {
			if load[a] != load[b] {
				return load[a] - load[b]
			}
			return a - b
		})
		load[best] += c.bytes
		s.pieces[c.to][best]++
		pairs[best][c.to] = append(pairs[best][c.to], s.piece(c, best))
	}
	s.sent = make([][]Piece, s.Senders)
	for i, receivers := range pairs {
		for round := i * s.Receivers / s.Senders; ; round++ {
			left := false
			for _, p := range receivers {
				left = left || len(p) > 0
			}
			if !left {
				break
			}
			if p := &receivers[round%s.Receivers]; len(*p) > 0 {
				s.sent[i] = append(s.sent[i], (*p)[0])
				*p = (*p)[1:]
			}
		}
	}
}

// piece is a piece with its places in the memory of both.
func (s *Schedule) piece(c candidates, sender int) Piece {
	p := Piece{Tensor: c.tensor, From: sender, To: c.to, Bytes: uint64(c.bytes)}
	size := s.Tensors[c.tensor].Element
	local, remote := s.place[from][c.tensor][sender], s.place[to][c.tensor][c.to]
	c.what.rows(c.in, c.out, func(in, out, n int) {
		p.Segments = append(p.Segments, engine.Segment{Local: uint64(local + in*size), Remote: uint64(remote + out*size), Length: uint64(n * size)})
	})
	return p
}

// Sent are the pieces that a sender sends, in their order.
func (s *Schedule) Sent(sender int) []Piece { return s.sent[sender] }

// Pieces is how many pieces a receiver gets from a sender.
func (s *Schedule) Pieces(receiver, sender int) int { return s.pieces[receiver][sender] }

// SenderBytes is how many bytes of memory a sender's parts take.
func (s *Schedule) SenderBytes(rank int) int { return s.bytes[from][rank] }

// ReceiverBytes is how many bytes of memory a receiver's parts take.
func (s *Schedule) ReceiverBytes(rank int) int { return s.bytes[to][rank] }

// SenderPlace is at which byte of its memory a sender's part of a tensor begins; -1
// if it has none.
func (s *Schedule) SenderPlace(tensor, rank int) int { return s.place[from][tensor][rank] }

// ReceiverPlace is at which byte of its memory a receiver's part of a tensor begins;
// -1 if it has none.
func (s *Schedule) ReceiverPlace(tensor, rank int) int { return s.place[to][tensor][rank] }
