package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// TestMachine reads the machine as peerdirect does: it is what it is said to be.
func TestMachine(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			root, err := sysroot.Open(made(t, m.cpus))
			if err != nil {
				t.Fatal(err)
			}
			topo, err := pci.Read(root)
			if err != nil {
				t.Fatal(err)
			}
			count := map[pci.Kind]int{}
			vfs := 0
			for _, d := range topo.Devices {
				if d.PF != nil {
					vfs++
					continue
				}
				count[d.Kind]++
				if d.Node == nil || d.Link.Width == 0 && d.Kind != pci.Other {
					t.Errorf("%s: node %v, link %+v", d.Address, d.Node, d.Link)
				}
			}
			got := fmt.Sprint(len(topo.Devices), " functions, ", vfs, " virtual, ", count[pci.Accelerator], " accelerators, ",
				count[pci.RDMANIC], " NICs, ", count[pci.NVMe], " NVMe, ", len(topo.Switches), " switches")
			want := "300 functions, 160 virtual, 8 accelerators, 32 NICs, 8 NVMe, 8 switches"
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if n := len(topo.Nodes); n != sockets || len(topo.Nodes[0].CPUs)+len(topo.Nodes[1].CPUs) != m.cpus {
				t.Errorf("%d nodes", n)
			}
			for _, a := range topo.Of(pci.Accelerator) {
				if rails := topo.Rails(a); len(rails) != nicsOfRoot || topo.Distance(a, rails[0]).Class != pci.PIX {
					t.Errorf("%s has rails %v", topo.Name(a), rails)
				}
			}
		})
	}
}

// TestLstopoSeesTheSame compares with lstopo's whole tree: the comparison is one of
// equals only if it reads the same functions, and the processors.
func TestLstopoSeesTheSame(t *testing.T) {
	if _, err := exec.LookPath("lstopo"); err != nil {
		t.Skip("needs lstopo, of Debian's package hwloc-nox")
	}
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			dir := made(t, m.cpus)
			cmd := lstopo(t.Context(), dir, "--whole-io")
			cmd.Args[2] = "xml"
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			type object struct {
				Kind    string   `xml:"type,attr"`
				Address string   `xml:"pci_busid,attr"`
				Objects []object `xml:"object"`
			}
			var top object
			if err := xml.Unmarshal(out, &top); err != nil {
				t.Fatal(err)
			}
			functions, processors := map[string]bool{}, 0
			for todo := []object{top}; len(todo) > 0; todo = todo[1:] {
				o := todo[0]
				if o.Address != "" {
					functions[strings.TrimPrefix(o.Address, "0000:")] = true
				}
				if o.Kind == "PU" {
					processors++
				}
				todo = append(todo, o.Objects...)
			}
			links, err := filepath.Glob(filepath.Join(dir, "sys/bus/pci/devices/*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range links {
				if a := strings.TrimPrefix(filepath.Base(link), "0000:"); !functions[a] {
					t.Errorf("lstopo does not have %s", a)
				}
			}
			if len(links) != 300 || len(functions) != 300 || processors != m.cpus {
				t.Errorf("%d functions, of which lstopo has %d, and %d of %d processors", len(links), len(functions), processors, m.cpus)
			}
		})
	}
}

// made makes a machine, in memory where there is a place: it is thousands of files.
func made(t *testing.T, cpus int) string {
	t.Helper()
	dir, err := os.MkdirTemp(inMemory(), "peerdirect-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := machine(dir, cpus); err != nil {
		t.Fatal(err)
	}
	return dir
}
