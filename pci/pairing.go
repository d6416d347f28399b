package pci

import (
	"cmp"
	"fmt"
	"slices"
)

// PairOptions choose how Pair works. The zero value goes by distance alone.
type PairOptions struct {
	Overrides *Overrides // nil is none
	Most      int        // rails of an accelerator by distance; 0 is no bound
}

// Pair is an accelerator and its rails.
type Pair struct {
	Accelerator *Device
	Rails       []*Device // in order of address; none if there is no NIC
	Class       Class     // of the farthest rail; ClassUnknown also without a rail
	Reason      string
}

// Ignored is a device that is not paired, and why.
type Ignored struct {
	Device *Device
	Why    string
}

// Pairing says which NICs are whose rails.
type Pairing struct {
	Pairs    []Pair    // every accelerator, in order of address
	Unpaired []*Device // NICs of the fabric that are nobody's rail
	Ignored  []Ignored // what is no part of the fabric, or a function of what is paired
	Notes    []string
}

// Pair gives each accelerator its rails: of the NICs of the fabric each goes to one
// of the accelerators that have none nearer, so that the accelerator with the
// fewest has as many as can be; among equals the address decides. An accelerator
// that is left without one shares the least shared of its nearest. The same
// machine always gives the same pairs.
//
// Its errors are those of the overrides.
func (t *Topology) Pair(o PairOptions) (*Pairing, error) {
	p := &pairer{t: t, most: o.Most}
	if err := p.override(o.Overrides); err != nil {
		return nil, err
	}
	p.choose()
	p.measure()
	p.shareOut()
	return p.result(), nil
}

// Rails are the NICs that Pair, without overrides, gives an accelerator.
func (t *Topology) Rails(accelerator *Device) []*Device {
	p, err := t.Pair(PairOptions{})
	if err != nil {
		return nil
	}
	for _, pair := range p.Pairs {
		if pair.Accelerator == accelerator {
			return pair.Rails
		}
	}
	return nil
}

// pairer is one run of Pair. Accelerators and NICs are their indexes in accels and
// nics, both in order of address.
type pairer struct {
	t    *Topology
	most int

	given map[*Device]given // an accelerator's rails of the overrides
	left  map[*Device]int   // devices that the overrides leave out, with the line
	also  map[*Device]bool  // NICs that they take in
	owned map[*Device]bool  // rails in given

	all     []*Device // every accelerator
	accels  []*Device // those without rails in given
	nics    []*Device // of the fabric, without those in owned
	ignored []Ignored
	notes   []string

	near  [][]int // for each accelerator the nearest NICs
	best  []Class
	rails [][]int
	owner []int // for each NIC the accelerator that has it alone, or -1
	users []int // for each NIC the number of its accelerators
	tied  []bool
}

type given struct {
	rails []*Device
	line  int
}

// measure finds the nearest NICs of each accelerator.
func (p *pairer) measure() {
	p.near, p.best, p.tied = make([][]int, len(p.accels)), make([]Class, len(p.accels)), make([]bool, len(p.accels))
	reach := make([]int, len(p.nics))
	for i, a := range p.accels {
		least := -1
		for j, n := range p.nics {
			r := p.t.relate(a, n)
			rank := p.t.rank(r)
			if least < 0 || rank < least {
				least, p.best[i], p.near[i] = rank, r.class, p.near[i][:0]
			}
			if rank == least {
				p.near[i] = append(p.near[i], j)
			}
		}
		for _, j := range p.near[i] {
			reach[j]++
		}
	}
	for i := range p.accels {
		p.tied[i] = slices.ContainsFunc(p.near[i], func(j int) bool { return reach[j] > 1 })
	}
}

// rank orders relations, the nearest first: by class, across nodes by the
// firmware's distance, and what is unknown after all that is known.
func (t *Topology) rank(r relation) int {
	const step = 1 << 16
	switch r.class {
	case ClassUnknown:
		return (int(SYS) + 1) * step
	case SYS:
		return int(SYS)*step + min(t.apart(t.affinity(r.a), t.affinity(r.b)), step-1)
	}
	return int(r.class) * step
}

