package dmabuf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestVendorsSayWhatIsMissing: each vendor's first device is listed everywhere,
// and where it cannot be used says why, in a class and in words.
func TestVendorsSayWhatIsMissing(t *testing.T) {
	for _, f := range []family{cudaFamily, amdFamily, habanaFamily, neuronFamily, zeFamily} {
		t.Run(f.name, func(t *testing.T) {
			leavesNothing(t)
			all := f.list("/")
			if len(all) == 0 || all[0].Name() != f.name+":0" {
				t.Fatalf("listed: %v", all)
			}
			x, err := Open(f.name)
			if err != nil || x.Name() != all[0].Name() {
				t.Fatalf("Open(%q): %v, %v", f.name, x, err)
			}
			err = x.Available()
			if err == nil {
				t.Skipf("needs a machine without %s, which is here: %s", x.Name(), x.Describe())
			}
			var e *Error
			if !errors.As(err, &e) || e.Detail == "" || !anyClass(err) {
				t.Errorf("Available: %v", err)
			}
			t.Logf("%s: %v", x.Describe(), err)
			if m, err := x.Allocate(1 << 20); !anyClass(err) {
				t.Errorf("Allocate: %v, %v", m, err)
			}
			if m, err := x.Adopt(1<<20, 1<<20); !anyClass(err) {
				t.Errorf("Adopt: %v, %v", m, err)
			}
		})
	}
}

func TestVendorNames(t *testing.T) {
	for name, want := range map[string]string{
		"cuda": "cuda:0", "cuda:3": "cuda:3", "cuda:1:pool": "cuda:1:pool", "cuda:0:vmm": "cuda:0:vmm", "cuda::vmm": "cuda:0:vmm",
		"amd": "amd:0", "amd:7": "amd:7", "habana:1": "habana:1", "neuron:15": "neuron:15", "ze:2": "ze:2",
		"cuda:x": "", "cuda:-1": "", "cuda:0:heap": "", "amd:one": "", "habana:-1": "", "neuron:0x1": "", "ze:1:2": "",
	} {
		x, err := Open(name)
		switch {
		case want == "" && !errors.Is(err, ErrUnsupported):
			t.Errorf("%s: %v, %v", name, x, err)
		case want != "" && (err != nil || x.Name() != want):
			t.Errorf("%s: %v, %v", name, x, err)
		}
	}
}

// write makes files of a system root.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKFDTopology(t *testing.T) {
	root := t.TempDir()
	node := func(n, file string) string { return kfdNodes + "/" + n + "/" + file }
	write(t, root, map[string]string{
		node("0", "gpu_id"):     "0\n",
		node("0", "properties"): "cpu_cores_count 64\nsimd_count 0\n",
		// Node 10 comes after node 2, whatever the order of the names.
		node("10", "gpu_id"):                   "4711\n",
		node("10", "name"):                     "gfx1100\n",
		node("10", "properties"):               "simd_count 96\ndrm_render_minor 129\ndomain 1\nlocation_id 768\n",
		node("10", "mem_banks/0/properties"):   "heap_type 2\nsize_in_bytes 25753026560\nflags 0\n",
		node("2", "gpu_id"):                    "51102\n",
		node("2", "name"):                      "aqua_vanjaram\n",
		node("2", "properties"):                "simd_count 1216\nmem_banks_count 1\nlocation_id 50432\ndomain 0\ndrm_render_minor 128\nhive_id 9223372036854775807\nodd\n",
		node("2", "mem_banks/0/properties"):    "heap_type 1\nsize_in_bytes 206141652992\nwidth 8192\n",
		"sys/class/kfd/kfd/topology/system_id": "1\n",
	})
	nodes, err := readKFD(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 2 {
		t.Fatalf("%d GPUs: %+v", len(nodes), nodes)
	}
	first, second := nodes[0], nodes[1]
	if first.gpuID != 51102 || first.name != "aqua_vanjaram" || first.renderMinor != 128 || first.address() != "0000:c5:00.0" ||
		first.publicBytes != 206141652992 || first.privateBytes != 0 {
		t.Errorf("the first: %+v at %s", first, first.address())
	}
	if second.gpuID != 4711 || second.renderMinor != 129 || second.address() != "0001:03:00.0" || second.publicBytes != 0 || second.privateBytes == 0 {
		t.Errorf("the second: %+v at %s", second, second.address())
	}
	all := listAMD(root)
	if len(all) != 2 || !strings.Contains(all[0].Describe(), "aqua_vanjaram at 0000:c5:00.0") {
		t.Errorf("listed: %v", all)
	}
	if err := all[0].Available(); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "dev/kfd") {
		t.Errorf("without /dev/kfd: %v", err)
	}
	if err := all[1].Available(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "resizable BAR") {
		t.Errorf("without a large BAR: %v", err)
	}
	if err := (&amdExporter{root, 2}).Available(); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "2 GPUs") {
		t.Errorf("the third of two: %v", err)
	}
	write(t, root, map[string]string{node("2", "gpu_id"): "many\n"})
	if _, err := readKFD(root); err == nil {
		t.Error("a gpu_id that is no number was read")
	}
}

