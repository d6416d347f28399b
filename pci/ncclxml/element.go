package ncclxml

import (
	"fmt"
	"strconv"

	"github.com/peerdirect/peerdirect/pci"
)

// cpu reads a <cpu>; false passes over it.
func (r *reader) cpu(a attributes, at *scope) bool {
	host := a.value("host_hash")
	if r.host == nil {
		r.host = &host
	}
	if host != *r.host {
		r.fail("this <cpu> is of another machine, host_hash %s", clip(host))
		return false
	}
	id, ok := a.get("numaid")
	if !ok {
		r.fail("the <cpu> has no numaid: its NUMA node is unknown")
	}
	if n, err := strconv.Atoi(id); ok && (err != nil || n > 1<<16-1) {
		r.fail("numaid %q is no NUMA node", clip(id))
	} else if ok && n >= 0 { // -1 is unknown
		at.node = r.node(n)
	}
	if mask, ok := a.get("affinity"); ok && at.node != nil {
		cpus, err := parseMask(mask)
		if err != nil {
			r.fail("affinity: %w", err)
		} else if at.node.CPUs == nil {
			at.node.CPUs = cpus
		}
	}
	r.processor(a)
	name := cpuRoot(at.node)
	if n := r.cpus[name]; n > 0 { // another of the same node: it is one more root complex
		name += "." + strconv.Itoa(n)
	}
	r.cpus[cpuRoot(at.node)]++
	at.root = r.root(name, at.node)
	return true
}

// cpuRoot names the root complex of a <cpu> that names none.
func cpuRoot(n *pci.Node) string {
	if n == nil {
		return "cpu-1"
	}
	return fmt.Sprintf("cpu%d", n.Number)
}

func (r *reader) node(number int) *pci.Node {
	n := r.nodes[number]
	if n == nil {
		n = &pci.Node{Number: number, Present: true, Memory: -1}
		r.nodes[number] = n
		r.t.Nodes = append(r.t.Nodes, n)
	}
	return n
}

// root gives the root complex of that name. It comes into the topology with its
// first device.
func (r *reader) root(name string, node *pci.Node) *pci.Root {
	root := r.roots[name]
	if root == nil {
		root = &pci.Root{Name: name, Node: node}
		root.Domain, root.Bus, _ = scanRoot(name)
		r.roots[name] = root
	}
	if root.Node != node {
		root.Node = nil
	}
	return root
}

// processor reads what a <cpu> tells of the machine; the first one counts.
func (r *reader) processor(a attributes) {
	p := &r.t.Platform
	if s, ok := a.get("arch"); ok && p.Arch == "" {
		if p.Arch = clean(s); s == "arm64" {
			p.Arch = "aarch64"
		}
	}
	if s, ok := a.get("vendor"); ok && p.CPU == "" {
		p.CPU = clean(s)
	}
	family, ok := a.get("familyid")
	if !ok || p.Family != 0 {
		return
	}
	n, err := strconv.ParseUint(family, 0, 16)
	if err != nil {
		r.fail("familyid %q is no number", clip(family))
		return
	}
	p.Family = int(n)
	// NCCL shifts the extended family instead of adding it.
	if n > 15 && n&15 == 15 {
		p.Family = int(15 + n>>4)
	}
	if n, err = strconv.ParseUint(a.value("modelid"), 0, 16); err != nil {
		r.fail("modelid %q is no number", clip(a.value("modelid")))
	}
	p.Model = int(n)
}

