package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/pci"
)

func documentOf(t testing.TB, topo *pci.Topology, p *pci.Pairing, problems error) []byte {
	got := text(t, func(w io.Writer) error { return JSON(w, topo, p, problems) })
	if !json.Valid(got) {
		t.Fatalf("no JSON:\n%s", got)
	}
	return got
}

func TestJSON(t *testing.T) {
	topo := newServer(t)
	problems := errors.Join(errors.New("one"), errors.New("two"))
	golden.Check(t, "server.json", documentOf(t, topo, pair(t, topo), problems))
}

// What is unknown is null, and nothing else is: no zero, no empty text, no -1.
func TestUnknownIsNull(t *testing.T) {
	topo := sketch(t, dim)
	for _, d := range topo.Devices {
		d.Vendor, d.Product, d.Class = 0, 0, 0
	}
	golden.Check(t, "unknown.json", documentOf(t, topo, nil, nil))
	var doc struct {
		Devices []map[string]any
	}
	if err := json.Unmarshal(documentOf(t, topo, nil, nil), &doc); err != nil {
		t.Fatal(err)
	}
	for _, d := range doc.Devices {
		for key, value := range d {
			switch value {
			case "", 0.0, -1.0, "unknown":
				t.Errorf("%s of %v is %v", key, d["address"], value)
			}
		}
	}
}

// An address in the document is one of its devices, and every device is in the tree.
func TestAddressesOfTheDocument(t *testing.T) {
	topo := newServer(t)
	var doc struct {
		Roots    []rootOfDocument
		Devices  []struct{ Address, Parent string }
		Switches []struct {
			Upstream   string
			Downstream []string
		}
		Distances []struct {
			From, To, Class string
			Path            []string
		}
		P2P []struct {
			Provider, Client string
			Redirects        []string
		}
	}
	if err := json.Unmarshal(documentOf(t, topo, pair(t, topo), nil), &doc); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"": true}
	for _, d := range doc.Devices {
		there[d.Address] = true
	}
	var used, top []string
	for _, r := range doc.Roots {
		top = append(top, r.Devices...)
	}
	for _, d := range doc.Devices {
		used = append(used, d.Parent)
		if (d.Parent == "") != slices.Contains(top, d.Address) {
			t.Errorf("%s hangs on nothing, or twice", d.Address)
		}
	}
	for _, s := range doc.Switches {
		used = append(append(used, s.Upstream), s.Downstream...)
	}
	for _, d := range doc.Distances {
		used = append(append(used, d.From, d.To), d.Path...)
		if d.Path[0] != d.From || d.Path[len(d.Path)-1] != d.To {
			t.Errorf("the path from %s to %s is %v", d.From, d.To, d.Path)
		}
	}
	for _, v := range doc.P2P {
		used = append(append(used, v.Provider, v.Client), v.Redirects...)
	}
	for _, a := range used {
		if !there[a] {
			t.Errorf("%q is no device", a)
		}
	}
	// 3 accelerators, each with 2 others, 3 NICs (virtual functions apart) and 2 NVMe.
	if len(doc.Distances) != 3*7 || len(doc.P2P) != 3*7 {
		t.Errorf("%d distances and %d verdicts; want 21 each", len(doc.Distances), len(doc.P2P))
	}
}

type rootOfDocument struct{ Devices []string }

func TestUnjoin(t *testing.T) {
	a, b, c := errors.New("a"), &pci.Error{Op: "read", Object: "x", Err: io.EOF}, errors.New("c")
	both := fmt.Errorf("both %w and %w", a, c)
	for _, test := range []struct {
		err  error
		want []error
	}{
		{nil, nil}, {a, []error{a}}, {errors.Join(a, b), []error{a, b}},
		{errors.Join(errors.Join(a, b), c), []error{a, b, c}}, {errors.Join(a), []error{a}},
		{both, []error{both}}, {errors.Join(both, c), []error{both, c}},
	} {
		if got := unjoin(test.err); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v; want %v", test.err, got, test.want)
		}
	}
}

// Names come out of the document as they were, and are visible in it.
func TestNamesOfTheDocument(t *testing.T) {
	for _, name := range []string{"a\u202eb", "\x1b[2J\u009b31m\x7f", "e\u0301", "\U000e0041\U0001f600", `"\\<&`, "界"} {
		topo := named(t, name)
		got := documentOf(t, topo, pair(t, topo), nil)
		var doc struct {
			Source  string
			Devices []struct{ Driver string }
		}
		if err := json.Unmarshal(got, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Source != name || doc.Devices[0].Driver != name {
			t.Errorf("%q comes out as %q and %q", name, doc.Source, doc.Devices[0].Driver)
		}
	}
}

// Without what it is about a part is an empty list, and what was not done is null.
func TestEmptyDocument(t *testing.T) {
	got := string(documentOf(t, &pci.Topology{}, nil, nil))
	for _, want := range []string{`"schema": "peerdirect.topo/1"`, `"source": null`, `"devices": []`, `"pairs": null`, `"findings": []`, `"problems": []`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestSameMachineSameBytes(t *testing.T) {
	for view, print := range views {
		var first []byte
		for range 5 {
			topo := newServer(t)
			got := text(t, func(w io.Writer) error { return print(w, topo, pair(t, topo), Options{Width: 90}) })
			if first == nil {
				first = got
			}
			if !bytes.Equal(first, got) {
				t.Fatalf("two %s of one machine differ", view)
			}
		}
	}
}
