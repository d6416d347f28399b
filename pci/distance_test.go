package pci

import (
	"strings"
	"testing"
)

// everywhere has two devices in each relation.
const everywhere = `
arm
node 0 far=10,32,80
node 1 far=32,10,80
node 2 absent
node 3 none
root 0000:00 node=0
  00:01.0 port node=0
    01:00.0 up node=0
      02:00.0 down node=0
        03:00.0 gpu node=0
        03:00.1 nic node=0
      02:01.0 down node=0
        04:00.0 nic node=0
      02:02.0 down node=0
        05:00.0 up node=0
          06:00.0 down node=0
            07:00.0 nic node=0
      02:03.0 nvme node=0
  00:02.0 port node=0
    08:00.0 nic node=0
  00:1f.0 eth
  00:1f.1 eth
root 0000:40 node=0
  40:01.0 port
    41:00.0 nic
root 0000:80 node=1
  80:01.0 port
    81:00.0 nic node=1
root 0000:90
  90:01.0 port
    91:00.0 nic
  90:02.0 port
    92:00.0 nic node=2
  90:03.0 port
    93:00.0 nic node=3
  90:04.0 port node=1
    94:00.0 nic
root 0009:00 node=0
  0009:00:00.0 port node=0
    0009:01:00.0 grace node=0
root 0019:00 node=1
  0019:00:00.0 port node=1
    0019:01:00.0 grace node=1
`

func TestDistance(t *testing.T) {
	topo := sketch(t, everywhere)
	for _, c := range []struct {
		a, b   string
		class  Class
		reason string
		path   string
	}{
		{"03:00.0", "03:00.0", Same, "the same device", "03:00.0"},
		{"03:00.0", "03:00.1", PIX, "the same bridge above, 0000:02:00.0", "03:00.0 02:00.0 03:00.1"},
		{"03:00.0", "04:00.0", PIX, "one switch, upstream port 0000:01:00.0", "03:00.0 02:00.0 01:00.0 02:01.0 04:00.0"},
		{"03:00.0", "02:00.0", PIX, "0000:02:00.0 is directly above", "03:00.0 02:00.0"},
		{"01:00.0", "03:00.0", PIX, "0000:01:00.0 is the upstream port of the switch above", "01:00.0 02:00.0 03:00.0"},
		{"00:01.0", "03:00.0", PXB, "0000:00:01.0 is above, over more than one bridge", "00:01.0 01:00.0 02:00.0 03:00.0"},
		{"03:00.0", "07:00.0", PXB, "more than one bridge, the lowest in common 0000:01:00.0",
			"03:00.0 02:00.0 01:00.0 02:02.0 05:00.0 06:00.0 07:00.0"},
		{"03:00.0", "02:03.0", PXB, "more than one bridge, the lowest in common 0000:01:00.0", "03:00.0 02:00.0 01:00.0 02:03.0"},
		{"03:00.0", "08:00.0", PHB, "the same root complex, pci0000:00, and no bridge in common",
			"03:00.0 02:00.0 01:00.0 00:01.0 00:02.0 08:00.0"},
		{"00:1f.0", "00:1f.1", PHB, "the same root complex, pci0000:00, and no bridge in common", "00:1f.0 00:1f.1"},
		{"03:00.0", "41:00.0", NODE, "different root complexes, pci0000:00 and pci0000:40, of NUMA node 0",
			"03:00.0 02:00.0 01:00.0 00:01.0 40:01.0 41:00.0"},
		{"03:00.0", "81:00.0", SYS, "NUMA nodes 0 and 1, 32 apart where 10 is local",
			"03:00.0 02:00.0 01:00.0 00:01.0 80:01.0 81:00.0"},
		{"03:00.0", "91:00.0", ClassUnknown, "different root complexes, pci0000:00 and pci0000:90; of 0000:91:00.0 no NUMA node is known",
			"03:00.0 02:00.0 01:00.0 00:01.0 90:01.0 91:00.0"},
		{"91:00.0", "03:00.0", ClassUnknown, "different root complexes, pci0000:90 and pci0000:00; of 0000:91:00.0 no NUMA node is known",
			"91:00.0 90:01.0 00:01.0 01:00.0 02:00.0 03:00.0"},
		{"41:00.0", "92:00.0", ClassUnknown, "different root complexes, pci0000:40 and pci0000:90; of 0000:92:00.0 the kernel lists no NUMA node 2",
			"41:00.0 40:01.0 90:02.0 92:00.0"},
		{"41:00.0", "93:00.0", ClassUnknown, "different root complexes, pci0000:40 and pci0000:90; of 0000:93:00.0 the NUMA node, 3, has no processors",
			"41:00.0 40:01.0 90:03.0 93:00.0"},
		{"81:00.0", "94:00.0", NODE, "different root complexes, pci0000:80 and pci0000:90, of NUMA node 1", "81:00.0 80:01.0 90:04.0 94:00.0"},
		{"41:00.0", "0009:01:00.0", C2C, "different root complexes, pci0000:40 and pci0009:00, of NUMA node 0, " +
			"whose processor reaches the accelerator's memory over a chip-to-chip link", "41:00.0 40:01.0 0009:00:00.0 0009:01:00.0"},
		{"41:00.0", "0019:01:00.0", SYS, "NUMA nodes 0 and 1, 32 apart where 10 is local", "41:00.0 40:01.0 0019:00:00.0 0019:01:00.0"},
	} {
		d := topo.Distance(at(t, topo, c.a), at(t, topo, c.b))
		var path []string
		for _, hop := range d.Path {
			path = append(path, strings.TrimPrefix(hop.Address.String(), "0000:"))
		}
		if got := strings.Join(path, " "); d.Class != c.class || d.Reason != c.reason || got != c.path {
			t.Errorf("%s to %s is %v, %s\n  over %s\nwant %v, %s\n  over %s", c.a, c.b, d.Class, d.Reason, got, c.class, c.reason, c.path)
		}
	}
}

