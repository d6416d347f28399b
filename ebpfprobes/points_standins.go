package ebpfprobes

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// standInsLast gives a table's sites in the order of attaching: what stands in for others
// comes after them, since it is only known then whether it has to.
func standInsLast(sites []site) []int {
	order := make([]int, len(sites))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case sites[a].unless == "" && sites[b].unless != "":
			return -1
		case sites[a].unless != "" && sites[b].unless == "":
			return 1
		}
		return 0
	})
	return order
}

// standsBy tells whether a site is not needed, be it usable or not: the role for which
// it stands in is played at all its functions.
func (s *site) standsBy(all []site) bool {
	return s.unless != "" && !slices.ContainsFunc(all, func(o site) bool {
		return o.unless == "" && o.probe.Role == s.unless && o.probe.Usable != Yes
	})
}

// planned is a site's probe before anything is attached.
func (s *site) planned(all []site) Probe {
	p := s.probe
	if s.standsBy(all) {
		p.Needed = false
		if p.Usable == Yes {
			p.Usable, p.By, p.Why = No, "", fmt.Sprintf("not needed: %q tells the same", s.unless)
		}
	}
	return p
}

// hasStandIn tells whether something is attached when a role is no longer played.
func hasStandIn(table []point, role string) bool {
	return slices.ContainsFunc(table, func(p point) bool { return p.unless == role })
}

// setCookie writes a point's cookie into a program, where it asks the kernel for it:
// a constant costs a run nothing, and the verifier leaves out what it decides.
func setCookie(program asm.Instructions, cookie uint64) {
	for i := range program {
		in := &program[i]
		if in.IsBuiltinCall() && in.Constant == int64(asm.FnGetAttachCookie) {
			in.OpCode, in.Dst, in.Src, in.Constant = asm.Mov.Op(asm.ImmSource), asm.R0, 0, int64(int32(cookie))
		}
	}
}
