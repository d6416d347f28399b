package ncclxml

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// corpus finds files of the topology corpus; the test is skipped where it is not.
func corpus(t *testing.T, pattern string) []string {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../../shared/topology"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skip("needs the topology corpus: PEERDIRECT_TOPOLOGY names its folder")
	}
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in the corpus: %v", pattern, err)
	}
	return files
}

// captured reads a machine of the corpus.
func captured(t *testing.T, file string) *pci.Topology {
	t.Helper()
	root, err := sysroot.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	topo, err := pci.Read(root)
	if topo == nil {
		t.Fatal(err)
	}
	return topo
}

func written(t *testing.T, topo *pci.Topology) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, topo); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// ends are the functions between which NCCL looks for paths.
func ends(topo *pci.Topology) (found []*pci.Device) {
	for _, d := range topo.Devices {
		switch d.Kind {
		case pci.Accelerator, pci.RDMANIC, pci.OtherNIC:
			found = append(found, d)
		}
	}
	return found
}

// classes are how far accelerators are from each other and from NICs.
func classes(topo *pci.Topology) map[string]string {
	m := map[string]string{}
	for _, a := range topo.Of(pci.Accelerator) {
		for _, b := range ends(topo) {
			if a != b {
				m[fmt.Sprint(a.Address, " ", b.Address)] = topo.Distance(a, b).Class.String()
			}
		}
	}
	return m
}

func kindsOf(topo *pci.Topology) map[string]string {
	m := map[string]string{}
	for _, d := range ends(topo) {
		m[d.Address.String()] = d.Kind.String()
	}
	return m
}

// TestRoundTrip: a machine that was written and read has the same accelerators and
// NICs, as far apart as they were.
func TestRoundTrip(t *testing.T) {
	for _, file := range corpus(t, "sysfs/*.tar.[gbx]z*") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			roundTrip(t, captured(t, file))
		})
	}
	for seed := range uint64(1000) {
		t.Run(fmt.Sprint("random ", seed), func(t *testing.T) { roundTrip(t, random(seed)) })
	}
}

func roundTrip(t *testing.T, before *pci.Topology) {
	t.Helper()
	text := written(t, before)
	after, err := Read(bytes.NewReader(text))
	if after == nil && len(ends(before)) == 0 {
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if bytes.HasPrefix(text, []byte("<!--")) {
		return // not all had room
	}
	if diff := cmp.Diff(kindsOf(before), kindsOf(after)); diff != "" {
		t.Errorf("devices (-before +after):\n%s\n%s", diff, text)
	}
	if diff := cmp.Diff(classes(before), classes(after)); diff != "" {
		t.Errorf("classes (-before +after):\n%s\n%s", diff, text)
	}
	if again := written(t, after); !bytes.Equal(text, again) {
		t.Errorf("written again (-first +second):\n%s", cmp.Diff(string(text), string(again)))
	}
}

// readFile reads a topology file of the corpus.
func readFile(t *testing.T, file string) *pci.Topology {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	topo, err := Read(in)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}