// pci reads a <pci>; false passes over it.
func (r *reader) pci(a attributes, at *scope) bool {
	address, err := pci.ParseAddress(a.value("busid"))
	switch {
	case err != nil:
		r.fail("busid: %w", err)
		return false
	case r.at[address] != nil:
		r.fail("%s is there twice", address)
		return false
	case len(r.t.Devices) == maxDevices:
		r.fail("there are more than %d devices", maxDevices)
		return false
	}
	above := at.d
	d := &pci.Device{Address: address, Parent: above, Node: at.node, Group: -1}
	if name, ok := a.get("root"); ok && above == nil {
		if at.root = nil; name != "" && clean(name) == name {
			at.root = r.root(name, at.node)
		}
	}
	if d.Root = at.root; d.Root != nil && !r.rooted[d.Root] {
		r.rooted[d.Root] = true
		r.t.Roots = append(r.t.Roots, d.Root)
	}
	if above != nil {
		above.Port = pci.UpstreamPort // the switch is one element
	}
	r.identity(a, d)
	d.Link.MaxSpeed, d.Link.MaxWidth = r.link(a, address)
	for _, name := range a.names("rdma") {
		d.RDMA = append(d.RDMA, pci.RDMA{Name: name})
	}
	d.Net = a.names("net")
	d.Kind = kinds[a.value("kind")]
	r.at[address] = d
	r.t.Devices = append(r.t.Devices, d)
	at.d = d
	return true
}

// kinds are those that class and identity may not tell, as Write names them.
var kinds = map[string]pci.Kind{
	pci.Accelerator.String(): pci.Accelerator,
	pci.RDMANIC.String():     pci.RDMANIC,
	pci.OtherNIC.String():    pci.OtherNIC,
}

// identity reads what a function is.
func (r *reader) identity(a attributes, d *pci.Device) {
	if s, ok := a.get("class"); ok {
		class, err := parseClass(s)
		if err != nil {
			r.fail("%s: class %w", d.Address, err)
		}
		d.Class = class
	}
	for _, id := range []struct {
		name string
		to   *uint16
	}{{"vendor", &d.Vendor}, {"device", &d.Product}, {"subsystem_vendor", &d.SubVendor}, {"subsystem_device", &d.SubProduct}} {
		s, ok := a.get(id.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(s, 0, 16)
		if err != nil {
			r.fail("%s: %s %q is no number of 16 bits", d.Address, id.name, clip(s))
		} else if n != 0xffff { // of a bridge that is made up
			*id.to = uint16(n)
		}
	}
}

// link reads the most that a link can.
func (r *reader) link(a attributes, at pci.Address) (speed float64, width int) {
	if s, ok := a.get("link_speed"); ok {
		if speed, ok = parseSpeed(s); !ok {
			r.fail("%s: link_speed %q is no speed such as 16.0 GT/s PCIe", at, clip(s))
		}
	}
	if s, ok := a.get("link_width"); ok && s != "" {
		n, err := strconv.ParseUint(s, 10, 8)
		if err != nil {
			r.fail("%s: link_width %q is no number of lanes", at, clip(s))
		} else if n <= 32 { // 255 is a device that does not answer
			width = int(n)
		}
	}
	return speed, width
}

// net reads a <net>: an interface of a function. Those of RDMA devices have a GUID.
func (r *reader) net(a attributes, d *pci.Device) {
	name := clean(a.value("name"))
	if name == "" {
		r.fail("%s: the <net> has no name", d.Address)
		return
	}
	if d.Kind == pci.Other && d.Class == 0 {
		d.Kind = pci.OtherNIC
	}
	if n, err := strconv.ParseUint(a.value("guid"), 0, 64); err != nil || n == 0 {
		d.Net = append(d.Net, name)
		return
	}
	if d.Kind == pci.OtherNIC {
		d.Kind = pci.RDMANIC
	}
	port := pci.RDMAPort{Number: 1}
	if n, err := strconv.ParseUint(a.value("port"), 10, 8); err == nil && n > 0 {
		port.Number = int(n)
	}
	if mbps, err := strconv.ParseUint(a.value("speed"), 10, 32); err == nil && mbps > 0 {
		port.Rate = fmt.Sprintf("%g Gb/sec", float64(mbps)/1000)
	}
	// The GUID is the card's, not the node's, which stays unknown.
	d.RDMA = append(d.RDMA, pci.RDMA{Name: name, Ports: []pci.RDMAPort{port}})
}
