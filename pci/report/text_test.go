package report

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/pci"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"mlx5_0":                   "mlx5_0",
		"":                         "",
		"H100 (80 GB)":             "H100 (80 GB)",
		"\x1b[31mred\x1b[0m":       `\x1b[31mred\x1b[0m`,
		"two\nlines\r\tend":        `two\nlines\r\tend`,
		"null\x00 del\x7f":         `null\x00 del\x7f`,
		"bad \xff\xc3(":            `bad \xff\xc3(`,
		"right\u202eto left":       `right\u202eto left`,
		"c1 \u009b31m":             `c1 \u009b31m`,
		"a\u0301 combined":         `a\u0301 combined`,
		"no\u200bwidth\ufeff":      `no\u200bwidth\ufeff`,
		"line\u2028separator":      `line\u2028separator`,
		"Königsberg 界 μ":           "Königsberg 界 μ",
		"private \U0010ffff\ue000": `private \U0010ffff\ue000`,
	} {
		if got := safe(in); got != want {
			t.Errorf("safe(%q) is %q; want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{
		{"rdmap79s0", 9, "rdmap79s0"}, {"rdmap79s0", 8, "rdmap79…"}, {"rdmap79s0", 1, "…"}, {"rdmap79s0", 0, ""}, {"", 0, ""},
		{"one, two", 6, "one…"}, {"界界界", 6, "界界界"}, {"界界界", 5, "界界…"}, {"界界界", 4, "界…"}, {"äöü", 3, "äöü"},
	} {
		if got := cut(c.in, c.most); got != c.want {
			t.Errorf("cut(%q, %d) is %q; want %q", c.in, c.most, got, c.want)
		}
	}
}

func TestLinkText(t *testing.T) {
	for want, l := range map[string]pci.Link{
		"":                          {},
		"32 GT/s x16":               {Speed: 32, MaxSpeed: 32, Width: 16, MaxWidth: 16},
		"16 GT/s x8 of 32 GT/s x16": {Speed: 16, MaxSpeed: 32, Width: 8, MaxWidth: 16},
		"2.5 of 32 GT/s x16":        {Speed: 2.5, MaxSpeed: 32, Width: 16, MaxWidth: 16},
		"32 GT/s x8 of x16":         {Speed: 32, MaxSpeed: 32, Width: 8, MaxWidth: 16},
		"? of 16 GT/s x4":           {MaxSpeed: 16, MaxWidth: 4},
		"8 GT/s":                    {Speed: 8},
		"x4":                        {Width: 4},
		"x4 of 8 GT/s x4":           {Width: 4, MaxWidth: 4, MaxSpeed: 8},
		"8 GT/s x4":                 {Speed: 8, Width: 4, MaxSpeed: 5, MaxWidth: 1}, // a most that is less cannot be
		"63.02 GB/s":                {Carries: 63.015385},
		"15.75 GB/s":                {Carries: 15.753846},
	} {
		if got := linkText(l); got != want {
			t.Errorf("%+v is %q; want %q", l, got, want)
		}
	}
}

func TestModel(t *testing.T) {
	for _, c := range [][3]string{
		{"NVIDIA Corporation", "GH100 [H100 SXM5 80GB]", "NVIDIA H100 SXM5 80GB"},
		{"Advanced Micro Devices, Inc. [AMD/ATI]", "Aqua Vanjaram [Instinct MI300X]", "AMD/ATI Instinct MI300X"},
		{"Amazon.com, Inc.", "Elastic Fabric Adapter (EFA)", "Amazon.com Elastic Fabric Adapter (EFA)"},
		{"ASPEED Technology, Inc.", "ASPEED Graphics Family", "ASPEED Graphics Family"},
		{"Maker", "Thing []", "Maker Thing []"},
		{"Maker", "", "1234:0005"},
	} {
		if got := model(&pci.Device{Vendor: 0x1234, Product: 5, VendorName: c[0], ProductName: c[1]}); got != c[2] {
			t.Errorf("%q of %q is %q; want %q", c[1], c[0], got, c[2])
		}
	}
	if got := model(&pci.Device{Vendor: 0x1234}); got != "" {
		t.Errorf("a device of which nothing is known is %q", got)
	}
}

// views are all of them; each prints with some options.
var views = map[string]func(io.Writer, *pci.Topology, *pci.Pairing, Options) error{
	"tree": func(w io.Writer, t *pci.Topology, p *pci.Pairing, o Options) error {
		o.Pairing = p
		return Tree(w, t, o)
	},
	"matrix": func(w io.Writer, t *pci.Topology, _ *pci.Pairing, _ Options) error { return Matrix(w, t) },
	"pairs":  Pairs,
	"findings": func(w io.Writer, t *pci.Topology, _ *pci.Pairing, o Options) error {
		return Findings(w, t, o)
	},
	"JSON": func(w io.Writer, t *pci.Topology, p *pci.Pairing, _ Options) error { return JSON(w, t, p, nil) },
}

// named gives every name of a machine that another side chooses one text.
func named(t testing.TB, name string) *pci.Topology {
	topo := newServer(t)
	m := &topo.Platform
	topo.Source, m.System, m.Arch, m.Kernel, m.CPU, m.IOMMU.Units = name, name, name, name, name, []string{name}
	for _, r := range topo.Roots {
		r.Name, r.Path = name, name
	}
	for _, d := range topo.Devices {
		d.VendorName, d.ProductName, d.Driver, d.Slot, d.GroupType = name, name, name, name, name
		switch d.Kind {
		case pci.RDMANIC:
			d.RDMA = []pci.RDMA{{Name: name, NodeGUID: name, Ports: []pci.RDMAPort{{State: name, Rate: name, Layer: name}}}, {Name: name}}
			d.Net, d.Dev = []string{name, name}, []string{name}
		case pci.OtherNIC:
			d.Net = []string{name}
		case pci.NVMe:
			d.NVMe = []string{name}
		}
	}
	return topo
}

// Names of another side are only text: no view has a line or a control character more.
func TestHostileNames(t *testing.T) {
	plain := named(t, "name")
	for _, name := range []string{"\x1b]0;title\x07\x1b[2J", "a\nb", "\r", "\x00", "\xff\xfe", "\u202e\u0301\u200b", "\u009b31m",
		strings.Repeat("W", 5000), strings.Repeat("界", 300), `"},{"`, "<b>&amp;", "  ", "%s%n"} {
		topo := named(t, name)
		for view, print := range views {
			for _, width := range []int{0, 20, 80} {
				got := text(t, func(w io.Writer) error { return print(w, topo, pair(t, topo), Options{Width: width}) })
				if !utf8.Valid(got) || bytes.ContainsFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
					t.Errorf("%s of %.20q prints what is not to be seen:\n%q", view, name, got)
				}
				if view != "tree" && view != "matrix" {
					continue
				}
				want := text(t, func(w io.Writer) error { return print(w, plain, pair(t, plain), Options{Width: width}) })
				if bytes.Count(got, []byte("\n")) != bytes.Count(want, []byte("\n")) {
					t.Errorf("%s of %.20q has %d lines instead of %d:\n%s", view, name, bytes.Count(got, []byte("\n")), bytes.Count(want, []byte("\n")), got)
				}
			}
		}
	}
}

