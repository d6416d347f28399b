package draw

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/names"
)

// corpus is the folder of the captures; the test is skipped where it is not.
func corpus(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PEERDIRECT_TOPOLOGY")
	if folder == "" {
		folder = "../../../shared/topology"
	}
	if _, err := os.Stat(filepath.Join(folder, "sysfs")); err != nil {
		t.Skip("needs the topology corpus: PEERDIRECT_TOPOLOGY names its folder")
	}
	return filepath.Join(folder, "sysfs")
}

// capture reads a machine of the corpus, and pairs it.
func capture(t *testing.T, file string) (*pci.Topology, *pci.Pairing) {
	t.Helper()
	root, err := sysroot.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	topo, err := pci.Read(root)
	if topo == nil {
		t.Fatal(err)
	}
	topo.Source = filepath.Base(file)
	pairing, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return topo, pairing
}

// The pictures in docs are what the machines of the corpus give.
func TestPicturesOfTheDocs(t *testing.T) {
	folder := corpus(t)
	for _, picture := range []struct{ file, machine, title string }{
		{"p5.svg", "p5.48xl-topo.tar.gz", "Amazon EC2 p5.48xlarge"},
		{"dgx2.svg", "nvidiaDGX2.tar.gz", "NVIDIA DGX-2"},
	} {
		t.Run(picture.file, func(t *testing.T) {
			topo, pairing := capture(t, filepath.Join(folder, picture.machine))
			if err := names.Fill(topo, "testdata/names.ids"); err != nil {
				t.Fatal(err)
			}
			got := svg(t, topo, pairing, Options{Title: picture.title})
			check(t, got)
			path := filepath.Join("../../docs/pictures", picture.file)
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s is not what the capture gives (-want +got); go test -update writes it:\n%s", path, cmp.Diff(string(want), string(got)))
			}
		})
	}
}

func TestEveryMachineOfTheCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus(t), "*.tar.[gb]z*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			topo, pairing := capture(t, f)
			check(t, svg(t, topo, pairing, Options{}))
			check(t, svg(t, topo, nil, Options{}))
		})
	}
}
