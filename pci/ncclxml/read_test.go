package ncclxml

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/cputime"
	"github.com/peerdirect/peerdirect/pci"
)

// sketch spells a topology in lines: root complexes with their node, and below them
// each device with what is known.
func sketch(t *pci.Topology) string {
	var s strings.Builder
	var down func(list []*pci.Device, indent string)
	down = func(list []*pci.Device, indent string) {
		for _, d := range list {
			fmt.Fprintf(&s, "%s%s %s", indent, d.Address, d.Kind)
			if d.Link != (pci.Link{}) {
				fmt.Fprintf(&s, " %gx%d", d.Link.MaxSpeed, d.Link.MaxWidth)
			}
			for _, r := range d.RDMA {
				fmt.Fprint(&s, " rdma:", r.Name, r.Ports)
			}
			for _, n := range d.Net {
				fmt.Fprint(&s, " net:", n)
			}
			s.WriteString("\n")
			down(d.Children, indent+"  ")
		}
	}
	for _, r := range t.Roots {
		node := "?"
		if r.Node != nil {
			node = fmt.Sprint(r.Node.Number, " ", r.Node.CPUs)
		}
		fmt.Fprintf(&s, "%s node %s\n", r.Name, node)
		down(r.Children, "  ")
	}
	return s.String()
}

// TestRead: the oddities of files, and what is told of them. A word of the error is
// enough; with none there must be none.
func TestRead(t *testing.T) {
	const a, z = `<system version="1"><cpu numaid="0" affinity="3">`, `</cpu></system>`
	const in0 = "cpu0 node 0 0-1\n"
	for _, c := range []struct {
		name, text, want, err string
	}{
		{"a switch of a cloud", a + `<pci busid="ffff:ff:01.0" class="0x060400" vendor="0xffff" link_speed="8 GT/s" link_width="16">` +
			`<pci busid="0000:10:1c.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8"/></pci>` + z,
			in0 + "  ffff:ff:01.0 bridge 8x16\n    0000:10:1c.0 accelerator 16x8\n", ""},
		{"spellings of speed", a + `<pci busid="1:0.0" class="0x03" link_speed="32 GT/s PCIe/s"/><pci busid="2:0.0" class="0x02" link_speed="5"/>` +
			`<pci busid="3:0.0" class="0x0302" link_speed="Unknown" link_width="255"/><pci busid="4:0.0" class="0x0207" link_speed="" link_width=""/>` + z,
			in0 + "  0000:01:00.0 accelerator 32x0\n  0000:02:00.0 NIC 5x0\n  0000:03:00.0 accelerator\n  0000:04:00.0 RDMA NIC\n", ""},
		{"no speed", a + `<pci busid="1:0.0" class="0x03" link_speed="fast" link_width="-1"/>` + z, in0 + "  0000:01:00.0 accelerator\n", `link_speed "fast" is no speed`},
		{"no classes", a + `<pci busid="0:45:0.0"><pci busid="0:4f:0.0"/></pci>` + z,
			in0 + "  0000:45:00.0 bridge\n    0000:4f:00.0 other\n", ""},
		{"nets", a + `<pci busid="1:0.0"><nic><net name="mlx5_0" speed="400000" port="1" guid="0x1b"/></nic></pci><pci busid="2:0.0" class="0x020000">` +
			`<nic><net name="eth0" guid="0x0" speed="-1"/></nic></pci><nic><net name="veth0"/></nic>` + z,
			in0 + "  0000:01:00.0 RDMA NIC rdma:mlx5_0[{1  400 Gb/sec }]\n  0000:02:00.0 NIC net:eth0\n", ""},
		{"an accelerator by its element", a + `<pci busid="1:0.0" class="0x038000"><gpu dev="0" sm="90" rank="0"><nvlink target="0000:02:00.0" count="6" tclass="0x03"/><c2c bw="1" count="1"/></gpu></pci>` + z,
			in0 + "  0000:01:00.0 accelerator\n", ""},
		{"an unknown node", `<system version="1"><cpu numaid="-1" affinity="3"><pci busid="1:0.0" class="0x03"/></cpu></system>`, "cpu-1 node ?\n  0000:01:00.0 accelerator\n", ""},
		{"one node twice", a + `<pci busid="1:0.0" class="0x03"/></cpu><cpu numaid="0"><pci busid="2:0.0" class="0x03"/>` + z,
			in0 + "  0000:01:00.0 accelerator\ncpu0.1 node 0 0-1\n  0000:02:00.0 accelerator\n", ""},
		{"roots of ours", a + `<pci busid="1:0.0" class="0x03" root="pci0000:00"/><pci busid="2:0.0" class="0x03" root="pci0000:40" rdma="a,b" net="c"/>` + z,
			"pci0000:00 node 0 0-1\n  0000:01:00.0 accelerator\npci0000:40 node 0 0-1\n  0000:02:00.0 RDMA NIC rdma:a[] rdma:b[] net:c\n", ""},
		{"another host", `<system version="1"><cpu numaid="0" host_hash="0x1"><pci busid="1:0.0" class="0x03"/></cpu><cpu numaid="0" host_hash="0x2"><pci busid="1:0.0" class="0x03"/></cpu></system>`,
			"cpu0 node 0 \n  0000:01:00.0 accelerator\n", "line 1: this <cpu> is of another machine, host_hash 0x2"},
		{"an address twice", a + "<pci busid=\"1:0.0\" class=\"0x03\"/>\n<pci busid=\"0000:01:00.0\"/>" + z, in0 + "  0000:01:00.0 accelerator\n", "line 2: 0000:01:00.0 is there twice"},
		{"no address", a + "<pci class=\"0x060400\">\n<pci busid=\"x\"/></pci>\n\n<pci busid=\"1:0.0\" class=\"0x03\"/>" + z, in0 + "  0000:01:00.0 accelerator\n", `line 1: busid: "" is no PCI address`},
		{"no numbers", `<system version="9"><cpu numaid="one" affinity="g" familyid="x"><pci busid="1:0.0" class="3" vendor="nvidia"/></cpu></system>`, "cpu-1 node ?\n  0000:01:00.0 other\n",
			`version "9"|numaid "one"|familyid "x"|class "3"|vendor "nvidia"`},
		{"no numaid", `<system version="1"><cpu><pci busid="1:0.0" class="0x03"/></cpu></system>`, "cpu-1 node ?\n  0000:01:00.0 accelerator\n", "no numaid"},
		{"elements astray", a + `<gpu/><fabric><pci busid="2:0.0"/></fabric><pci busid="1:0.0" class="0x03"><cpu/></pci>` + z, in0 + "  0000:01:00.0 accelerator\n",
			"<gpu> cannot be in <cpu>|<fabric> is no element|<cpu> cannot be in <pci>"},
		{"cut short", a + "<pci busid=\"1:0.0\" class=\"0x03\"/>\n<pci busid=", in0 + "  0000:01:00.0 accelerator\n", "line 2: "},
		{"an entity", `<!DOCTYPE x [<!ENTITY e "eeee">]>` + a + `<pci busid="1:0.0" class="0x03"/><pci busid="&e;"/>` + z, in0 + "  0000:01:00.0 accelerator\n", "entity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo, err := Read(strings.NewReader(c.text))
			if topo == nil {
				t.Fatal(err)
			}
			if got := sketch(topo); got != c.want {
				t.Error(cmp.Diff(c.want, got))
			}
			if c.err == "" && err != nil {
				t.Error(err)
			}
			for part := range strings.SplitSeq(c.err, "|") {
				if c.err != "" && (err == nil || !strings.Contains(err.Error(), part)) {
					t.Errorf("the error %v does not tell of %q", err, part)
				}
			}
		})
	}
}

