package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/pci"
)

func svg(t testing.TB, topo *pci.Topology, p *pci.Pairing, o Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, topo, p, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// drawn is a box as the file has it.
type drawn struct {
	class, tip string
	x, y, w, h float64
	texts      []string
}

func (d *drawn) String() string {
	return fmt.Sprintf("%s %.1f,%.1f %.1fx%.1f %q", d.class, d.x, d.y, d.w, d.h, d.texts)
}

func (d *drawn) overlaps(e *drawn) bool {
	const touch = 0.11 // of rounding
	return d.x+d.w > e.x+touch && e.x+e.w > d.x+touch && d.y+d.h > e.y+touch && e.y+e.h > d.y+touch
}

func (d *drawn) holds(e *drawn) bool {
	const touch = 0.11
	return e.x >= d.x-touch && e.y >= d.y-touch && e.x+e.w <= d.x+d.w+touch && e.y+e.h <= d.y+d.h+touch
}

// check reads a picture as any XML reader does, and holds it to what a picture must
// be: each text inside its box and of a size to be read, no two boxes over each other
// but a frame around what it holds, all of it on the page.
func check(t testing.TB, data []byte) []*drawn {
	t.Helper()
	var boxes []*drawn
	var page, box *drawn
	number := func(e xml.StartElement, name string) float64 {
		v, err := strconv.ParseFloat(attribute(e, name), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			t.Fatalf("%s of %s is %q", name, e.Name.Local, attribute(e, name))
		}
		return v
	}
	var text *xml.StartElement
	var words, open string
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			open, words = e.Name.Local, ""
			switch open {
			case "svg":
				page = &drawn{w: number(e, "width"), h: number(e, "height")}
			case "g":
				box = &drawn{class: attribute(e, "class")}
				boxes = append(boxes, box)
			case "rect":
				if box != nil {
					box.x, box.y, box.w, box.h = number(e, "x"), number(e, "y"), number(e, "width"), number(e, "height")
				}
			case "text":
				text = &e
			case "path", "title", "style":
			default:
				t.Errorf("element %s: a name has become markup", open)
			}
		case xml.CharData:
			words += string(e)
		case xml.EndElement:
			switch {
			case e.Name.Local == "g":
				box = nil
			case e.Name.Local == "title" && box != nil:
				box.tip = words
			case e.Name.Local == "text":
				size, x, y := number(*text, "font-size"), number(*text, "x"), number(*text, "y")
				width := textWidth(words, size, attribute(*text, "font-weight") != "")
				if attribute(*text, "text-anchor") == "end" {
					x -= width
				}
				// Letters reach a little over the size above the line, and a fifth below.
				line := &drawn{x: x, y: y - 0.9*size, w: width, h: 1.1 * size}
				if !box.holds(line) {
					t.Errorf("%q at %.1f,%.1f, %.1f wide, is not inside %v", words, x, y, width, box)
				}
				if size < 11 {
					t.Errorf("%q has letters of %v", words, size)
				}
				box.texts = append(box.texts, words)
			}
		}
	}
	for i, b := range boxes {
		if !page.holds(b) {
			t.Errorf("%v is not on the page of %.0fx%.0f", b, page.w, page.h)
		}
		for _, c := range boxes[:i] {
			if !b.overlaps(c) || isFrame(b.class) && b.holds(c) || isFrame(c.class) && c.holds(b) {
				continue
			}
			t.Errorf("%v is over %v", b, c)
		}
	}
	return boxes
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// find gives the boxes that have a text.
func find(boxes []*drawn, text string) (found []*drawn) {
	for _, b := range boxes {
		if slices.Contains(b.texts, text) {
			found = append(found, b)
		}
	}
	return found
}

func TestMachineWithRails(t *testing.T) {
	topo := machine(2, 2)
	p := paired(topo)
	for scheme, name := range []string{"auto.svg", "light.svg", "dark.svg"} {
		got := svg(t, topo, p, Options{Scheme: Scheme(scheme)})
		check(t, got)
		golden.Check(t, name, got)
	}
}

func TestWhatAPictureShows(t *testing.T) {
	topo := machine(2, 4)
	boxes := check(t, svg(t, topo, paired(topo), Options{Title: "eight of everything"}))
	for _, text := range []string{"eight of everything", "NUMA node 0", "NUMA node 1", "pci0000:10", "switch 11:00.0",
		"4 RDMA NICs 1d0f:efa1 · for GPU0 · x8 16 GT/s", "8 accelerators · 32 RDMA NICs · 8 NVMe · 8 PCIe switches",
		"link x16", "x8 of x16", "narrower than it can be", "CPUs 0-15 · 512 GiB", "between the nodes, distance 21"} {
		if len(find(boxes, text)) == 0 {
			t.Errorf("nowhere: %s", text)
		}
	}
	// A NIC has its accelerator's colour.
	for _, d := range topo.Of(pci.RDMANIC) {
		var box *drawn
		for _, b := range boxes {
			if strings.Contains(b.tip, d.Address.String()) {
				box = b
			}
		}
		if box == nil {
			t.Fatalf("%s is nowhere", d.Address)
		}
		_, accelerator, _ := strings.Cut(box.tip, "rail of GPU")
		if box.class != "r"+accelerator {
			t.Errorf("%s is drawn as %q, a rail of GPU%s", d.Address, box.class, accelerator)
		}
	}
}

