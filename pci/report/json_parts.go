package report

import (
	"fmt"
	"strings"

	"github.com/peerdirect/peerdirect/pci"
)

// The types below are the schema: their json names are stable, and their units are in
// those names.

type platformJSON struct {
	System  *string   `json:"system"`
	Arch    *string   `json:"arch"`
	CPU     *string   `json:"cpu_vendor"`
	Family  *int      `json:"cpu_family"`
	Model   *int      `json:"cpu_model"`
	Kernel  *string   `json:"kernel"`
	Virtual *bool     `json:"virtual"`
	P2PDMA  *bool     `json:"p2pdma"`      // the kernel is built with CONFIG_PCI_P2PDMA
	IOMMU   *[]string `json:"iommu_units"` // none: there is no IOMMU, or it is off
}

func platformOf(p *pci.Platform) any {
	j := platformJSON{System: known(p.System), Arch: known(p.Arch), CPU: known(p.CPU), Family: known(p.Family),
		Kernel: known(p.Kernel), Virtual: fact(p.Virtual), P2PDMA: fact(p.P2PDMA)}
	if p.Family != 0 { // else both are unknown; there is a model 0
		j.Model = &p.Model
	}
	if p.IOMMU.Seen || len(p.IOMMU.Units) > 0 {
		j.IOMMU = new(full(p.IOMMU.Units))
	}
	return j
}

type nodeJSON struct {
	Number    int     `json:"number"`
	Present   bool    `json:"present"`
	CPUs      *string `json:"cpus"`
	Memory    *int64  `json:"memory_bytes"`
	Distances []*int  `json:"distances"` // to "nodes" in their order; 10 is local
}

func nodeOf(n *pci.Node) any {
	j := nodeJSON{Number: n.Number, Present: n.Present, CPUs: cpus(n.CPUs)}
	if n.Memory >= 0 {
		j.Memory = &n.Memory
	}
	for _, d := range n.Distances {
		j.Distances = append(j.Distances, known(d))
	}
	return j
}

type rootJSON struct {
	Name    string        `json:"name"`
	Path    *string       `json:"path"`
	Node    *int          `json:"numa_node"`
	Devices []pci.Address `json:"devices"`
}

func rootOf(r *pci.Root) any {
	return rootJSON{r.Name, known(r.Path), number(r.Node), addresses(r.Children)}
}

type switchJSON struct {
	Upstream   pci.Address   `json:"upstream"`
	Downstream []pci.Address `json:"downstream"`
}

func switchOf(s *pci.Switch) any { return switchJSON{s.Upstream.Address, addresses(s.Downstream)} }

type cardJSON struct {
	Functions []pci.Address `json:"functions"`
}

func cardOf(c *pci.Card) any { return cardJSON{addresses(c.Functions)} }

type pairJSON struct {
	Accelerator pci.Address   `json:"accelerator"`
	Rails       []pci.Address `json:"rails"`
	Class       *pci.Class    `json:"class"`
	Reason      string        `json:"reason"`
}

type ignoredJSON struct {
	Device pci.Address `json:"device"`
	Why    string      `json:"why"`
}

type distanceJSON struct {
	From   pci.Address   `json:"from"`
	To     pci.Address   `json:"to"`
	Class  *pci.Class    `json:"class"`
	Reason string        `json:"reason"`
	Path   []pci.Address `json:"path"`
}

type p2pJSON struct {
	Provider  pci.Address   `json:"provider"`
	Client    pci.Address   `json:"client"`
	Allowed   *bool         `json:"allowed"`
	Through   *string       `json:"through"` // bridge, host_bridge
	Bridge    *pci.Address  `json:"bridge"`
	Redirects []pci.Address `json:"redirects"`
	Reason    string        `json:"reason"`
}

type findingJSON struct {
	Code     string        `json:"code"`
	Severity pci.Severity  `json:"severity"`
	Devices  []pci.Address `json:"devices"`
	What     string        `json:"what"`
	Cost     string        `json:"cost"`
	Remedy   string        `json:"remedy"`
}

func findingOf(f pci.Finding) any {
	return findingJSON{f.Code, f.Severity, addresses(f.Devices), f.What, f.Cost, f.Remedy}
}

// known gives a value, or nil if it is the zero one, where that is unknown.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func fact(t pci.Tri) *bool {
	if t == pci.Unknown {
		return nil
	}
	return new(t == pci.Yes)
}

func class(c pci.Class) *pci.Class {
	if c == pci.ClassUnknown {
		return nil
	}
	return &c
}

func cpus(c pci.CPUs) *string {
	if c == nil {
		return nil
	}
	return new(c.String())
}

func number(n *pci.Node) *int {
	if n == nil {
		return nil
	}
	return &n.Number
}

func address(d *pci.Device) *pci.Address {
	if d == nil {
		return nil
	}
	return &d.Address
}

// addresses are never null: there are none.
func addresses(devices []*pci.Device) []pci.Address {
	all := make([]pci.Address, len(devices))
	for i, d := range devices {
		all[i] = d.Address
	}
	return all
}

// full gives a list that is empty instead of null.
func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// key makes a word of JSON of one for people: "RDMA NIC" is "rdma_nic".
func key(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "_") }

// hex spells an identifier; many readers of JSON have no other way to tell it.
func hex(v, digits int) *string { return new(fmt.Sprintf("0x%0*x", digits, v)) }
