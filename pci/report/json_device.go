package report

import (
	"math"

	"github.com/peerdirect/peerdirect/pci"
)

type deviceJSON struct {
	Address pci.Address  `json:"address"`
	Name    string       `json:"name"`
	Kind    string       `json:"kind"` // accelerator, rdma_nic, nic, nvme, bridge, bmc, nvswitch, other
	Root    *string      `json:"root"`
	Parent  *pci.Address `json:"parent"` // null on a root bus
	Switch  *pci.Address `json:"switch"` // upstream port of the switch whose port it is
	Port    *string      `json:"port"`   // root_port, upstream_port, endpoint, …

	Vendor      *string `json:"vendor"`
	Product     *string `json:"product"`
	SubVendor   *string `json:"subsystem_vendor"`
	SubProduct  *string `json:"subsystem_product"`
	Class       *string `json:"class"` // class, subclass, interface
	Revision    *string `json:"revision"`
	VendorName  *string `json:"vendor_name"`
	ProductName *string `json:"product_name"`
	Driver      *string `json:"driver"` // null is none, or unknown
	Slot        *string `json:"slot"`

	Node      *int      `json:"numa_node"`
	CPUs      *string   `json:"local_cpus"`
	Link      *linkJSON `json:"link"`
	BARs      []bar     `json:"bars"`      // null is none, or unknown
	ACSKnown  bool      `json:"acs_known"` // then an "acs" of null is that it has none
	ACS       *acs      `json:"acs"`
	Group     *int      `json:"iommu_group"`
	GroupType *string   `json:"iommu_group_type"`
	PeerMem   *bool     `json:"peer_memory"` // it has published peer-to-peer memory

	PF  *pci.Address  `json:"physical_function"`
	VFs []pci.Address `json:"virtual_functions"`

	RDMA   []rdma   `json:"rdma"`
	Net    []string `json:"net"`
	NVMe   []string `json:"nvme"`
	Dev    []string `json:"dev"`
	Memory *int64   `json:"memory_bytes"` // an accelerator's
}

type linkJSON struct {
	Speed        *float64 `json:"speed_gts"` // a lane
	Width        *int     `json:"width"`
	Bandwidth    *float64 `json:"bandwidth_gb_s"` // each way
	MaxSpeed     *float64 `json:"max_speed_gts"`
	MaxWidth     *int     `json:"max_width"`
	MaxBandwidth *float64 `json:"max_bandwidth_gb_s"`
}

type bar struct {
	Index        int    `json:"index"`
	Size         uint64 `json:"size_bytes"`
	Memory       bool   `json:"memory"` // else I/O ports
	Prefetchable bool   `json:"prefetchable"`
	Width64      bool   `json:"width64"`
}

type acs struct {
	Capability string   `json:"capability"`
	Control    string   `json:"control"`
	On         []string `json:"on"`
}

type rdma struct {
	Name     string  `json:"name"`
	NodeGUID *string `json:"node_guid"`
	Ports    []port  `json:"ports"`
}

type port struct {
	Number int     `json:"number"`
	State  *string `json:"state"`
	Rate   *string `json:"rate"`
	Layer  *string `json:"link_layer"`
}

func (p *document) deviceOf(d *pci.Device) any {
	j := deviceJSON{
		Address: d.Address, Name: p.t.Name(d), Kind: key(d.Kind.String()), Parent: address(d.Parent),
		VendorName: known(d.VendorName), ProductName: known(d.ProductName), Driver: known(d.Driver), Slot: known(d.Slot),
		Node: number(d.Node), CPUs: cpus(d.CPUs),
		ACSKnown: d.ACSKnown, GroupType: known(d.GroupType), PeerMem: fact(d.PeerMem),
		PF: address(d.PF), VFs: addresses(d.VFs), RDMA: make([]rdma, len(d.RDMA)), Net: full(d.Net), NVMe: full(d.NVMe), Dev: full(d.Dev),
		Memory: known(d.Memory),
	}
	if d.Root != nil {
		j.Root = &d.Root.Name
	}
	if d.Switch != nil {
		j.Switch = address(d.Switch.Upstream)
	}
	if d.Port != pci.PortUnknown {
		j.Port = new(key(d.Port.String()))
	}
	if d.Vendor != 0 || d.Product != 0 || d.Class != 0 {
		j.Vendor, j.Product, j.Class = hex(int(d.Vendor), 4), hex(int(d.Product), 4), hex(int(d.Class), 6)
	}
	if d.SubVendor != 0 || d.SubProduct != 0 {
		j.SubVendor, j.SubProduct = hex(int(d.SubVendor), 4), hex(int(d.SubProduct), 4)
	}
	if d.Revision != 0 || d.Port != pci.PortUnknown { // both are of config space
		j.Revision = hex(int(d.Revision), 2)
	}
	if l := d.Link; l != (pci.Link{}) {
		j.Link = &linkJSON{known(l.Speed), known(l.Width), bandwidth(l.Bandwidth()), known(l.MaxSpeed), known(l.MaxWidth), bandwidth(l.MaxBandwidth())}
	}
	if d.Group >= 0 {
		j.Group = &d.Group
	}
	for _, b := range d.BARs {
		j.BARs = append(j.BARs, bar(b))
	}
	if d.ACS != nil {
		j.ACS = &acs{*hex(int(d.ACS.Capability), 4), *hex(int(d.ACS.Control), 4), acsNames(d.ACS.Control)}
	}
	for i, r := range d.RDMA {
		j.RDMA[i] = rdma{r.Name, known(r.NodeGUID), make([]port, len(r.Ports))}
		for k, o := range r.Ports {
			j.RDMA[i].Ports[k] = port{o.Number, known(o.State), known(o.Rate), known(o.Layer)}
		}
	}
	return j
}

// bandwidth has MB/s; what is below is of the arithmetic.
func bandwidth(v float64) *float64 { return known(math.Round(v*1000) / 1000) }

// acsNames are the services that are on.
func acsNames(control uint16) []string {
	on := []string{}
	for _, bit := range []struct {
		mask uint16
		name string
	}{
		{pci.ACSSourceValidation, "source_validation"}, {pci.ACSTranslationBlock, "translation_blocking"},
		{pci.ACSRequestRedirect, "request_redirect"}, {pci.ACSCompletionRedirect, "completion_redirect"},
		{pci.ACSUpstreamForward, "upstream_forwarding"}, {pci.ACSEgressControl, "egress_control"},
		{pci.ACSDirectTranslated, "direct_translated"},
	} {
		if control&bit.mask != 0 {
			on = append(on, bit.name)
		}
	}
	return on
}
