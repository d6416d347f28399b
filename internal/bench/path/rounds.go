package path

import (
	"cmp"
	"slices"
)

// keys are all that is measured, in the order of the report. What has no peer
// access is left out.
func (r *rig) keys() (all []key) {
	lanes := 2
	if r.o.Both {
		lanes = 3
	}
	add := func(rt route) {
		for lane := range lanes {
			// The one who copies is who must reach the other.
			if who := lane; rt.way.peer() {
				if rt.way == PeerRead {
					who = 1 - lane
				}
				if lane == both && !(r.can[0] && r.can[1]) || lane != both && !r.can[who] {
					continue
				}
			}
			if lane == both && rt.node >= 0 {
				continue
			}
			for _, size := range r.o.sizes() {
				all = append(all, key{rt, lane, size})
			}
		}
	}
	for _, w := range Ways() {
		if slices.Contains(r.o.Ways, w) {
			add(route{w, -1})
		}
	}
	for i := range r.nodes {
		if slices.Contains(r.o.Ways, Piped) {
			add(route{Piped, i})
		}
	}
	return all
}

// order is what a round measures after what: without access first, since enabling
// it maps all memory; then size by size, so that a size's ways are close to each
// other in time, each round beginning with another way.
func order(all []key, round int) []key {
	keys := slices.Clone(all)
	var routes []route
	for _, k := range keys {
		if !slices.Contains(routes, k.route) {
			routes = append(routes, k.route)
		}
	}
	place := func(k key) (int, uint64, int, int) {
		turn := (slices.Index(routes, k.route) + round) % len(routes)
		if k.way == NoAccess {
			return 0, k.size, turn, k.lane
		}
		return 1, k.size, turn, k.lane
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		a0, a1, a2, a3 := place(a)
		b0, b1, b2, b3 := place(b)
		return cmp.Or(cmp.Compare(a0, b0), cmp.Compare(a1, b1), cmp.Compare(a2, b2), cmp.Compare(a3, b3))
	})
	return keys
}
