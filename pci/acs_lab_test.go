//go:build lab

package pci

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Root ports of the lab have access control services. What setpci writes there is
// read at once, as lspci reads it; and nothing is found in it, for no path between
// an accelerator and its rails turns at a root port.
func TestTopologyReadsAccessControlAsItIsSet(t *testing.T) {
	topo, _ := labMachine(t)
	i := slices.IndexFunc(topo.Devices, func(d *Device) bool { return d.Port == RootPort && d.ACS != nil })
	if i < 0 {
		t.Fatal("no root port has access control services")
	}
	port := topo.Devices[i]
	was := port.ACS.Control
	set := func(word uint16) { setpci(t, port.Address, word) }
	defer set(was)
	seen := map[uint16]bool{}
	for _, word := range []uint16{0, ACSRequestRedirect, ACSUpstreamForward | ACSDirectTranslated,
		ACSSourceValidation | ACSRequestRedirect | ACSCompletionRedirect | ACSUpstreamForward} {
		set(word)
		now := readGuest(t)
		acs := now.Device(port.Address).ACS
		their := lspciACSOf(t, port.Address)
		if acs == nil || their == nil || *acs != *their || acs.Control != word {
			t.Errorf("%#04x was set: lspci reads %+v, we %+v", word, their, acs)
		}
		seen[acs.Control] = true
		for _, f := range now.Findings() {
			if f.Code == FindingACSRedirect {
				t.Errorf("%#04x at a root port: %s", word, f.What)
			}
		}
	}
	t.Logf("%s: capability %#04x, control words %v as lspci reads them", port.Address, port.ACS.Capability, fmt.Sprintf("%#x", sorted(seen)))
}

func sorted(set map[uint16]bool) (words []uint16) {
	for w := range set {
		words = append(words, w)
	}
	slices.Sort(words)
	return words
}

// setpci writes the ACS control word.
func setpci(t *testing.T, a Address, word uint16) {
	t.Helper()
	tool(t, "setpci", "-s", a.String(), fmt.Sprintf("ECAP_ACS+6.w=%04x", word))
}

// lspciACSOf is what lspci decodes of one function.
func lspciACSOf(t *testing.T, a Address) *ACS {
	t.Helper()
	f := &function{}
	f.registers(t, strings.TrimSpace(tool(t, "lspci", "-vv", "-s", a.String())))
	return f.ACS
}
