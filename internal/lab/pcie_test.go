package lab

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPCIeTree(t *testing.T) {
	for _, c := range []struct{ efa, accelerators int }{
		{0, 0}, {1, 0}, {0, 1}, {2, 0}, {0, 2}, {1, 1}, {2, 1}, {1, 2}, {3, 0}, {5, 3}, {8, 8}, {9, 2}, {31, 0},
		{0, MaxAccelerators}, {MaxEFA, 0}, {MaxEFA, MaxAccelerators},
	} {
		t.Run(fmt.Sprint(c.efa, "+", c.accelerators), func(t *testing.T) {
			l := pcieTree(c.efa, c.accelerators, false)
			if len(l.efa) != c.efa || len(l.accelerators) != c.accelerators {
				t.Fatalf("%d and %d slots", len(l.efa), len(l.accelerators))
			}
			if numa := c.efa > 1 || c.accelerators > 1; l.numa != numa {
				t.Errorf("on two NUMA nodes: %v", l.numa)
			}
			if c.efa+c.accelerators <= 1 {
				if len(l.bridges) > 0 {
					t.Errorf("bridges for one device: %q", l.bridges)
				}
				return
			}
			parent, chassis, places := map[string]string{"pcie.0": ""}, map[string]bool{}, map[string]bool{}
			for i := 1; i < len(l.bridges); i += 2 {
				d := properties(l.bridges[i])
				if _, ok := parent[d["bus"]]; !ok {
					t.Errorf("%s: there is no bus %q before it", l.bridges[i], d["bus"])
				}
				parent[d["id"]] = d["bus"]
				if c, ok := d["chassis"]; ok {
					if chassis[c] {
						t.Errorf("%s: its chassis has been used", l.bridges[i])
					}
					chassis[c] = true
				}
				if addr, ok := d["addr"]; ok {
					if at := d["bus"] + " " + addr; places[at] {
						t.Errorf("%s: its place is taken", l.bridges[i])
					} else {
						places[at] = true
					}
				}
			}
			nics := map[string]int{} // by switch
			for kind, slots := range map[string][]pcieSlot{"EFA device": l.efa, "accelerator": l.accelerators} {
				perSwitch := map[string]int{}
				for i, s := range slots {
					up := parent[s.bus]
					if perSwitch[up]++; perSwitch[up] > portsPerSwitch {
						t.Errorf("more than %d of kind %s on %s", portsPerSwitch, kind, up)
					}
					want := "pcie.0"
					if l.numa {
						want = "numa0"
						if i >= (len(slots)+1)/2 {
							want = "numa1"
						}
					}
					if root := parent[parent[up]]; root != want {
						t.Errorf("%s %d is below %s, want %s", kind, i, root, want)
					}
				}
				if kind == "EFA device" {
					nics = perSwitch
				}
			}
			// As many of one as of the other: each has one of the other near it.
			for i, s := range l.accelerators {
				if c.efa >= c.accelerators && nics[parent[s.bus]] == 0 {
					t.Errorf("accelerator %d has no EFA device on its switch", i)
				}
			}
		})
	}
}

// Only the ports above accelerators are of the kind that has access control, and
// nothing else is different.
func TestPCIeTreeWithAccessControl(t *testing.T) {
	plain, acs := pcieTree(8, 3, false), pcieTree(8, 3, true)
	above := map[string]bool{}
	for _, s := range acs.accelerators {
		above[s.bus] = true
	}
	for i, arg := range plain.bridges {
		want := arg
		if above[properties(arg)["id"]] {
			want = strings.Replace(arg, downstreamPort, rootPort, 1)
			delete(above, properties(arg)["id"])
		}
		if acs.bridges[i] != want {
			t.Errorf("%s, want %s", acs.bridges[i], want)
		}
	}
	if len(above) > 0 {
		t.Errorf("no ports are %v", above)
	}
	plain.bridges, acs.bridges = nil, nil
	if !reflect.DeepEqual(plain, acs) {
		t.Errorf("devices are elsewhere: %+v, %+v", plain, acs)
	}
}

// properties reads a device the way QEMU does.
func properties(arg string) map[string]string {
	p := map[string]string{}
	for i, f := range strings.Split(arg, ",") {
		if i == 0 {
			p["driver"] = f
			continue
		}
		k, v, _ := strings.Cut(f, "=")
		p[k] = v
	}
	return p
}

func TestMemoryArguments(t *testing.T) {
	for name, c := range map[string]struct {
		memory, cpus int
		numa         bool
		want         string
	}{
		"one node": {1024, 2, false, "-m 1024 -smp 2 -object memory-backend-memfd,id=mem,size=1024M,share=on -machine q35,memory-backend=mem"},
		"two nodes, uneven": {1025, 3, true, "-m 1025 -smp 3 -machine q35" +
			" -object memory-backend-memfd,id=mem0,size=513M,share=on -numa node,nodeid=0,memdev=mem0,cpus=0-1" +
			" -object memory-backend-memfd,id=mem1,size=512M,share=on -numa node,nodeid=1,memdev=mem1,cpus=2-2"},
		"one processor": {512, 1, true, "-m 512 -smp 1 -machine q35" +
			" -object memory-backend-memfd,id=mem0,size=256M,share=on -numa node,nodeid=0,memdev=mem0,cpus=0-0" +
			" -object memory-backend-memfd,id=mem1,size=256M,share=on -numa node,nodeid=1,memdev=mem1"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, strings.Join(memoryArguments(c.memory, c.cpus, c.numa), " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
