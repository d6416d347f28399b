package pages

import "math/bits"

// permutation is a bijection of [0, n) chosen by a seed. It is computed value
// by value, so that both ends of a transfer hold the same scatter without
// either holding or sending a table.
//
// It is a Feistel network over the next even power of two. Values that fall
// outside are sent through again until they are inside ("cycle walking"): that
// keeps it a bijection, and takes fewer than four turns on average.
type permutation struct {
	n    uint64
	half uint // bits of one half
	mask uint64
	keys [rounds]uint64
}

const rounds = 4

func newPermutation(n, seed uint64) permutation {
	p := permutation{n: n, half: max(uint(bits.Len64(max(n, 1)-1)+1)/2, 1)}
	p.mask = 1<<p.half - 1
	for i := range p.keys {
		seed += 0x9e3779b97f4a7c15
		p.keys[i] = mix(seed)
	}
	return p
}

// at gives the place of i, which must be below n.
func (p *permutation) at(i uint64) uint64 {
	for {
		left, right := i>>p.half, i&p.mask
		for _, k := range p.keys {
			left, right = right, left^mix(right^k)&p.mask
		}
		if i = left<<p.half | right; i < p.n {
			return i
		}
	}
}

// mix is the finalizer of SplitMix64: every bit of the input reaches every bit
// of the output.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
