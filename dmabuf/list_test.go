package dmabuf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// machine writes a system root: lines "path = content" and "path -> target".
func machine(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	for line := range strings.Lines(text) {
		path, content, file := strings.Cut(strings.TrimSpace(line), " = ")
		target := ""
		if !file {
			path, target, _ = strings.Cut(path, " -> ")
		}
		if path == "" {
			continue
		}
		path = filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case file:
			err = os.WriteFile(path, []byte(strings.ReplaceAll(content, `\n`, "\n")), 0o644)
		default:
			err = os.Symlink(target, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func names(all []Exporter) string {
	var out []string
	for _, e := range all {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

const aMachine = `
dev/dma_heap/reserved = x
dev/dma_heap/system = x
dev/dri/card10 = x
dev/dri/card2 = x
dev/dri/renderD128 = x
dev/dri/by-path/x = x
sys/bus/pci/devices/0000:00:02.0/resource = 0x00000000fe000000 0x00000000fe000fff 0x0000000000040200\n
sys/bus/pci/devices/0000:3b:00.0/resource = 0x00000000fe000000 0x00000000fe000fff 0x0000000000040200\n0x0000000000000000 0x0000000000000000 0x0000000000000000\n0x000000c000000000 0x000000c000ffffff 0x000000000014220c\n0x0 0x0 0x0\n0xc040 0xc07f 0x40101\n0x1000 0x10ff 0x2200\n0xfe800000 0xfe9fffff 0x46200\n
sys/bus/pci/devices/0000:3b:00.0/driver -> ../../../../bus/pci/drivers/vfio-pci
sys/bus/pci/devices/0000:5e:00.0/resource = 0x000000d000000000 0x000000d0000fffff 0x000000000014220c\n
sys/bus/pci/devices/0000:5e:00.0/driver -> ../../../../bus/pci/drivers/nvgrace-gpu-vfio-pci
sys/bus/pci/devices/0000:5e:00.0/vfio-dev/vfio3/dev = 511:3
`

func TestExportersOfAMachine(t *testing.T) {
	root := machine(t, aMachine)
	for _, c := range []struct{ family, want string }{
		{"udmabuf", "udmabuf"},
		{"heap", "heap:reserved heap:system"},
		{"memfd", "memfd"},
		{"drm", "drm:card2 drm:card10"},
		{"vgem", "vgem"},
		// Only memory without side effects, of devices that vfio has.
		{"vfio", "vfio:0000:3b:00.0:2 vfio:0000:5e:00.0:0"},
	} {
		for _, f := range families {
			if f.name != c.family {
				continue
			}
			if got := names(f.list(root)); got != c.want {
				t.Errorf("%s: %q, want %q", c.family, got, c.want)
			}
			if none := f.list(t.TempDir()); len(none) != 1 {
				t.Errorf("%s: an empty machine lists %q", c.family, names(none))
			} else {
				err := none[0].Available()
				refused(t, err, ErrNoDevice)
				var e *Error
				if !errors.As(err, &e) || e.Detail == "" {
					t.Errorf("%s: %v has no remedy", c.family, err)
				}
				_, err = none[0].Allocate(1)
				refused(t, err, ErrNoDevice)
				_, err = none[0].Adopt(1<<47-page, page)
				if !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrNoDevice) {
					t.Errorf("%s: adopt: %v", c.family, err)
				}
			}
			first, err := f.open(root, "")
			if err != nil || first.Describe() == "" {
				t.Errorf("%s: %v", c.family, err)
			}
		}
	}
}

func TestExportersAreOpenedByTheirNames(t *testing.T) {
	for _, name := range []string{"udmabuf", "memfd", "vgem", "heap:system", "drm:card0", "vfio:0000:3b:00.0:2", "vfio:10000:e1:00.7:0"} {
		e, err := Open(name)
		if err != nil || e.Name() != name {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	for name, word := range map[string]string{
		"udmabuf:1":             "leave \":1\" out",
		"memfd:x":               "leave \":x\" out",
		"vgem:0":                "leave \":0\" out",
		"heap:../../etc/passwd": "a file of /dev/dma_heap",
		"drm:renderD128":        "card0",
		"drm:card":              "card0",
		"drm:card-1":            "card0",
		"vfio:3b:00.0:2":        "0000:3b:00.0:2",
		"vfio:0000:3b:00.0:6":   "0 to 5",
		"vfio:0000:3b:00.0:-1":  "0 to 5",
		"vfio:0000:3b:00.0:2:2": "0000:3b:00.0:2",
		"vfio:../../x":          "0000:3b:00.0:2",
		"floppy":                "there are udmabuf",
		"":                      "there are udmabuf",
	} {
		_, err := Open(name)
		refused(t, err, ErrUnsupported, word)
	}
	root := machine(t, aMachine)
	e, err := openBAR(root, "0000:3b:00.0")
	if err != nil || e.Name() != "vfio:0000:3b:00.0:2" {
		t.Errorf("the first BAR is %v, %v", e, err)
	}
	if e.Describe() != "BAR 2 of PCI device 0000:3b:00.0, 16384 KiB" {
		t.Errorf("described as %q", e.Describe())
	}
	_, err = openBAR(root, "0000:3c:00.0")
	refused(t, err, ErrUnsupported, "is not there")
	for name, word := range map[string]string{
		"0000:00:02.0:0": "echo 0000:00:02.0",
		"0000:3c:00.0:0": "no such PCI device",
		"0000:3b:00.0:1": "no such memory BAR",
		"0000:3b:00.0:4": "no such memory BAR", // ports
		"0000:3b:00.0:0": "",
	} {
		e, err := openBAR(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Available(); word != "" {
			refused(t, err, ErrNoDevice, word)
		} else {
			refused(t, err, ErrUnsupported, "IOMMU")
		}
	}
}

func TestPlacesInABAR(t *testing.T) {
	var taken []span
	put := func(size, want uint64) {
		t.Helper()
		now, start, ok := place(taken, 16, size)
		if !ok || start != want {
			t.Fatalf("%d go to %d, %v; want %d", size, start, ok, want)
		}
		taken = now
	}
	put(4, 0)
	put(4, 4)
	put(4, 8)
	taken = append(taken[:1:1], taken[2]) // [0,4) [8,12)
	put(2, 4)
	put(4, 12)
	put(2, 6)
	for _, size := range []uint64{1, 16, 1<<64 - 1} {
		if _, _, ok := place(taken, 16, size); ok {
			t.Errorf("%d fit in what is full", size)
		}
	}
	if _, _, ok := place(nil, 16, 17); ok {
		t.Error("17 of 16")
	}
}

func TestMemoryThatTheMachineLacksIsNotAllocated(t *testing.T) {
	if n, ok := memAvailable("MemTotal: 9 kB\nMemAvailable:     2048 kB\n"); !ok || n != 2<<20 {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := memAvailable("MemTotal: 9 kB\n"); ok {
		t.Error("found what is not there")
	}
	if _, err := hostAllocation("x", 1); err != nil {
		t.Error(err)
	}
	_, err := hostAllocation("x", 1<<50)
	refused(t, err, syscall.ENOMEM, "MemAvailable")
}

func FuzzPCINames(f *testing.F) {
	f.Add("0x00000000fe000000 0x00000000fe000fff 0x0000000000040200\n0x0 0x0 0x0\n", "0000:3b:00.0:2")
	f.Add("0x0 0xffffffffffffffff 0x2200\n", "10000:e1:1f.7")
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, resources, name string) {
		if all := parseResources(resources); len(all) > maxBAR+1 {
			t.Errorf("%d BARs", len(all))
		}
		if e, err := openBAR(root, name); err == nil && name != "" && e.Name() != "vfio:"+name {
			t.Errorf("%q is opened as %s", name, e.Name())
		}
	})
}