func TestNothingToPrint(t *testing.T) {
	for view, print := range views {
		if err := print(io.Discard, nil, &pci.Pairing{}, Options{}); !errors.Is(err, errNoTopology) {
			t.Errorf("%s without a topology: %v", view, err)
		}
		if got := text(t, func(w io.Writer) error { return print(w, &pci.Topology{}, &pci.Pairing{}, Options{}) }); len(got) == 0 && view != "tree" {
			t.Errorf("%s of an empty machine is empty", view)
		}
	}
	if err := Pairs(io.Discard, &pci.Topology{}, nil, Options{}); !errors.Is(err, errNoPairing) {
		t.Errorf("pairs without a pairing: %v", err)
	}
}

func TestWriterThatFails(t *testing.T) {
	topo := newServer(t)
	full := errors.New("full")
	for view, print := range views {
		if err := print(failing{full}, topo, pair(t, topo), Options{}); !errors.Is(err, full) {
			t.Errorf("%s: error %v", view, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzSafe(f *testing.F) {
	f.Add("mlx5_0", 8)
	f.Add("\x1b[31m\xff\u202e界", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		got := safe(s)
		if strings.ContainsFunc(got, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) && !strings.ContainsRune(s, utf8.RuneError) {
			t.Errorf("safe(%q) is %q", s, got)
		}
		if most %= 200; most >= 0 && columns(cut(got, most)) > most {
			t.Errorf("cut(%q, %d) is %q", got, most, cut(got, most))
		}
	})
}

func TestVendors(t *testing.T) {
	for name, want := range map[string]string{
		"Texas Instruments":                 "Texas Instruments",
		"Red Hat, Inc.":                     "Red Hat",
		"Intel Corporation":                 "Intel",
		"Samsung Electronics Co Ltd":        "Samsung",
		"Mellanox Technologies":             "Mellanox",
		"Amazon.com, Inc.":                  "Amazon.com",
		"Inc.":                              "Inc",
		"Realtek Semiconductor Co., Ltd.":   "Realtek",
		"HighPoint Technologies, Inc.":      "HighPoint",
		"Silicon Motion Corporation (GmbH)": "Silicon Motion",
	} {
		if got := withoutForm(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
