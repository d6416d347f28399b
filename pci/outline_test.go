package pci

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// sameOutline compares what an outline answers with what the whole does: the tree,
// every distance from an accelerator, the pairing.
func sameOutline(t *testing.T, root fs.FS) (distances int) {
	t.Helper()
	whole, _ := Read(root)
	outline, _ := ReadOutline(root)
	if whole == nil || outline == nil || !outline.Outline || whole.Outline {
		t.Fatalf("%v, %v", whole, outline)
	}
	if a, b := tree(whole), tree(outline); a != b {
		t.Errorf("the outline is\n%sthe whole\n%s", b, a)
	}
	pairs := func(topo *Topology) string {
		p, err := topo.Pair(PairOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return paired(topo, p)
	}
	if a, b := pairs(whole), pairs(outline); a != b {
		t.Errorf("the outline pairs\n%sthe whole\n%s", b, a)
	}
	for i, a := range whole.Devices {
		if a.Kind != Accelerator {
			continue
		}
		for j, b := range whole.Devices {
			if b.Kind != Accelerator && b.Kind != RDMANIC && b.Kind != NVMe {
				continue
			}
			distances++
			w, o := whole.Distance(a, b), outline.Distance(outline.Devices[i], outline.Devices[j])
			if w.Class != o.Class || w.Reason != o.Reason {
				t.Errorf("from %v to %v the outline has %v, %s; the whole %v, %s", a.Address, b.Address, o.Class, o.Reason, w.Class, w.Reason)
			}
		}
	}
	return distances
}

func TestOutlineOfTheCorpus(t *testing.T) {
	tars, err := filepath.Glob(filepath.Join(corpusFolder(t), "sysfs", "*.tar.*"))
	if err != nil || len(tars) < 15 {
		t.Fatalf("%d captures, %v", len(tars), err)
	}
	distances := 0
	for _, file := range tars {
		name, _, _ := strings.Cut(filepath.Base(file), ".tar.")
		t.Run(name, func(t *testing.T) { distances += sameOutline(t, capturedRoot(t, name)) })
	}
	t.Logf("%d captures, %d distances", len(tars), distances)
}

func TestOutline(t *testing.T) {
	m := server().device("pci0000:16/0000:16:02.0", bridge, "8086:352a")
	const card = "pci0000:16/0000:16:02.0/0000:30:00."
	for i, id := range []string{connect, "15b3:101e", "15b3:101e"} {
		m.device(card+string(rune('0'+i)), "020700", id).named("infiniband", "mlx5_"+string(rune('7'+i)), card+string(rune('0'+i)))
		if i > 0 {
			m.link(sysDevices+"/"+card+string(rune('0'+i))+"/physfn", "../0000:30:00.0")
		}
	}
	root := m.onDisk(t)
	if n := sameOutline(t, root); n == 0 {
		t.Error("no distance compared")
	}
	// What an outline left out is not told as what could not be read.
	for name, read := range map[string]func(fs.FS) (*Topology, error){"acs-unknown": Read, "": ReadOutline} {
		topo, err := read(root)
		if err != nil {
			t.Fatal(err)
		}
		if got := told(topo, topo.Findings()); strings.Contains(got, "acs-unknown") != (name != "") {
			t.Errorf("findings are\n%s", got)
		}
	}
}
