package weights

import (
	"fmt"
	"slices"
)

// Tensor is one tensor of a model and how both sides hold it.
type Tensor struct {
	Name    string
	Shape   []int
	Element int // bytes
	From    Split
	To      Split
}

// Split says how a tensor is cut among the ranks of one side: in as many parts along
// a dimension as there are lists of holders. Part i of n is [i*d/n, (i+1)*d/n) of a
// dimension of d. A rank's part is contiguous in its memory, row by row, at the place
// that the schedule tells.
type Split struct {
	Dim     int
	Holders [][]int // of each part: the ranks that hold it, or need it
}

// Sharded is a split with a part for each rank.
func Sharded(dim int, ranks ...int) Split {
	s := Split{Dim: dim}
	for _, r := range ranks {
		s.Holders = append(s.Holders, []int{r})
	}
	return s
}

// Replicated is a split with one part, the whole, that all ranks hold.
func Replicated(ranks ...int) Split { return Split{Holders: [][]int{ranks}} }

// span is a range of indices in each dimension.
type span struct{ from, to []int }

// part is the range of a part.
func (s Split) part(shape []int, i int) span {
	p := span{make([]int, len(shape)), slices.Clone(shape)}
	d, n := shape[s.Dim], len(s.Holders)
	p.from[s.Dim], p.to[s.Dim] = i*d/n, (i+1)*d/n
	return p
}

func (p span) size(dim int) int { return p.to[dim] - p.from[dim] }

// elements is how many there are in a range.
func (p span) elements() int {
	n := 1
	for i := range p.from {
		n *= p.size(i)
	}
	return n
}

// overlap is what two ranges have in common.
func (p span) overlap(q span) (span, bool) {
	r := span{slices.Clone(p.from), slices.Clone(p.to)}
	for i := range r.from {
		r.from[i], r.to[i] = max(p.from[i], q.from[i]), min(p.to[i], q.to[i])
		if r.from[i] >= r.to[i] {
			return r, false
		}
	}
	return r, true
}

// halves cuts a range in two along the outermost dimension that can be cut, so that
// what is contiguous stays so.
func (p span) halves() (a, b span, ok bool) {
	for i := range p.from {
		if n := p.size(i); n > 1 {
			a, b = span{p.from, slices.Clone(p.to)}, span{slices.Clone(p.from), p.to}
			a.to[i] = p.from[i] + n/2
			b.from[i] = a.to[i]
			return a, b, true
		}
	}
	return p, p, false
}

// at is where an element lies in a part, counted in elements.
func (p span) at(index []int) int {
	n := 0
	for i := range index {
		n = n*p.size(i) + index[i] - p.from[i]
	}
	return n
}

// rows calls f for each run of elements of a range that is contiguous in both parts
// that it lies in.
func (p span) rows(in, out span, f func(in, out, elements int)) {
	run, inner := 1, len(p.from)
	for inner > 0 {
		inner--
		run *= p.size(inner)
		if p.size(inner) != in.size(inner) || p.size(inner) != out.size(inner) {
			break // what is outside of it is not contiguous
		}
	}
	for index := slices.Clone(p.from); ; {
		f(in.at(index), out.at(index), run)
		d := inner - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < p.to[d] {
				break
			}
			index[d] = p.from[d]
		}
		if d < 0 {
			return
		}
	}
}

func (t *Tensor) check(senders, receivers int) error {
	const most = 1 << 40
	bytes := t.Element
	for _, d := range t.Shape {
		if d < 1 || bytes < 1 || bytes > most/d {
			return fmt.Errorf("tensor %q: shape %v of elements of %d bytes", t.Name, t.Shape, t.Element)
		}
		bytes *= d
	}
	if len(t.Shape) == 0 || bytes < 1 {
		return fmt.Errorf("tensor %q: shape %v of elements of %d bytes", t.Name, t.Shape, t.Element)
	}
	for _, side := range []struct {
		name  string
		s     Split
		ranks int
	}{{"from", t.From, senders}, {"to", t.To, receivers}} {
		if side.s.Dim < 0 || side.s.Dim >= len(t.Shape) || len(side.s.Holders) == 0 {
			return fmt.Errorf("tensor %q, %s: %d parts along dimension %d of %v", t.Name, side.name, len(side.s.Holders), side.s.Dim, t.Shape)
		}
		seen := make(map[int]bool)
		for i, ranks := range side.s.Holders {
			if len(ranks) == 0 {
				return fmt.Errorf("tensor %q, %s: nobody has part %d", t.Name, side.name, i)
			}
			for _, r := range ranks {
				if r < 0 || r >= side.ranks || seen[r] {
					return fmt.Errorf("tensor %q, %s: rank %d of %d, for part %d; a rank has one part at most", t.Name, side.name, r, side.ranks, i)
				}
				seen[r] = true
			}
		}
	}
	return nil
}
