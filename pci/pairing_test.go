package pci

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// spelled puts a pairing into lines.
func spelled(topo *Topology, p *Pairing) string {
	var b strings.Builder
	for _, pair := range p.Pairs {
		fmt.Fprintf(&b, "%s %v:", topo.Name(pair.Accelerator), pair.Class)
		for _, r := range pair.Rails {
			b.WriteString(" " + topo.Name(r))
		}
		b.WriteString("\n")
	}
	if len(p.Unpaired) > 0 {
		b.WriteString("free:")
		for _, d := range p.Unpaired {
			b.WriteString(" " + topo.Name(d))
		}
		b.WriteString("\n")
	}
	for _, i := range p.Ignored {
		fmt.Fprintf(&b, "%s: %s\n", topo.Name(i.Device), i.Why)
	}
	return b.String()
}

func TestPair(t *testing.T) {
	for _, c := range []struct{ name, machine, want string }{
		{"four NICs below each accelerator's switch", `
root 0000:40
  40:00.0 port
    41:00.0 up
      42:00.0 down
        43:00.0 efa rdma=a
      42:01.0 down
        44:00.0 efa rdma=b
      42:02.0 down
        45:00.0 gpu
root 0000:50
  50:00.0 port
    51:00.0 up
      52:00.0 down
        53:00.0 efa rdma=c
      52:01.0 down
        54:00.0 efa rdma=d
      52:02.0 down
        55:00.0 gpu`, "GPU0 PIX: a b\nGPU1 PIX: c d\n"},
		{"two accelerators share a switch with four NICs", `
root 0000:40
  40:00.0 bridge
    41:00.0 gpu
    42:00.0 gpu
    43:00.0 efa rdma=a
    44:00.0 efa rdma=b
    45:00.0 efa rdma=c
    46:00.0 efa rdma=d`, "GPU0 PIX: a c\nGPU1 PIX: b d\n"},
		{"one is nearest to the NIC that its neighbour has first too", `
root 0000:00
  00:01.0 port
    01:00.0 up
      02:00.0 down
        03:00.0 up
          04:00.0 down
            07:00.0 gpu
      02:04.0 down
        0a:00.0 up
          0b:00.0 down
            0c:00.0 nic rdma=mlx5_0
          0b:01.0 down
            0f:00.0 gpu
      02:08.0 down
        10:00.0 up
          11:00.0 down
            12:00.0 nic rdma=mlx5_1`, "GPU0 PXB: mlx5_1\nGPU1 PIX: mlx5_0\n"},
		{"fewer NICs than accelerators", `
root 0000:00
  00:01.0 gpu
  00:02.0 gpu
  00:03.0 gpu
  00:04.0 gpu
  00:05.0 gpu
  00:06.0 nic rdma=a
  00:07.0 nic rdma=b`, "GPU0 PHB: a\nGPU1 PHB: b\nGPU2 PHB: a\nGPU3 PHB: b\nGPU4 PHB: a\n"},
		{"what is near is shared before what is far is taken", `
node 0
node 1
root 0000:00 node=0
  00:01.0 gpu
  00:02.0 gpu
  00:03.0 nic rdma=a
root 0000:80 node=1
  80:01.0 nic rdma=b`, "GPU0 PHB: a\nGPU1 PHB: a\nfree: b\n"},
		{"a nearer node by the firmware's distance", `
node 0 far=10,32,20
node 1 far=32,10,32
node 2 far=20,32,10
root 0000:00 node=0
  00:01.0 gpu
root 0000:40 node=1
  40:01.0 nic rdma=a
root 0000:80 node=2
  80:01.0 nic rdma=b`, "GPU0 SYS: b\nfree: a\n"},
		{"over the chip-to-chip link", `
arm
node 0
node 1
root 0000:00 node=0
  00:00.0 nic rdma=a
root 0002:00 node=0
  0002:00:00.0 nic rdma=b
root 0008:00 node=0
  0008:00:00.0 grace
root 0009:00 node=0
  0009:00:00.0 grace
root 0010:00 node=1
  0010:00:00.0 nic rdma=c
root 0018:00 node=1
  0018:00:00.0 grace
root 0019:00 node=1
  0019:00:00.0 grace`, "GPU0 C2C: a\nGPU1 C2C: b\nGPU2 C2C: c\nGPU3 C2C: c\n"},
		{"no NUMA node is known, and each device has its domain", `
root 0001:00
  0001:00:00.0 gpu
root 0002:00
  0002:00:00.0 gpu
root 0101:00
  0101:00:00.0 nic rdma=a
root 0102:00
  0102:00:00.0 nic rdma=b`, "GPU0 unknown: a\nGPU1 unknown: b\n"},
		{"what is unknown comes after what is far", `
node 0
node 1
root 0000:00 node=0
  00:01.0 gpu
root 0000:40
  40:01.0 nic rdma=a
root 0000:80 node=1
  80:01.0 nic rdma=b`, "GPU0 SYS: b\nfree: a\n"},
		{"the nearer goes first, and what is unknown last", `
root 0000:00
  00:01.0 gpu
root 0000:40
  40:01.0 gpu
  40:02.0 nic rdma=a`, "GPU0 unknown: a\nGPU1 PHB: a\n"},
		{"uneven", `
root 0000:00
  00:01.0 gpu
  00:02.0 gpu
  00:03.0 nic rdma=a
  00:03.1 nic rdma=b
  00:04.0 nic rdma=c`, "GPU0 PHB: a c\nGPU1 PHB: b\n"},
		{"a Mellanox function beside EFA, a management NIC and screen, an NVSwitch", `
root 0000:00
  00:01.0 gpu
  00:02.0 efa rdma=rdmap0s2
  00:03.0 nic rdma=mlx5_0
  00:04.0 eth net=eth0
  00:05.0 bmc
  00:06.0 nvswitch`, `GPU0 PHB: rdmap0s2
mlx5_0: not of the fabric, which is EFA here
eth0: a NIC without an RDMA device
0000:00:05.0: the management controller's
NVSwitch0: a switch between accelerators, none itself
`},
		{"graphics of the processor", `
root 0000:00
  00:02.0 graphics
  00:03.0 gpu
  00:04.0 nic rdma=a`, "GPU0 PHB: a\n0000:00:02.0: the processor's graphics, which have no memory of their own\n"},
		{"two ports of one card, with one GUID, are two rails", `
root 0000:00
  00:01.0 gpu
  00:02.0 gpu
  00:03.0 nic rdma=mlx5_0
  00:03.1 nic rdma=mlx5_1`, "GPU0 PHB: mlx5_0\nGPU1 PHB: mlx5_1\n"},
		{"physical and virtual functions", `
root 0000:00
  00:01.0 gpu
  00:01.1 gpu pf=00:01.0
  00:02.0 nic rdma=mlx5_0
  00:02.1 nic rdma=mlx5_1 pf=00:02.0
  00:02.2 nic rdma=mlx5_2 pf=00:02.0`, `GPU0 PHB: mlx5_0
GPU1: a virtual function of GPU0, which is paired itself
mlx5_1: a virtual function of mlx5_0, whose port it would share
mlx5_2: a virtual function of mlx5_0, whose port it would share
`},
		{"a guest sees the virtual function only", `
root 0000:00
  00:01.0 gpu
  00:02.1 nic rdma=mlx5_1`, "GPU0 PHB: mlx5_1\n"},
		{"slower, down, without a driver", `
root 0000:00
  00:01.0 gpu
  00:02.0 nic rdma=mlx5_0 state=ACTIVE rate=400
  00:03.0 nic rdma=mlx5_1 state=DOWN rate=400
  00:04.0 nic rdma=mlx5_2 state=ACTIVE rate=100
  00:05.0 nic rdma=mlx5_3 state=ACTIVE rate=200
  00:06.0 nic`, `GPU0 PHB: mlx5_0 mlx5_3
mlx5_1: no port of it is active
mlx5_2: 100 Gb/s where the fabric has 400: a NIC for management or storage
NIC4: without an RDMA device: its driver mlx5_core gives none
`},
		{"all ports down", `
root 0000:00
  00:01.0 gpu
  00:02.0 nic rdma=mlx5_0 state=DOWN rate=400
  00:03.0 nic rdma=mlx5_1 state=INIT rate=100`, "GPU0 PHB: mlx5_0 mlx5_1\n"},
		{"no RDMA device anywhere, as in a topology file", `
root 0000:00
  00:01.0 gpu
  00:02.0 nic`, "GPU0 PHB: NIC0\n"},
		{"no NIC", "root 0000:00\n  00:01.0 gpu", "GPU0 unknown:\n"},
		{"no accelerator", "root 0000:00\n  00:01.0 nic rdma=a", "free: a\n"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo := sketch(t, c.machine)
			p, err := topo.Pair(PairOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := spelled(topo, p); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			for _, pair := range p.Pairs {
				if pair.Reason == "" {
					t.Errorf("%v has no reason", pair.Accelerator.Address)
				}
				if !slices.Equal(topo.Rails(pair.Accelerator), pair.Rails) {
					t.Errorf("Rails of %v differ", pair.Accelerator.Address)
				}
			}
		})
	}
}

