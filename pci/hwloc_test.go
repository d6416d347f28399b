package pci

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// said is what a printed topology tells of a function. Empty strings and negative
// numbers are not told.
type said struct {
	address, parent   string // parent: the bridge above; "" on a root bus
	root              string // DDDD:BB
	class, id         string // 0200, 8086:1521
	sub               string // 1028:0518
	revision, program int
	link              float64 // GB/s each way; 0 is not told
	cpus              string  // of what its root complex is below
	slot              string
	names             []string // of devices of the system: interfaces, RDMA devices, co-processors
}

var (
	consoleObject = regexp.MustCompile(`^( *)([A-Za-z0-9]+)(\[[^]]*\])?.* L#\d+`)
	consoleCPU    = regexp.MustCompile(`PU L#\d+ \(P#(\d+)\)`)
	consoleBus    = regexp.MustCompile(`HostBridge L#\d+ \(buses=([0-9a-f]+):\[([0-9a-f]{2})-`)
	consoleDevice = regexp.MustCompile(`\(busid=(\S+) id=(\S+) class=([0-9a-f]{4})\([^)]*\)(?: link=([0-9.]+)GB/s)?(?: buses=\S+)?(?: PCISlot=([^)]*))?\)`)
	consoleName   = regexp.MustCompile(`OSDev\[(Network|OpenFabrics|Co-Processor)\].* "([^"]*)"$`)
)

// readConsole reads lstopo's console format: an object in a line, indented by what
// contains it.
func readConsole(t *testing.T, text string) (all []*said) {
	t.Helper()
	type level struct {
		indent int
		kind   string
		cpus   *[]string // of the package
		device *said
		root   string
	}
	var above []level
	packages := map[*said]*[]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := consoleObject.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for len(above) > 0 && above[len(above)-1].indent >= len(m[1]) {
			above = above[:len(above)-1]
		}
		now := level{indent: len(m[1]), kind: m[2]}
		if n := len(above); n > 0 {
			now.cpus, now.device, now.root = above[n-1].cpus, above[n-1].device, above[n-1].root
		}
		switch {
		case now.kind == "Package":
			now.cpus = new([]string)
		case now.kind == "PU":
			*now.cpus = append(*now.cpus, consoleCPU.FindStringSubmatch(line)[1])
		case now.kind == "HostBridge":
			bus := consoleBus.FindStringSubmatch(line)
			now.root, now.device = bus[1]+":"+bus[2], nil
		case strings.HasPrefix(now.kind, "PCI"):
			f := consoleDevice.FindStringSubmatch(line)
			if f == nil {
				t.Fatalf("no PCI device: %q", line)
			}
			s := &said{address: f[1], id: f[2], class: f[3], root: now.root, slot: f[5], revision: -1, program: -1}
			s.link, _ = strconv.ParseFloat(f[4], 64)
			if now.device != nil {
				s.parent = now.device.address
			}
			packages[s] = now.cpus
			now.device = s
			all = append(all, s)
		case now.kind == "OSDev" && now.device != nil:
			if f := consoleName.FindStringSubmatch(line); f != nil {
				now.device.names = append(now.device.names, f[2])
			}
		}
		above = append(above, now)
	}
	for s, list := range packages {
		if list != nil {
			s.cpus = canonical(t, strings.Join(*list, ","))
		}
	}
	return all
}

// canonical spells a list of CPUs as the kernel does.
func canonical(t *testing.T, list string) string {
	t.Helper()
	cpus, err := ParseCPUs(list)
	if err != nil {
		t.Fatal(err)
	}
	return cpus.String()
}