func FuzzKFDProperties(f *testing.F) {
	f.Add("simd_count 96\ndrm_render_minor 129\n")
	f.Add("a\nb 1 2\n \n c  3\n-1 -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range parseKFD(text) {
			if strings.ContainsAny(name, " \n") || !strings.Contains(text, name) {
				t.Errorf("%q from %q", name, text)
			}
		}
	})
}

func TestHabanaNodes(t *testing.T) {
	root := t.TempDir()
	const devices = "sys/devices/pci0000:00/"
	write(t, root, map[string]string{
		devices + "0000:33:00.0/vendor": "0x1da3\n", devices + "0000:33:00.0/device": "0x1020\n",
		devices + "0000:34:00.0/vendor": "0x8086\n", devices + "0000:34:00.0/device": "0x7d1d\n",
		devices + "0000:35:00.0/vendor": "0x1da3\n", devices + "0000:35:00.0/device": "0x1000\n",
		"dev/accel/accel0": "",
	})
	for link, device := range map[string]string{
		"sys/class/accel/accel0": "0000:33:00.0", "sys/class/accel/accel1": "0000:34:00.0", "sys/class/habanalabs/hl0": "0000:35:00.0",
	} {
		if err := os.MkdirAll(filepath.Join(root, link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../../../"+devices+device, filepath.Join(root, link, "device")); err != nil {
			t.Fatal(err)
		}
	}
	all := listHabana(root)
	if len(all) != 2 {
		t.Fatalf("listed: %v", all)
	}
	if text := all[0].Describe(); !strings.Contains(text, "/dev/accel/accel0 at 0000:33:00.0") {
		t.Error(text)
	}
	if err := all[0].Available(); err != nil {
		t.Errorf("a node that may be opened: %v", err)
	}
	if err := all[1].Available(); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "/dev/hl0") {
		t.Errorf("a device without its node: %v", err)
	}
	nodes := habanaNodes(root)
	if nodes[0].physical || !nodes[0].accel || !nodes[1].physical || nodes[1].accel {
		t.Errorf("%+v", nodes)
	}
	if _, err := all[1].Allocate(4096); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "physical address") {
		t.Errorf("Allocate of the first generation: %v", err)
	}
	if _, err := all[0].Adopt(1<<40, 4096); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "has not opened") {
		t.Errorf("Adopt without the device open: %v", err)
	}
}

// TestHabanaExportArguments: what each generation of the driver wants to be told,
// and where the bytes then begin in the buffer.
func TestHabanaExportArguments(t *testing.T) {
	for name, c := range map[string]struct {
		node           habanaNode
		offset, length uint64
		word           [3]uint64
		at             uint64
	}{
		"a whole":               {habanaNode{accel: true}, 0, 1 << 20, [3]uint64{1 << 40, 1 << 20, 0}, 0},
		"inside":                {habanaNode{accel: true}, 10000, 10000, [3]uint64{1 << 40, 12288, 8192}, 1808},
		"one byte":              {habanaNode{accel: true}, 4095, 1, [3]uint64{1 << 40, 4096, 0}, 4095},
		"a physical address":    {habanaNode{accel: true, physical: true}, 10000, 10000, [3]uint64{1<<40 + 8192, 12288, 0}, 1808},
		"the older by a handle": {habanaNode{}, 10000, 10000, [3]uint64{77, 1 << 20, 0}, 10000},
	} {
		m := &habanaMemory{exporter: &habanaExporter{}, node: c.node, address: 1 << 40, size: 1 << 20, handle: 77}
		arg, at := m.exportArgs(c.offset, c.length)
		if arg.word != c.word || at != c.at || arg.op != habanaExport {
			t.Errorf("%s: %v at %d, want %v at %d", name, arg.word, at, c.word, c.at)
		}
	}
}

func TestNeuronNodes(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{"dev/neuron0": "", "dev/neuron1": ""})
	all := listNeuron(root)
	if len(all) != 2 || all[1].Name() != "neuron:1" || all[1].Available() != nil {
		t.Fatalf("listed: %v", all)
	}
	if err := (&neuronExporter{root, 2}).Available(); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "dkms") {
		t.Errorf("the third of two: %v", err)
	}
	for errno, says := range map[syscall.Errno]string{
		syscall.EPROTONOSUPPORT: "5.15", syscall.EINVAL: "mapping", syscall.EMFILE: "ulimit",
	} {
		if text := neuronExportDetail(errno); !strings.Contains(text, says) {
			t.Errorf("%v: %q", errno, text)
		}
	}
}
