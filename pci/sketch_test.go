package pci

import (
	"strconv"
	"strings"
	"testing"
)

// sketch makes a machine of a drawing: nodes, roots, and below each its devices,
// indented by two blanks for each bridge above. See the tests for its words.
func sketch(t testing.TB, text string) *Topology {
	t.Helper()
	topo := &Topology{}
	nodes := map[string]*Node{}
	var root *Root
	var above []*Device
	pfs := map[*Device]string{}
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		options := map[string]string{}
		for _, w := range words {
			key, value, _ := strings.Cut(w, "=")
			options[key] = value
		}
		node := nodes[options["node"]]
		switch words[0] {
		case "arm":
			topo.Platform.Arch = "aarch64"
			continue
		case "guest":
			topo.Platform.Virtual = Yes
			continue
		case "node":
			n := &Node{Present: true, CPUs: CPUs{len(topo.Nodes)}, Memory: -1}
			n.Number = atoi(t, words[1])
			if _, ok := options["none"]; ok {
				n.CPUs = CPUs{}
			}
			if _, ok := options["absent"]; ok {
				n.Present = false
			}
			for _, far := range strings.FieldsFunc(options["far"], func(c rune) bool { return c == ',' }) {
				n.Distances = append(n.Distances, atoi(t, far))
			}
			nodes[words[1]] = n
			topo.Nodes = append(topo.Nodes, n)
			continue
		case "root":
			root, above = &Root{Name: "pci" + words[1], Node: node}, nil
			domain, bus, ok := scanBus(root.Name)
			if !ok {
				t.Fatalf("%q is no root", line)
			}
			root.Domain, root.Bus = domain, bus
			topo.Roots = append(topo.Roots, root)
			continue
		}
		a, err := ParseAddress(words[0])
		if err != nil {
			t.Fatal(err)
		}
		level := (len(line)-len(strings.TrimLeft(line, " ")))/2 - 1
		above = above[:level]
		d := &Device{Address: a, Root: root, Node: node, Group: -1}
		if level > 0 {
			d.Parent = above[level-1]
		}
		above = append(above, d)
		topo.Devices = append(topo.Devices, d)
		dress(t, d, words[1], options)
		if pf := options["pf"]; pf != "" {
			pfs[d] = pf
		}
	}
	for d, pf := range pfs {
		for _, o := range topo.Devices {
			if o.Address.String() == "0000:"+pf {
				d.PF = o
			}
		}
	}
	Assemble(topo)
	return topo
}

// dress gives a device what the drawing says of it.
func dress(t testing.TB, d *Device, kind string, options map[string]string) {
	t.Helper()
	switch kind {
	case "port":
		d.Kind, d.Port = Bridge, RootPort
	case "up":
		d.Kind, d.Port = Bridge, UpstreamPort
	case "down":
		d.Kind, d.Port = Bridge, DownstreamPort
	case "bridge":
		d.Kind = Bridge
	case "gpu":
		d.Kind, d.Vendor, d.Product = Accelerator, nvidia, 0x2330
	case "grace":
		d.Kind, d.Vendor, d.Product = Accelerator, nvidia, 0x2941
	case "graphics":
		d.Vendor, d.Class, d.Driver = intel, 0x030000, "i915"
	case "nic":
		d.Kind, d.Vendor, d.Driver = RDMANIC, mellanox, "mlx5_core"
	case "efa":
		d.Kind, d.Vendor, d.Driver = RDMANIC, amazon, "efa"
	case "eth":
		d.Kind = OtherNIC
	case "nvme":
		d.Kind = NVMe
	case "bmc":
		d.Kind = BMC
	case "nvswitch":
		d.Kind = NVSwitch
	default:
		t.Fatalf("%q is no kind", kind)
	}
	if name := options["rdma"]; name != "" {
		port := RDMAPort{Number: 1, State: options["state"]}
		if rate := options["rate"]; rate != "" {
			port.Rate = rate + " Gb/sec (4X NDR)"
		}
		d.RDMA = []RDMA{{Name: name, Ports: []RDMAPort{port}}}
	}
	if name := options["net"]; name != "" {
		d.Net = []string{name}
	}
	// link=SPEEDxWIDTH/MAXSPEEDxMAXWIDTH
	if text := options["link"]; text != "" {
		now, most, _ := strings.Cut(text, "/")
		d.Link.Speed, d.Link.Width = lanes(t, now)
		d.Link.MaxSpeed, d.Link.MaxWidth = lanes(t, most)
	}
	if text := options["acs"]; text != "" {
		v, err := strconv.ParseUint(text, 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		d.ACS, d.ACSKnown = &ACS{Capability: 0x7f, Control: uint16(v)}, true
	}
	if text := options["bar"]; text != "" {
		d.BARs = []BAR{{Size: uint64(atoi(t, text)) << 20, Memory: true}}
	}
	if text := options["memory"]; text != "" {
		d.Memory = int64(atoi(t, text)) << 20
	}
	d.GroupType = options["group"]
}

func lanes(t testing.TB, text string) (float64, int) {
	t.Helper()
	speed, width, _ := strings.Cut(text, "x")
	v, err := strconv.ParseFloat(speed, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v, atoi(t, width)
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// at finds a device by its address or name.
func at(t testing.TB, topo *Topology, name string) *Device {
	t.Helper()
	d, err := topo.named(topo.byName(), name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
