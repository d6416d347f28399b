package pci

import (
	"fmt"
	"slices"
	"strings"
)

// reason explains the rails of an accelerator.
func (p *pairer) reason(i int, sharing [][]*Device) string {
	a, held, near := p.accels[i], p.rails[i], p.near[i]
	if len(held) == 0 {
		return "there is no NIC of the fabric for it"
	}
	var text string
	nearest := "nearest"
	if p.best[i] == ClassUnknown {
		text = "how far its NICs are is unknown (" + p.t.Distance(a, p.nics[held[0]]).Reason + ")"
		nearest = "perhaps nearest"
	} else {
		text = p.best[i].String() + ": " + p.t.Distance(a, p.nics[held[0]]).Reason
	}
	var others []*Device
	seen := map[*Device]bool{a: true}
	for _, j := range held {
		for _, o := range sharing[j] {
			if !seen[o] {
				seen[o] = true
				others = append(others, o)
			}
		}
	}
	switch {
	case len(others) > 0:
		return text + fmt.Sprintf("; %s %s, too few for all: shared with %s", plural(len(near), "NIC is", "NICs are"), nearest, p.names(others))
	case p.tied[i]:
		var rivals []*Device
		for k, o := range p.accels {
			if k != i && overlap(near, p.near[k]) {
				rivals = append(rivals, o)
			}
		}
		return text + fmt.Sprintf("; %s as near, not to it alone but to %s: given out evenly, in order of address", plural(len(near), "NIC is", "NICs are"), p.names(rivals))
	case len(held) < len(near):
		return text + fmt.Sprintf("; the first %d of %d as near", len(held), len(near))
	case len(p.nics) == 1:
		return text + "; the only NIC"
	}
	return text + fmt.Sprintf("; the nearest of %d NICs", len(p.nics))
}

// overlap tells whether two lists in order have something in common.
func overlap(a, b []int) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			return true
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return false
}

// remark notes what holds of the machine as a whole.
func (p *pairer) remark(out *Pairing) {
	note := func(format string, args ...any) { p.notes = append(p.notes, fmt.Sprintf(format, args...)) }
	fewest, most, bare := -1, 0, 0
	for i := range p.accels {
		n := len(p.rails[i])
		if n == 0 {
			bare++
			continue
		}
		if fewest < 0 || n < fewest {
			fewest = n
		}
		most = max(most, n)
	}
	shared := 0
	for _, users := range p.users {
		if users > 1 {
			shared++
		}
	}
	switch {
	case len(out.Pairs) == 0 && len(out.Unpaired) > 0:
		note("There is no accelerator; the NICs are nobody's rails.")
	case len(out.Pairs) == 0:
		note("There is neither an accelerator nor a NIC of a fabric.")
	case bare > 0 && bare == len(p.accels):
		note("There is no NIC of a fabric.")
	}
	if shared > 0 {
		note("Accelerators share %s: each has a part of its bandwidth only.", plural(shared, "NIC", "NICs"))
	}
	if fewest >= 0 && fewest < most {
		note("Rails are uneven, %d to %d an accelerator: a transfer over all accelerators goes at the pace of the fewest.", fewest, most)
	}
	if unknown := slices.ContainsFunc(out.Pairs, func(pair Pair) bool { return len(pair.Rails) > 0 && pair.Class == ClassUnknown }); unknown {
		note("Some distances are unknown, so those NICs are given out in order of address: measure, and name the rails in a file of overrides.")
	}
	if len(out.Unpaired) > 0 && shared > 0 && p.most == 0 {
		note("%s free, but farther from every accelerator than what it has: %s. Overrides can give them out.", plural(len(out.Unpaired), "NIC is", "NICs are"), p.names(out.Unpaired))
	}
}

// names joins names, of which there may be many.
func (p *pairer) names(devices []*Device) string {
	const most = 6
	var names []string
	for _, d := range devices {
		if len(names) == most {
			break
		}
		names = append(names, p.t.Name(d))
	}
	if more := len(devices) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return sentence(names)
}

// sentence lists words as a sentence does.
func sentence(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