// TestReadNothing: without a device there is no topology.
func TestReadNothing(t *testing.T) {
	for text, want := range map[string]error{
		"":                                ErrFormat,
		"\x00\x01":                        pci.ErrNoDevice,
		"<topology/>":                     ErrFormat,
		"<cpu numaid=\"0\"/>":             ErrFormat,
		`<system version="1"/>`:           pci.ErrNoDevice,
		`<system version="1"><cpu`:        pci.ErrNoDevice,
		`{"schema": "peerdirect.topo/1"}`: pci.ErrNoDevice,
	} {
		if topo, err := Read(strings.NewReader(text)); topo != nil || !errors.Is(err, want) || !errors.Is(err, pci.ErrNoDevice) {
			t.Errorf("%q reads as %v, %v; want %v", text, topo, err, want)
		}
	}
}

// TestReadProcessor: the machine's processor, with NCCL's sum of AMD's families.
func TestReadProcessor(t *testing.T) {
	for text, want := range map[string]pci.Platform{
		`arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"`:  {Arch: "x86_64", CPU: "GenuineIntel", Family: 6, Model: 143},
		`arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49"`: {Arch: "x86_64", CPU: "AuthenticAMD", Family: 23, Model: 49},
		`arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49"`:  {Arch: "x86_64", CPU: "AuthenticAMD", Family: 23, Model: 49},
		`arch="arm64"`: {Arch: "aarch64"},
		``:             {},
	} {
		topo, err := Read(strings.NewReader(`<system version="1"><cpu numaid="0" ` + text + `><pci busid="1:0.0"/></cpu></system>`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, topo.Platform); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestReadHostile: files that are large or deep end soon, with what was read.
func TestReadHostile(t *testing.T) {
	pcis := func(n int, each func(i int) string) string {
		var s strings.Builder
		s.WriteString(`<system version="1"><cpu numaid="0">`)
		for i := range n {
			s.WriteString(each(i))
		}
		return s.String()
	}
	busid := func(i int) string { return fmt.Sprintf(`<pci busid="%x:%x:%x.%x"`, i>>16, i>>8&0xff, i>>3&31, i&7) }
	for name, c := range map[string]struct{ text, err string }{
		"deep":      {pcis(100_000, func(i int) string { return busid(i) + ">" }), "one inside the other"},
		"many":      {pcis(200_000, func(i int) string { return busid(i) + "/>" }), "more than 65536 devices"},
		"errors":    {pcis(100_000, func(i int) string { return `<pci busid="x"/>` }) + busid(1) + `/>`, "more like these"},
		"attribute": {pcis(1, busid) + ` class="` + strings.Repeat("0", 8<<20) + `"/>`, "is no class"},
		"affinity":  {`<system version="1"><cpu numaid="0" affinity="` + strings.Repeat("1,", 1<<20) + `">` + busid(1) + `/>`, "more CPUs than any machine"},
		"names":     {pcis(1, busid) + ` rdma="` + strings.Repeat("a,", 1<<20) + `"/>`, "EOF"},
		"megabytes": {pcis(1, busid) + `/><!--` + strings.Repeat(" ", 17<<20), "larger than the 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			start := cputime.Now()
			topo, err := Read(strings.NewReader(c.text))
			if topo == nil || err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("read %v, %.200v; want an error with %q", topo != nil, err, c.err)
			}
			if len(err.Error()) > 10_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if took := cputime.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
