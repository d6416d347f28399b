package report

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// sketch makes a machine of a drawing, a line each:
//
//	node NUMBER [cpus=LIST] [gib=N] [far=N,N] [absent]
//	root DDDD:BB [node=NUMBER]
//	  ADDRESS KIND [OPTION=VALUE]…      two blanks more for each bridge above
//
// Options are name= (the device's own), net=, node=, link=SPEEDxWIDTH[/SPEEDxWIDTH],
// state=, rate=, acs=, pf= and is=VENDOR|PRODUCT with "_" for blanks.
func sketch(t testing.TB, text string) *pci.Topology {
	t.Helper()
	topo := &pci.Topology{}
	nodes := map[string]*pci.Node{}
	var root *pci.Root
	var above []*pci.Device
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		o := map[string]string{}
		for _, w := range words {
			key, value, _ := strings.Cut(w, "=")
			o[key] = value
		}
		switch words[0] {
		case "node":
			_, absent := o["absent"]
			n := &pci.Node{Number: int(count(t, words[1])), Present: !absent, Memory: -1}
			if list, ok := o["cpus"]; ok {
				cpus, err := pci.ParseCPUs(list)
				if err != nil {
					t.Fatal(err)
				}
				n.CPUs = cpus
			}
			if o["gib"] != "" {
				n.Memory = count(t, o["gib"]) << 30
			}
			for far := range strings.FieldsFuncSeq(o["far"], func(r rune) bool { return r == ',' }) {
				n.Distances = append(n.Distances, int(count(t, far)))
			}
			nodes[words[1]] = n
			topo.Nodes = append(topo.Nodes, n)
		case "root":
			var domain, bus uint
			if _, err := fmt.Sscanf(words[1], "%x:%x", &domain, &bus); err != nil {
				t.Fatal(err)
			}
			name := "pci" + words[1]
			root, above = &pci.Root{Name: name, Path: name, Domain: uint32(domain), Bus: uint8(bus), Node: nodes[o["node"]]}, nil
			topo.Roots = append(topo.Roots, root)
		default:
			level := (len(line)-len(strings.TrimLeft(line, " ")))/2 - 1
			above = above[:level]
			d := device(t, words[0], words[1], o)
			d.Root, d.Node = root, root.Node
			if o["node"] != "" {
				d.Node = nodes[o["node"]]
			}
			if level > 0 {
				d.Parent = above[level-1]
			}
			for _, pf := range topo.Devices {
				if o["pf"] != "" && strings.HasSuffix(pf.Address.String(), o["pf"]) {
					d.PF = pf
				}
			}
			above = append(above, d)
			topo.Devices = append(topo.Devices, d)
		}
	}
	pci.Assemble(topo)
	return topo
}

