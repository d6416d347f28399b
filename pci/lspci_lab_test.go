//go:build lab

package pci

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// function is what lspci tells of one: the part of a Device that has no pointers.
type function struct {
	Parent                                 string // "" on a root bus
	Vendor, Product, SubVendor, SubProduct uint16
	Class                                  uint32
	Revision                               uint8
	VendorName, ProductName, Driver, Slot  string
	Node, Group                            int // -1 is none
	Port                                   Port
	Link                                   Link
	BARs                                   []BAR
	ACS                                    *ACS
}

// asFunction is what this package tells of a device.
func asFunction(d *Device) function {
	f := function{
		Vendor: d.Vendor, Product: d.Product, SubVendor: d.SubVendor, SubProduct: d.SubProduct, Class: d.Class, Revision: d.Revision,
		VendorName: d.VendorName, ProductName: d.ProductName, Driver: d.Driver, Slot: d.Slot,
		Node: -1, Group: d.Group, Port: d.Port, Link: d.Link, BARs: d.BARs, ACS: d.ACS,
	}
	if d.Parent != nil {
		f.Parent = d.Parent.Address.String()
	}
	if d.Node != nil {
		f.Node = d.Node.Number
	}
	return f
}

// tool runs a command of the guest.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

func address(t *testing.T, s string) Address {
	t.Helper()
	a, err := ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// lspci asks for every function: its way (-PP), its identity (-vmm) and its
// registers (-vv).
func lspci(t *testing.T) map[Address]*function {
	t.Helper()
	all := map[Address]*function{}
	for line := range strings.Lines(tool(t, "lspci", "-D", "-PP")) {
		way, _, _ := strings.Cut(line, " ")
		steps := strings.Split(way, "/")
		f := &function{Node: -1, Group: -1, Port: NotExpress}
		if n := len(steps); n > 1 {
			f.Parent = address(t, steps[n-2]).String()
		}
		all[address(t, steps[len(steps)-1])] = f
	}
	of := func(s string) *function {
		f := all[address(t, s)]
		if f == nil {
			t.Fatalf("lspci lists %s only sometimes", s)
		}
		return f
	}
	for record := range strings.SplitSeq(tool(t, "lspci", "-D", "-vmmnnk"), "\n\n") {
		if record = strings.TrimSpace(record); record != "" {
			_, slot, _ := strings.Cut(strings.SplitN(record, "\n", 2)[0], "\t")
			of(slot).identify(t, record)
		}
	}
	for block := range strings.SplitSeq(tool(t, "lspci", "-D", "-vv"), "\n\n") {
		if block = strings.TrimSpace(block); block != "" {
			name, rest, _ := strings.Cut(block, " ")
			of(name).registers(t, rest)
		}
	}
	return all
}

// identify reads a record of lspci -vmmnnk: a name and its number, "[8086]".
func (f *function) identify(t *testing.T, record string) {
	t.Helper()
	number := func(s string, base int) int {
		n, err := strconv.ParseUint(s, base, 32)
		if err != nil {
			t.Fatalf("lspci: %v in\n%s", err, record)
		}
		return int(n)
	}
	named := func(value, unknown string) (string, uint16) {
		i := strings.LastIndex(value, " [")
		name := value[:max(i, 0)]
		if name == unknown {
			name = "" // pci.ids does not have it
		}
		return name, uint16(number(strings.TrimSuffix(value[i+2:], "]"), 16))
	}
	interfaceCode := 0
	for line := range strings.Lines(record) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch key {
		case "Class":
			_, class := named(value, "")
			f.Class = uint32(class) << 8
		case "ProgIf":
			interfaceCode = number(value, 16)
		case "Vendor":
			f.VendorName, f.Vendor = named(value, "Vendor")
		case "Device":
			f.ProductName, f.Product = named(value, "Device")
		case "SVendor":
			_, f.SubVendor = named(value, "")
		case "SDevice":
			_, f.SubProduct = named(value, "")
		case "Rev":
			f.Revision = uint8(number(value, 16))
		case "PhySlot":
			f.Slot = value
		case "Driver":
			f.Driver = value
		case "NUMANode":
			f.Node = number(value, 10)
		case "IOMMUGroup":
			f.Group = number(value, 10)
		}
	}
	f.Class |= uint32(interfaceCode)
}