// shareOut gives each NIC to one accelerator, round by round; whoever gets none
// shares.
func (p *pairer) shareOut() {
	p.rails = make([][]int, len(p.accels))
	p.owner, p.users = make([]int, len(p.nics)), make([]int, len(p.nics))
	for j := range p.owner {
		p.owner[j] = -1
	}
	// What a search in vain has seen leads to no free NIC, then or later.
	closed := make([]bool, len(p.nics))
	out := make([]bool, len(p.accels))
	order := p.order()
	for round, more := 0, true; more && (p.most == 0 || round < p.most); round++ {
		more = false
		for _, i := range order {
			if out[i] {
				continue
			}
			var seen []int
			if out[i] = !p.take(i, closed, &seen); out[i] {
				continue
			}
			more = true
			for _, j := range seen {
				closed[j] = false
			}
		}
	}
	for _, i := range order {
		if len(p.rails[i]) > 0 || len(p.near[i]) == 0 {
			continue
		}
		least := p.near[i][0]
		for _, j := range p.near[i] {
			if p.users[j] < p.users[least] {
				least = j
			}
		}
		p.rails[i] = []int{least}
		p.users[least]++
	}
}

// order is whose turn it is: the nearer to its NICs the sooner, so that one whose
// place is unknown takes none from one that is near; then by address.
func (p *pairer) order() []int {
	order := make([]int, len(p.accels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(p.best[a]-1, p.best[b]-1) // unknown wraps around to the last
	})
	return order
}

// take gives an accelerator one more of its nearest NICs: a free one, or one whose
// owner can take another instead.
func (p *pairer) take(i int, closed []bool, seen *[]int) bool {
	for _, j := range p.near[i] {
		if p.owner[j] < 0 {
			p.own(i, j)
			p.users[j]++
			return true
		}
	}
	for _, j := range p.near[i] {
		if closed[j] {
			continue
		}
		closed[j] = true
		*seen = append(*seen, j)
		other := p.owner[j]
		if other != i && p.take(other, closed, seen) {
			held := p.rails[other]
			p.rails[other] = slices.Delete(held, slices.Index(held, j), slices.Index(held, j)+1)
			p.own(i, j)
			return true
		}
	}
	return false
}

func (p *pairer) own(i, j int) {
	p.owner[j] = i
	at, _ := slices.BinarySearch(p.rails[i], j)
	p.rails[i] = slices.Insert(p.rails[i], at, j)
}

func (p *pairer) result() *Pairing {
	out := &Pairing{Ignored: p.ignored}
	sharing := make([][]*Device, len(p.nics))
	for i, held := range p.rails {
		for _, j := range held {
			sharing[j] = append(sharing[j], p.accels[i])
		}
	}
	i := 0
	for _, a := range p.all {
		pair := Pair{Accelerator: a}
		if g, ok := p.given[a]; ok {
			pair.Rails = g.rails
			pair.Reason = fmt.Sprintf("as the overrides say, line %d", g.line)
		} else {
			for _, j := range p.rails[i] {
				pair.Rails = append(pair.Rails, p.nics[j])
			}
			pair.Reason = p.reason(i, sharing)
			i++
		}
		pair.Class = p.t.farthest(a, pair.Rails)
		out.Pairs = append(out.Pairs, pair)
	}
	for j, n := range p.nics {
		if p.users[j] == 0 {
			out.Unpaired = append(out.Unpaired, n)
		}
	}
	p.remark(out)
	out.Notes = p.notes
	return out
}

// farthest is the class of the farthest rail.
func (t *Topology) farthest(a *Device, rails []*Device) (class Class) {
	for i, n := range rails {
		c := t.relate(a, n).class
		if c == ClassUnknown {
			return c
		}
		if i == 0 || c > class {
			class = c
		}
	}
	return class
}
