package ncclxml

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/peerdirect/peerdirect/pci"
)

// judgeItself lets NCCL find each captured machine by itself, in its /sys: our file
// says the same, bandwidths included.
func judgeItself(t *testing.T, program, version string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: NCCL's code looks for /sys, so a capture has to be its root")
	}
	for _, file := range corpus(t, "sysfs/*.tar.[gb]z*") {
		topo := captured(t, file)
		if len(topo.Of(pci.Accelerator)) == 0 {
			continue // NCCL has no process there
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			want := judge(t, program, "-", unpack(t, file), ends(topo))
			got := judgeFile(t, program, written(t, topo), ends(topo))
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("NCCL finds by itself (-), and in the file (+):\n%s", diff)
			}
			t.Logf("%s paths %d, links %d as NCCL %s finds them itself", filepath.Base(file), len(want.paths), len(want.links), version)
		})
	}
}

var function = regexp.MustCompile(`^([0-9a-f]{4}:[0-9a-f]{2}):[0-9a-f]{2}\.[0-9a-f]$`)

// unpack gives a folder with a capture's /sys, and what NCCL looks for there that not
// all captures have: links to the subsystem, and a folder of each bus.
func unpack(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	for _, depth := range []string{"sys", "*/sys", "*/*/sys"} {
		if at, _ := filepath.Glob(filepath.Join(dir, depth)); len(at) == 1 {
			dir = filepath.Dir(at[0])
			break
		}
	}
	var functions []string
	err := fs.WalkDir(os.DirFS(dir), "sys/devices", func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && function.MatchString(e.Name()) {
			functions = append(functions, p)
		}
		return nil
	})
	if err != nil || len(functions) == 0 {
		t.Fatalf("%s has no devices: %v", file, err)
	}
	made := func(err error) {
		if err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	buses := filepath.Join(dir, "sys/class/pci_bus")
	made(os.MkdirAll(buses, 0o755))
	made(os.MkdirAll(filepath.Join(dir, "sys/bus/pci/devices"), 0o755))
	for _, p := range functions {
		name := filepath.Base(p)
		bus := function.FindStringSubmatch(name)[1]
		made(os.Symlink("/sys/bus/pci", filepath.Join(dir, p, "subsystem")))
		made(os.Symlink("/"+p, filepath.Join(dir, "sys/bus/pci/devices", name)))
		place := filepath.Join(filepath.Dir(p), "pci_bus", bus)
		made(os.MkdirAll(filepath.Join(dir, place), 0o755))
		made(os.Symlink("/"+place, filepath.Join(buses, bus)))
	}
	return dir
}