func TestPairTellsWhy(t *testing.T) {
	topo := sketch(t, `
root 0000:00
  00:01.0 gpu
  00:02.0 gpu
  00:03.0 gpu
  00:04.0 nic rdma=a
  00:05.0 nic rdma=b
root 0000:40
  40:01.0 bridge
    41:00.0 gpu
    42:00.0 nic rdma=c
root 0000:80
  80:01.0 gpu
`)
	p, err := topo.Pair(PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PHB: the same root complex, pci0000:00, and no bridge in common; 2 NICs are nearest, too few for all: shared with GPU2",
		"PHB: the same root complex, pci0000:00, and no bridge in common; 2 NICs are nearest, too few for all: shared with GPU4",
		"PHB: the same root complex, pci0000:00, and no bridge in common; 2 NICs are nearest, too few for all: shared with GPU0",
		"PIX: the same bridge above, 0000:40:01.0; 1 NIC is as near, not to it alone but to GPU4: given out evenly, in order of address",
		"how far its NICs are is unknown (different root complexes, pci0000:80 and pci0000:00; of both no NUMA node is known); " +
			"3 NICs are perhaps nearest, too few for all: shared with GPU1",
	}
	for i, pair := range p.Pairs {
		if pair.Reason != want[i] {
			t.Errorf("GPU%d: got %s\nwant %s", i, pair.Reason, want[i])
		}
	}
	if len(p.Notes) != 2 {
		t.Errorf("notes: %q", p.Notes)
	}
}

func TestPairAtMost(t *testing.T) {
	topo := sketch(t, "root 0000:00\n  00:01.0 gpu\n  00:02.0 gpu\n  00:03.0 nic rdma=a\n  00:04.0 nic rdma=b\n  00:05.0 nic rdma=c\n  00:06.0 nic rdma=d\n")
	p, err := topo.Pair(PairOptions{Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := spelled(topo, p), "GPU0 PHB: a\nGPU1 PHB: b\nfree: c d\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