// readHwlocXML reads lstopo's XML.
func readHwlocXML(t *testing.T, text []byte) (all []*said) {
	t.Helper()
	type level struct {
		cpus, root string
		device     *said
	}
	var above []level
	for decoder := xml.NewDecoder(strings.NewReader(string(text))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.EndElement:
			above = above[:len(above)-1]
		case xml.StartElement:
			var now level
			if n := len(above); n > 0 {
				now = above[n-1]
			}
			has := map[string]string{}
			for _, a := range token.Attr {
				has[a.Name.Local] = a.Value
			}
			switch kind := has["type"]; {
			case has["cpuset"] != "":
				now.cpus = cpuset(t, has["cpuset"])
			case kind == "Bridge" && has["bridge_type"] == "0-1":
				bus := regexp.MustCompile(`^([0-9a-f]+):\[([0-9a-f]{2})`).FindStringSubmatch(has["bridge_pci"])
				now.root = bus[1] + ":" + bus[2]
			case kind == "Bridge", kind == "PCIDev":
				s := &said{address: has["pci_busid"], root: now.root, cpus: now.cpus}
				identity := strings.NewReplacer("[", "", "]", "").Replace(has["pci_type"])
				if _, err := fmt.Sscanf(identity, "%s %s %s %x %x", &s.class, &s.id, &s.sub, &s.revision, &s.program); err != nil {
					t.Fatalf("%q: %v", identity, err)
				}
				s.link, _ = strconv.ParseFloat(has["pci_link_speed"], 64)
				if now.device != nil {
					s.parent = now.device.address
				}
				now.device = s
				all = append(all, s)
			case kind == "OSDev" && now.device != nil:
				// Bits of hwloc 3: 8 co-processor, 16 network, 32 OpenFabrics.
				if bits, _ := strconv.Atoi(has["osdev_type"]); bits&(8|16|32) != 0 {
					now.device.names = append(now.device.names, has["name"])
				}
			}
			above = append(above, now)
		}
	}
}

// cpuset reads a mask, "0x0000ff00".
func cpuset(t *testing.T, mask string) string {
	t.Helper()
	bits, err := strconv.ParseUint(mask, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	var cpus CPUs
	for i := range 64 {
		if bits&(1<<i) != 0 {
			cpus = append(cpus, i)
		}
	}
	return cpus.String()
}

// agree compares what is said of a function with ours, and counts what was said.
// Of the bridges above, those that were not printed are left out.
func (s *said) agree(t *testing.T, topo *Topology, printed map[string]bool) (facts int) {
	t.Helper()
	d := placed(t, topo, s.address)
	is := func(what, ours, theirs string) {
		t.Helper()
		facts++
		if ours != theirs {
			t.Errorf("%s of %s is %q; published is %q", what, s.address, ours, theirs)
		}
	}
	is("the address", d.Address.String(), s.address)
	is("the class", fmt.Sprintf("%04x", d.Class>>8), s.class)
	is("the identity", fmt.Sprintf("%04x:%04x", d.Vendor, d.Product), s.id)
	is("the root complex", strings.TrimPrefix(d.Root.Name, "pci"), s.root)
	above := d.Parent
	for above != nil && !printed[above.Address.String()] {
		above = above.Parent
	}
	parent := ""
	if above != nil {
		parent = above.Address.String()
	}
	is("the bridge above", parent, s.parent)
	if s.sub != "" && s.sub != "0000:0000" { // of a bridge it is elsewhere in config space
		is("the subsystem", fmt.Sprintf("%04x:%04x", d.SubVendor, d.SubProduct), s.sub)
	}
	if s.revision >= 0 {
		is("the revision", fmt.Sprintf("%02x", d.Revision), fmt.Sprintf("%02x", s.revision))
		is("the interface", fmt.Sprintf("%02x", uint8(d.Class)), fmt.Sprintf("%02x", s.program))
	}
	if s.link > 0 {
		is("the link", fmt.Sprintf("%.2f", d.Link.Bandwidth()), fmt.Sprintf("%.2f", s.link))
	}
	if s.cpus != "" {
		is("the CPUs near", d.CPUs.String(), s.cpus)
	}
	if s.slot != "" {
		is("the slot", d.Slot, s.slot)
	}
	for _, name := range s.names {
		facts++
		if !called(d, name) {
			t.Errorf("%s is not named %s: %v %v %v", s.address, name, d.RDMA, d.Net, d.Dev)
		}
	}
	return facts
}