func TestSameMachineSamePicture(t *testing.T) {
	first := svg(t, machine(2, 4), nil, Options{})
	for range 5 {
		if !bytes.Equal(first, svg(t, machine(2, 4), nil, Options{})) {
			t.Fatal("two pictures of one machine differ")
		}
	}
}

func TestEmptyMachines(t *testing.T) {
	for name, topo := range map[string]*pci.Topology{
		"nothing":     {},
		"only nodes":  {Nodes: []*pci.Node{{Number: 0, Memory: -1}, {Number: 3, CPUs: pci.CPUs{}}}},
		"empty roots": {Roots: []*pci.Root{{Name: "pci0000:00"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pci.Assemble(topo)
			check(t, svg(t, topo, nil, Options{}))
			check(t, svg(t, topo, &pci.Pairing{}, Options{}))
		})
	}
	if err := SVG(io.Discard, nil, nil, Options{}); err == nil {
		t.Error("no topology is drawn")
	}
}

func TestNamesAreOnlyText(t *testing.T) {
	for _, name := range []string{
		`</text><script>alert(1)</script>`, `" onload="x`, `&amp;<!--`, `]]>`, "\x00\x01\x1b[31m", "\xff\xfe", "a\u202eb",
		strings.Repeat("W", 500), strings.Repeat("界", 300), "\u0300\u0301", "line\nline", strings.Repeat("<", 40), "\ufffe\uffff",
	} {
		topo := machine(1, 2)
		topo.Platform.System, topo.Roots[0].Name, topo.Roots[0].Path = name, name, name
		for i, d := range topo.Devices {
			d.VendorName, d.ProductName, d.Driver = name, name+strconv.Itoa(i%2), name
			if d.Kind == pci.RDMANIC {
				d.RDMA = []pci.RDMA{{Name: name}}
			}
			if d.Kind == pci.NVMe {
				d.NVMe = []string{name}
			}
		}
		data := svg(t, topo, paired(topo), Options{Title: name})
		check(t, data)
		if bytes.Contains(data, []byte("<script")) {
			t.Error("a script got in")
		}
	}
}

func TestManyDevices(t *testing.T) {
	for _, n := range []struct{ nodes, switches int }{{4, 10}, {1, 40}, {40, 1}} {
		topo := machine(n.nodes, n.switches)
		if len(topo.Devices) < 300 {
			t.Fatalf("%d devices", len(topo.Devices))
		}
		check(t, svg(t, topo, paired(topo), Options{}))
	}
}

func TestTreesOutOfTheOrdinary(t *testing.T) {
	for name, change := range map[string]func(*pci.Topology){
		"no nodes": func(t *pci.Topology) {
			t.Nodes = nil
			for _, r := range t.Roots {
				r.Node = nil
			}
		},
		"no roots": func(t *pci.Topology) {
			t.Roots = nil
			for _, d := range t.Devices {
				d.Root = nil
			}
		},
		"wide domains": func(t *pci.Topology) {
			for i, d := range t.Devices {
				d.Address.Domain = 0x10001 + uint32(i%2)
			}
		},
		"a chain of bridges": func(t *pci.Topology) {
			var above *pci.Device
			for i := range 60 {
				d := &pci.Device{Address: pci.Address{Domain: 7, Bus: uint8(i)}, Kind: pci.Bridge, Root: t.Roots[0], Parent: above, Port: pci.RootPort}
				leaf := &pci.Device{Address: pci.Address{Domain: 7, Bus: uint8(i + 1), Device: 9}, Kind: pci.NVMe, Root: t.Roots[0], Parent: d}
				t.Devices = append(t.Devices, d, leaf)
				above = d
			}
		},
		"many virtual functions": func(t *pci.Topology) {
			nic := t.Of(pci.RDMANIC)[0]
			for i := range 64 {
				vf := *nic
				vf.PF, vf.Address.Device, vf.Address.Function = nic, uint8(i/8+1), uint8(i%8)
				t.Devices = append(t.Devices, &vf)
			}
		},
		"one NIC for all": func(t *pci.Topology) {
			first := t.Of(pci.RDMANIC)[0]
			t.Devices = slices.DeleteFunc(t.Devices, func(d *pci.Device) bool { return d.Kind == pci.RDMANIC && d != first })
		},
		"each link another": func(t *pci.Topology) {
			for i, d := range t.Devices {
				d.Link = pci.Link{Speed: float64(i), MaxSpeed: 64, Width: i % 33, MaxWidth: 255}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			topo := machine(2, 4)
			change(topo)
			pci.Assemble(topo)
			check(t, svg(t, topo, paired(topo), Options{}))
		})
	}
}

func TestWriterThatFails(t *testing.T) {
	failed := errors.New("full")
	if err := SVG(failing{failed}, machine(1, 1), nil, Options{}); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzNames(f *testing.F) {
	f.Add("mlx5_0", uint16(0x15b3), 16)
	f.Add("<a&b>\xff", uint16(0), 0)
	f.Fuzz(func(t *testing.T, name string, vendor uint16, width int) {
		topo := machine(1, 1)
		for _, d := range topo.Devices {
			d.ProductName, d.Vendor, d.Link.Width = name, vendor, width
			if d.Kind == pci.RDMANIC {
				d.RDMA = []pci.RDMA{{Name: name}}
			}
		}
		topo.Roots[0].Name = name
		check(t, svg(t, topo, paired(topo), Options{Title: name}))
	})
}

func BenchmarkSVG(b *testing.B) {
	topo := machine(2, 20)
	p := paired(topo)
	for b.Loop() {
		if err := SVG(io.Discard, topo, p, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
