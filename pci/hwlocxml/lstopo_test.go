package hwlocxml

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/pci"
)

// hides are captures with a port that has no files, so that lstopo leaves it out.
var hides = map[string]bool{"32intel64-2p8co2t+8ve": true}

// TestLstopo lets lstopo read each capture of the corpus, and compares what it writes
// in both formats with what pci reads of the same files.
func TestLstopo(t *testing.T) {
	tars, _ := filepath.Glob(corpus(t, "sysfs/*.tar.*"))
	lstopo := ""
	for _, name := range []string{"lstopo-no-graphics", "lstopo"} {
		if path, err := exec.LookPath(name); err == nil {
			lstopo = path
			break
		}
	}
	if lstopo == "" {
		t.Skip("needs lstopo (package hwloc-nox, or hwloc)")
	}
	pairs, formats := map[string]int{}, map[string]int{}
	for _, tar := range tars {
		name, _, _ := strings.Cut(filepath.Base(tar), ".tar.")
		t.Run(name, func(t *testing.T) {
			root := capture(t, tar)
			want, err := pci.Read(root)
			if want == nil {
				t.Fatal(err)
			}
			folder := scratch(t)
			unpack(t, root, folder)
			if !complete(t, folder, want) {
				t.Skip("needs processors, which the capture names nowhere: lstopo reads none without")
			}
			for _, format := range []string{"v2", "v1"} {
				args := []string{"--whole-io", "--of", "xml", "-"}
				if format == "v1" {
					args = append([]string{"--export-xml-flags", "v1"}, args...)
				}
				cmd := exec.Command(lstopo, args...)
				cmd.Env = append(os.Environ(), "HWLOC_FSROOT="+folder, "HWLOC_COMPONENTS=linux,stop", "HWLOC_THISSYSTEM=0")
				file, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				got, err := Read(bytes.NewReader(file))
				if got == nil {
					t.Fatalf("%v\n%s", err, file)
				}
				if (err != nil) != hides[name] {
					t.Errorf("%s: %v", format, err)
				}
				if n := len(got.Devices); n < len(want.Devices)-2 { // functions of wide domains, or without files
					t.Errorf("%s: %d devices of %d", format, n, len(want.Devices))
				}
				compareNodes(t, got, want)
				pairs[format] += compare(t, got, want)
				formats[format]++
			}
		})
	}
	t.Logf("captures by format: %v; pairs of accelerator and NIC: %v", formats, pairs)
	if pairs["v1"] == 0 || pairs["v1"] != pairs["v2"] {
		t.Errorf("pairs of accelerator and NIC by format: %v", pairs)
	}
}

func compareNodes(t *testing.T, got, want *pci.Topology) {
	t.Helper()
	for _, w := range want.Nodes {
		i := slices.IndexFunc(got.Nodes, func(n *pci.Node) bool { return n.Number == w.Number })
		if i < 0 {
			t.Errorf("node %d is missing", w.Number)
			continue
		}
		if n := got.Nodes[i]; w.CPUs != nil && !slices.Equal(n.CPUs, w.CPUs) || w.Memory > 0 && n.Memory != w.Memory ||
			len(got.Nodes) > 1 && w.Distances != nil && !slices.Equal(n.Distances, w.Distances) {
			t.Errorf("%+v; want %+v", *n, *w)
		}
	}
}

// scratch is a folder in memory if there is one: the captures are thousands of files.
func scratch(t *testing.T) string {
	folder, err := os.MkdirTemp("/dev/shm", "lstopo")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// unpack writes a root to a folder, without what neither reader looks at.
func unpack(t *testing.T, root fs.FS, folder string) {
	t.Helper()
	beside := []string{"sys/devices/system/memory", "sys/firmware", "sys/devices/LNXSYSTM:00", "sys/kernel", "sys/module"}
	links := root.(fs.ReadLinkFS)
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		to := filepath.Join(folder, name)
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains(beside, name):
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		case e.Type() == fs.ModeSymlink:
			target, err := links.ReadLink(name)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		case !e.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// complete gives hwloc what the captures that were made by hand lack of what it reads
// and pci does not: a folder for each processor, sets as masks, and the config space
// of bridges with the buses below. All of it says what the capture says elsewhere.
// false: it names no processor.
func complete(t *testing.T, folder string, topo *pci.Topology) bool {
	t.Helper()
	sys := filepath.Join(folder, "sys")
	write := func(name, text string) {
		name = filepath.Join(sys, name)
		if _, err := os.Lstat(name); err == nil {
			return
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var all pci.CPUs
	_, err := os.Stat(filepath.Join(sys, "devices/system/cpu/cpu0/topology"))
	whole := err == nil
	for _, n := range topo.Nodes {
		all = append(all, n.CPUs...)
		if whole {
			continue
		}
		write(fmt.Sprintf("devices/system/node/node%d/cpumap", n.Number), mask(n.CPUs))
		for _, c := range append(pci.CPUs{0}, n.CPUs...) { // hwloc looks at the first, there or not
			dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", c)
			write(dir+"core_cpus", mask(pci.CPUs{c}))
			write(dir+"package_cpus", mask(n.CPUs))
			write(dir+"core_id", strconv.Itoa(c))
			write(dir+"physical_package_id", strconv.Itoa(n.Number))
		}
	}
	if len(all) == 0 && !whole {
		return false
	}
	slices.Sort(all)
	if !whole {
		write("devices/system/cpu/online", all.String())
	}
	last := map[*pci.Device]byte{} // bus below
	for _, d := range slices.Backward(topo.Devices) {
		dir := "bus/pci/devices/" + d.Address.String()
		if _, err := os.Stat(filepath.Join(sys, dir)); err != nil {
			continue
		}
		if d.Node != nil {
			write(dir+"/local_cpus", mask(d.Node.CPUs))
		}
		if d.Kind == pci.Bridge && len(d.Children) > 0 {
			config := make([]byte, 64)
			config[0x0e] = 1
			config[0x18], config[0x19] = d.Address.Bus, d.Children[0].Address.Bus
			config[0x1a] = max(last[d], config[0x19])
			write(dir+"/config", string(config))
		}
		if d.Parent != nil {
			last[d.Parent] = max(last[d.Parent], last[d], d.Address.Bus)
		}
	}
	return true
}

// mask spells a set as the kernel does: words of 32 bits, the highest first.
func mask(cpus pci.CPUs) string {
	words := []uint32{0}
	for _, c := range cpus {
		for len(words) <= c/32 {
			words = append(words, 0)
		}
		words[c/32] |= 1 << (c % 32)
	}
	text := make([]string, 0, len(words))
	for _, w := range slices.Backward(words) {
		text = append(text, fmt.Sprintf("%08x", w))
	}
	return strings.Join(text, ",")
}
