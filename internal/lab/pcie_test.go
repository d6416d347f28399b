package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPCIeTree(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 5, 8, 9, 31, 32} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			slots, args := pcieTree(n)
			if len(slots) != n {
				t.Fatalf("%d slots", len(slots))
			}
			if n <= 1 {
				if len(args) > 0 {
					t.Errorf("bridges for %d device: %q", n, args)
				}
				return
			}
			parent, chassis := map[string]string{"pcie.0": ""}, map[string]bool{}
			for i := 1; i < len(args); i += 2 {
				d := properties(args[i])
				if _, ok := parent[d["bus"]]; !ok {
					t.Errorf("%s: there is no bus %q before it", args[i], d["bus"])
				}
				parent[d["id"]] = d["bus"]
				if c, ok := d["chassis"]; ok {
					if chassis[c] {
						t.Errorf("%s: its chassis has been used", args[i])
					}
					chassis[c] = true
				}
			}
			perSwitch := map[string]int{}
			for i, s := range slots {
				up := parent[s.bus]
				if perSwitch[up]++; perSwitch[up] > portsPerSwitch {
					t.Errorf("more than %d devices on %s", portsPerSwitch, up)
				}
				root := parent[parent[up]]
				want := "numa0"
				if i >= (n+1)/2 {
					want = "numa1"
				}
				if root != want {
					t.Errorf("device %d is below %s, want %s", i, root, want)
				}
			}
		})
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
