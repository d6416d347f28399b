package report

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// corpus is the folder of the captures; the test is skipped where it is not.
func corpus(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../../shared/topology"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skip("needs the topology corpus: PEERDIRECT_TOPOLOGY names its folder")
	}
	return folder
}

// Every view prints every capture, the same each time, and the JSON is JSON.
func TestEveryMachineOfTheCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus(t), "sysfs", "*.tar.[gb]z*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			root, err := sysroot.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			topo, problems := pci.Read(root)
			if topo == nil {
				t.Fatal(problems)
			}
			topo.Source = filepath.Base(file)
			rails := pair(t, topo)
			for view, print := range views {
				got := text(t, func(w io.Writer) error { return print(w, topo, rails, Options{Width: 100}) })
				if again := text(t, func(w io.Writer) error { return print(w, topo, rails, Options{Width: 100}) }); !bytes.Equal(got, again) {
					t.Errorf("two %s differ", view)
				}
				if view == "tree" {
					for line := range bytes.Lines(got) {
						if n := columns(string(bytes.TrimSuffix(line, []byte("\n")))); n > 100 {
							t.Errorf("%d columns: %s", n, line)
						}
					}
				}
			}
			whole(t, topo, rails, problems)
			symmetric(t, topo)
		})
	}
}

// whole compares the numbers of the document with those of the machine.
func whole(t *testing.T, topo *pci.Topology, rails *pci.Pairing, problems error) {
	t.Helper()
	var doc struct {
		Schema, Source                  string
		Nodes, Roots, Devices, Switches []json.RawMessage
		Cards, Pairs, Unpaired, Ignored []json.RawMessage
		Findings, Problems              []json.RawMessage
	}
	if err := json.Unmarshal(documentOf(t, topo, rails, problems), &doc); err != nil {
		t.Fatal(err)
	}
	got := []int{len(doc.Nodes), len(doc.Roots), len(doc.Devices), len(doc.Switches), len(doc.Cards), len(doc.Pairs),
		len(doc.Unpaired), len(doc.Ignored), len(doc.Findings), len(doc.Problems)}
	want := []int{len(topo.Nodes), len(topo.Roots), len(topo.Devices), len(topo.Switches), len(topo.Cards), len(rails.Pairs),
		len(rails.Unpaired), len(rails.Ignored), len(topo.Findings()), len(unjoin(problems))}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("the document has %v; want %v", got, want)
			break
		}
	}
	if doc.Schema != Schema || doc.Source != topo.Source {
		t.Errorf("schema %q of %q", doc.Schema, doc.Source)
	}
}

// symmetric: the document gives the kernel's verdict one way only.
func symmetric(t *testing.T, topo *pci.Topology) {
	t.Helper()
	for _, a := range topo.Of(pci.Accelerator) {
		for _, kind := range []pci.Kind{pci.Accelerator, pci.RDMANIC, pci.NVMe} {
			for _, b := range topo.Of(kind) {
				there, back := topo.P2P(a, b), topo.P2P(b, a)
				if there.Allowed != back.Allowed || there.Through != back.Through || there.Bridge != back.Bridge {
					t.Errorf("%s to %s is %+v, and back %+v", a.Address, b.Address, there, back)
				}
			}
		}
	}
}