func TestDistanceIsTheSameBothWays(t *testing.T) {
	topo := sketch(t, everywhere)
	for _, a := range topo.Devices {
		for _, b := range topo.Devices {
			there, back := topo.Distance(a, b), topo.Distance(b, a)
			if there.Class != back.Class || len(there.Path) != len(back.Path) {
				t.Errorf("%v to %v is %v over %d, back %v over %d", a.Address, b.Address, there.Class, len(there.Path), back.Class, len(back.Path))
			}
			if (there.Class == Same) != (a == b) {
				t.Errorf("%v to %v is %v", a.Address, b.Address, there.Class)
			}
		}
	}
}

// Where config space could not be read the shape tells a switch from a root port.
func TestDistanceByShape(t *testing.T) {
	topo := sketch(t, `
root 0000:00
  00:01.0 bridge
    01:00.0 bridge
      02:00.0 bridge
        03:00.0 gpu
      02:01.0 bridge
        04:00.0 nic
    01:00.1 bridge
      05:00.0 nic
`)
	if c := topo.Distance(at(t, topo, "03:00.0"), at(t, topo, "04:00.0")).Class; c != PIX {
		t.Errorf("below a switch: %v", c)
	}
	if c := topo.Distance(at(t, topo, "02:00.0"), at(t, topo, "05:00.0")).Class; c != PXB {
		t.Errorf("two bridges below a root port: %v", c)
	}
}

// On x86 the same device has no such link, nor has another on arm64.
func TestChipLinkNeedsBoth(t *testing.T) {
	for text, want := range map[string]Class{"arm\n" + grace: C2C, grace: NODE, "arm\n" + strings.ReplaceAll(grace, "grace", "gpu"): NODE} {
		topo := sketch(t, text)
		if c := topo.Distance(topo.Devices[0], topo.Devices[1]).Class; c != want {
			t.Errorf("got %v, want %v, for%s", c, want, text)
		}
	}
}

const grace = `node 0
root 0000:00 node=0
  00:00.0 nic
root 0009:00 node=0
  0009:00:00.0 grace
`

func TestDistanceOfStrangeDevices(t *testing.T) {
	topo := &Topology{}
	a, b := &Device{Address: Address{Bus: 1}}, &Device{Address: Address{Bus: 2}}
	if d := topo.Distance(a, nil); d.Class != ClassUnknown || d.Reason == "" || d.Path != nil {
		t.Errorf("to nothing: %+v", d)
	}
	if d := topo.Distance(a, b); d.Class != ClassUnknown || d.Reason == "" {
		t.Errorf("without roots: %+v", d)
	}
	a.Parent, b.Parent = b, a // nobody assembled it
	if d := topo.Distance(a, &Device{Parent: b}); len(d.Path) > 2*deepest+2 {
		t.Errorf("a path of %d", len(d.Path))
	}
	if s := Class(99).String(); s != "Class(99)" {
		t.Error(s)
	}
}
