package pci

import (
	"fmt"
	"strings"
	"testing"
)

// lspciTree makes a machine of what lspci -tv printed of it: root complexes, and
// below each what the lines of the tree lead to.
func lspciTree(t testing.TB, text string) *Topology {
	t.Helper()
	topo := &Topology{}
	// Where a branch is, in columns, tells what is joined to it.
	joints := map[int]joint{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		var at joint
		var last *Device
		for i, branches := 0, 0; i < len(line); {
			switch c := line[i]; {
			case c == ' ' || c == '|' || c == '-':
				i++
			case c == '+' || c == '\\':
				if known, ok := joints[i]; ok && branches == 0 {
					at = known
				} else {
					joints[i] = at
				}
				branches++
				i++
			case c == '[':
				end := i + strings.IndexByte(line[i:], ']')
				if end < i {
					t.Fatalf("%q: a bus without an end", line)
				}
				at = at.bus(t, topo, line[i+1:end], last)
				i = end + 1
			default:
				name, rest, _ := strings.Cut(line[i:], "-[")
				name, description, whole := strings.Cut(name, "  ")
				last = at.function(t, topo, name, description)
				if whole || rest == "" {
					i = len(line)
				} else {
					i += len(name)
				}
			}
		}
	}
	Assemble(topo)
	return topo
}

// joint is the bus that a place in the tree stands for.
type joint struct {
	root   *Root
	bridge *Device
	number uint8
}

// bus reads what is between brackets: a root complex, DDDD:BB, or the buses that
// the function before it leads to.
func (at joint) bus(t testing.TB, topo *Topology, text string, bridge *Device) joint {
	t.Helper()
	if domain, bus, ok := scanBus("pci" + text); ok {
		root := &Root{Name: "pci" + text, Path: "pci" + text, Domain: domain, Bus: bus}
		topo.Roots = append(topo.Roots, root)
		return joint{root: root, number: bus}
	}
	first, _, _ := strings.Cut(text, "-")
	number, ok := hexNumber(first)
	if !ok || bridge == nil {
		t.Fatalf("%q below %v is no bus", text, bridge)
	}
	bridge.Class = 0x060400
	return joint{root: at.root, bridge: bridge, number: uint8(number)}
}

// function adds DD.F on the bus, which is in a line with its description.
func (at joint) function(t testing.TB, topo *Topology, name, description string) *Device {
	t.Helper()
	if at.root == nil {
		t.Fatalf("%q is on no bus", name)
	}
	a, ok := scanAddress(fmt.Sprintf("%04x:%02x:%s", at.root.Domain, at.number, name), 4)
	if !ok {
		t.Fatalf("%q is no function", name)
	}
	d := &Device{Address: a, Root: at.root, Parent: at.bridge, Group: -1, ProductName: description}
	topo.Devices = append(topo.Devices, d)
	return d
}