func device(t testing.TB, address, kind string, o map[string]string) *pci.Device {
	t.Helper()
	a, err := pci.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	d := &pci.Device{Address: a, Group: -1}
	switch kind {
	case "port":
		d.Kind, d.Port = pci.Bridge, pci.RootPort
	case "up":
		d.Kind, d.Port = pci.Bridge, pci.UpstreamPort
	case "down":
		d.Kind, d.Port = pci.Bridge, pci.DownstreamPort
	case "bridge":
		d.Kind = pci.Bridge
	case "gpu":
		d.Kind, d.Vendor, d.Product, d.Class = pci.Accelerator, 0x10de, 0x2330, 0x030200
	case "nic":
		d.Kind, d.Vendor, d.Product, d.Class = pci.RDMANIC, 0x15b3, 0x1021, 0x020000
		if o["name"] != "" {
			d.RDMA = []pci.RDMA{{Name: o["name"], Ports: []pci.RDMAPort{{Number: 1, State: o["state"]}}}}
			if o["rate"] != "" {
				d.RDMA[0].Ports[0].Rate = o["rate"] + " Gb/sec (4X NDR)"
			}
		}
	case "eth":
		d.Kind, d.Class = pci.OtherNIC, 0x020000
	case "nvme":
		d.Kind, d.Class = pci.NVMe, 0x010802
		if o["name"] != "" {
			d.NVMe = []string{o["name"]}
		}
	case "bmc":
		d.Kind, d.Vendor, d.Product = pci.BMC, 0x1a03, 0x2000
	case "other":
	default:
		t.Fatalf("%q is no kind", kind)
	}
	if o["net"] != "" {
		d.Net = []string{o["net"]}
	}
	if is := strings.ReplaceAll(o["is"], "_", " "); is != "" {
		d.VendorName, d.ProductName, _ = strings.Cut(is, "|")
	}
	if o["link"] != "" {
		now, most, lower := strings.Cut(o["link"], "/")
		d.Link.Speed, d.Link.Width = lanes(t, now)
		d.Link.MaxSpeed, d.Link.MaxWidth = d.Link.Speed, d.Link.Width
		if lower {
			d.Link.MaxSpeed, d.Link.MaxWidth = lanes(t, most)
		}
	}
	if o["acs"] != "" {
		v, err := strconv.ParseUint(o["acs"], 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		d.ACS, d.ACSKnown = &pci.ACS{Capability: 0x7f, Control: uint16(v)}, true
	}
	return d
}

func lanes(t testing.TB, text string) (float64, int) {
	t.Helper()
	left, right, _ := strings.Cut(text, "x")
	speed, err := strconv.ParseFloat(left, 64)
	if err != nil {
		t.Fatal(err)
	}
	return speed, int(count(t, right))
}

func count(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pair is the machine's own pairing.
func pair(t testing.TB, topo *pci.Topology) *pci.Pairing {
	t.Helper()
	p, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// server has two sockets: a switch with two accelerators, their NICs and an NVMe; on
// the other socket one accelerator that shares a NIC across a root complex; a NIC
// with virtual functions, a management controller, and nodes of memory only.
const server = `
node 0 cpus=0-15,32-47 gib=512 far=10,21,80,80
node 1 cpus=16-31,48-63 gib=512 far=21,10,80,80
node 2 cpus= gib=80
node 3 cpus= gib=80
root 0000:00 node=0
  00:00.0 other
  00:01.0 port
    01:00.0 nvme name=nvme0 link=8x4 is=Samsung_Electronics_Co_Ltd|NVMe_SSD_Controller_PM9A1
  00:02.0 port
    02:00.0 bridge
      03:00.0 bmc is=ASPEED_Technology,_Inc.|ASPEED_Graphics_Family
  00:03.0 port
  00:1f.0 other
  00:1f.4 other
root 0000:10 node=0
  10:01.0 port link=32x16 acs=0
    11:00.0 up link=32x16 is=Broadcom_/_LSI|PEX890xx_PCIe_Gen_5_Switch
      12:00.0 down acs=0
        13:00.0 gpu link=32x16 is=NVIDIA_Corporation|GH100_[H100_SXM5_80GB]
      12:01.0 down acs=1d
        14:00.0 gpu link=32x16 is=NVIDIA_Corporation|GH100_[H100_SXM5_80GB]
        14:00.1 other
      12:02.0 down acs=0
        15:00.0 nic name=mlx5_0 net=ibp21s0 state=ACTIVE rate=400 link=32x16 is=Mellanox_Technologies|MT2910_Family_[ConnectX-7]
      12:03.0 down acs=0
        16:00.0 nic name=mlx5_1 net=ibp22s0 state=ACTIVE rate=400 link=16x8/32x16 is=Mellanox_Technologies|MT2910_Family_[ConnectX-7]
      12:04.0 down acs=0
        17:00.0 nvme name=nvme1 link=16x4
      12:05.0 down acs=0
root 0000:80 node=1
  80:01.0 port acs=0
    81:00.0 gpu link=2.5x16/32x16 is=NVIDIA_Corporation|GH100_[H100_SXM5_80GB]
    81:00.1 other
root 0000:90 node=1
  90:01.0 port acs=0
    91:00.0 nic name=mlx5_2 net=ens1f0np0 state=ACTIVE rate=400 link=32x16 is=Mellanox_Technologies|MT2910_Family_[ConnectX-7]
    91:00.2 nic pf=91:00.0
    91:00.3 nic pf=91:00.0
  90:02.0 port
    92:00.0 eth net=eno1 link=5x1 is=Intel_Corporation|I210_Gigabit_Network_Connection
root 0000:ff
  ff:08.0 other
  ff:09.0 other
`

func newServer(t testing.TB) *pci.Topology {
	topo := sketch(t, server)
	topo.Source = "/"
	topo.Platform = pci.Platform{System: "Maker Server 9000", Arch: "x86_64", CPU: "GenuineIntel", Family: 6, Model: 143,
		Kernel: "7.3.4", Virtual: pci.No, P2PDMA: pci.Yes, IOMMU: pci.IOMMU{Units: []string{"dmar0", "dmar1"}, Seen: true}}
	return topo
}

// dim is a machine of which nothing is known but that it is there.
const dim = `
root 0000:00
  00:01.0 bridge
    01:00.0 gpu
  00:02.0 bridge
    02:00.0 nic
root 10001:00
  10001:00:01.0 gpu
  10001:00:02.0 other
`
