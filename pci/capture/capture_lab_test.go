//go:build lab

package capture

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
)

// identifiers are what tells this guest from another.
func identifiers(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{
		"/sys/class/net/*/address", "/sys/class/infiniband/*/*_guid", "/sys/class/infiniband/*/ports/*/gids/0",
		"/sys/class/dmi/id/*serial*", "/sys/class/dmi/id/*uuid*", "/etc/machine-id", "/proc/sys/kernel/random/boot_id",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, _ := os.ReadFile(f)
			s := strings.TrimSpace(string(b))
			plain := strings.NewReplacer(":", "", "-", "").Replace(s)
			if strings.Trim(plain, "0") == "" || len(plain) < 8 {
				continue // none, or a word
			}
			all = append(all, s, plain)
		}
	}
	return all
}

// Another engineer sees the same machine, and not whose it is.
func TestTopologyCaptureOfTheGuest(t *testing.T) {
	if os.Getenv("PEERDIRECT_ACCELERATORS") == "" || os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with accelerators and EFA devices: lab run --efa 32 --accelerator 8 --memory 1536")
	}
	root, err := sysroot.Dir("/")
	if err != nil {
		t.Fatal(err)
	}
	want, err := pci.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	data, summary := captured(t, root)
	if summary.Partial != nil || summary.Devices != len(want.Devices) {
		t.Errorf("%+v of %d devices", summary, len(want.Devices))
	}
	got := read(t, data)
	if diff := cmp.Diff(facts(want), facts(got)); diff != "" {
		t.Errorf("-guest +capture\n%s", diff)
	}
	if diff := cmp.Diff(rails(t, want), rails(t, got)); diff != "" {
		t.Errorf("-guest +capture\n%s", diff)
	}
	for i, f := range want.Findings() {
		if g := got.Findings()[i]; f.Code != g.Code || f.What != g.What || len(f.Devices) != len(g.Devices) {
			t.Errorf("found in the guest: %s\nin the capture: %s", f.What, g.What)
		}
	}
	secret := identifiers(t)
	if want := 2 * len(want.Of(pci.RDMANIC)); len(secret) < want {
		t.Fatalf("%d identifiers in the guest, want %d at least", len(secret), want)
	}
	for _, s := range secret {
		if bytes.Contains(data, []byte(s)) {
			t.Errorf("the capture holds %q", s)
		}
	}
	t.Logf("%d functions, %d files, %d KiB: equal, and none of %d spellings of identifiers", summary.Devices, summary.Files, len(data)>>10, len(secret))
}

// rails are the pairs by name.
func rails(t *testing.T, topo *pci.Topology) (all []string) {
	t.Helper()
	pairing, err := topo.Pair(pci.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairing.Pairs {
		line := topo.Name(p.Accelerator) + " " + p.Class.String() + " " + p.Reason
		for _, r := range p.Rails {
			line += " " + topo.Name(r)
		}
		all = append(all, line)
	}
	return all
}