var (
	lspciExpress = regexp.MustCompile(`\] Express(?: \(v\d\))? ([A-Z].*?)(?:, | \(Slot|\n)`)
	lspciLink    = regexp.MustCompile(`(LnkCap|LnkSta):\t(?:Port #\d+, )?Speed (?:([\d.]+)GT/s|unknown)(?: \(\w+\))?, Width x(\d+)`)
	lspciSpeeds  = regexp.MustCompile(`LnkCap2: Supported Link Speeds: (?:[\d.]+-)?([\d.]+)GT/s`)
	lspciACS     = regexp.MustCompile(`(ACSCap|ACSCtl):\t(.*)`)
	lspciRegion  = regexp.MustCompile(`Region (\d): (Memory|I/O ports) at \S+ (?:\((\d\d)-bit, (non-)?prefetchable\) )?.*\[size=(\d+)([KMG]?)\]`)
)

var lspciPorts = map[string]Port{
	"Endpoint": Endpoint, "Legacy Endpoint": LegacyEndpoint, "Root Complex Integrated Endpoint": IntegratedEndpoint,
	"Root Port": RootPort, "Upstream Port": UpstreamPort, "Downstream Port": DownstreamPort,
}

// registers reads what lspci -vv decodes.
func (f *function) registers(t *testing.T, block string) {
	t.Helper()
	if m := lspciExpress.FindStringSubmatch(block); m != nil {
		if f.Port = lspciPorts[m[1]]; f.Port == PortUnknown {
			t.Errorf("lspci: no port of ours is %q", m[1])
		}
	}
	for _, m := range lspciLink.FindAllStringSubmatch(block, -1) {
		speed, _ := strconv.ParseFloat(m[2], 64) // "" is unknown
		width, _ := strconv.Atoi(m[3])
		if m[1] == "LnkSta" {
			f.Link.Speed, f.Link.Width = speed, width
		} else {
			f.Link.MaxSpeed, f.Link.MaxWidth = speed, width
		}
	}
	if m := lspciSpeeds.FindStringSubmatch(block); m != nil {
		f.Link.MaxSpeed, _ = strconv.ParseFloat(m[1], 64)
	}
	for _, m := range lspciACS.FindAllStringSubmatch(block, -1) {
		if f.ACS == nil {
			f.ACS = &ACS{}
		}
		word := &f.ACS.Capability
		if m[1] == "ACSCtl" {
			word = &f.ACS.Control
		}
		for i, flag := range strings.Fields(m[2]) {
			if strings.HasSuffix(flag, "+") {
				*word |= 1 << i
			}
		}
	}
	for _, m := range lspciRegion.FindAllStringSubmatch(block, -1) {
		index, _ := strconv.Atoi(m[1])
		size, _ := strconv.ParseUint(m[5], 10, 64)
		size <<= map[string]int{"K": 10, "M": 20, "G": 30}[m[6]]
		memory := m[2] == "Memory"
		f.BARs = append(f.BARs, BAR{Index: index, Size: size, Memory: memory, Prefetchable: memory && m[4] == "", Width64: m[3] == "64"})
	}
}

// lspciText is what of its answers says how much was compared.
func lspciText(all map[Address]*function) string {
	count := map[string]int{}
	for _, f := range all {
		count["functions"]++
		count["regions"] += len(f.BARs)
		for what, has := range map[string]bool{
			"below a bridge": f.Parent != "", "with a node": f.Node >= 0, "in an IOMMU group": f.Group >= 0,
			"with access control": f.ACS != nil, "with a link": f.Link.Width > 0, "with a driver": f.Driver != "",
		} {
			if has {
				count[what]++
			}
		}
	}
	return fmt.Sprint(count)
}
