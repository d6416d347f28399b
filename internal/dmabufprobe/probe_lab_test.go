//go:build lab

package dmabufprobe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
)

// prepare loads what the exporters need, and hands the last of several
// accelerators to vfio where the guest has an IOMMU.
func prepare(t *testing.T) {
	t.Helper()
	if os.Getenv("PEERDIRECT_NODE") == "" {
		t.Skip("needs a lab guest: run make test-lab")
	}
	if out, err := exec.Command("modprobe", "vgem").CombinedOutput(); err != nil {
		t.Fatalf("modprobe vgem: %v\n%s", err, out)
	}
	accelerators := strings.Split(os.Getenv("PEERDIRECT_ACCELERATORS"), ",")
	if len(accelerators) < 2 {
		t.Log("without vfio: it takes lab run --accelerator 2 --iommu")
		return
	}
	found, err := filepath.Glob("/sys/bus/pci/drivers/peerdirect_accel/0*")
	if err != nil || len(found) < 2 {
		t.Fatalf("accelerators %v, %v", found, err)
	}
	dir, err := filepath.EvalSymlinks(slices.Max(found))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/iommu_group"); err != nil {
		t.Log("without vfio: it takes lab run --iommu")
		return
	}
	for _, m := range [][]string{{"vfio_iommu_type1", "allow_unsafe_interrupts=1"}, {"vfio-pci"}} {
		if out, err := exec.Command("modprobe", m...).CombinedOutput(); err != nil {
			t.Fatalf("modprobe %v: %v\n%s", m, err, out)
		}
	}
	bind := func(driver string) {
		address := filepath.Base(dir)
		for _, w := range [][2]string{
			{dir + "/driver_override", driver + "\n"}, {dir + "/driver/unbind", address}, {"/sys/bus/pci/drivers_probe", address},
		} {
			if err := os.WriteFile(w[0], []byte(w[1]), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	bind("vfio-pci")
	t.Cleanup(func() { bind("") })
}

// expected says what must come of a cell.
func expected(d Device, e Exporter, c *Cell) (ok bool, want string) {
	kind, _, _ := strings.Cut(e.Name, ":")
	switch {
	case !e.Available:
		return c.Verdict == Absent && c.Stage == "available" && c.Reason != "", "absent, and why"
	case d.Driver == "software" && e.Name == HostMemory && d.Transport == "iWARP":
		return c.Verdict == Refused && c.Stage == "queue", "refused at queue"
	case e.Name == HostMemory:
		return c.Verdict == Moved, "moved"
	case d.Driver == "software":
		return c.Verdict == Refused && c.Stage == "register" && c.Errno == "EOPNOTSUPP" && strings.Contains(c.Reason, "imports no dma-bufs"),
			"refused at register by EOPNOTSUPP: imports no dma-bufs"
	case kind == "vfio":
		return c.Verdict == Refused && c.Stage == "register" && c.Errno == "EOPNOTSUPP" && strings.Contains(c.Reason, "efa pins for good"),
			"refused at register by EOPNOTSUPP: efa pins for good"
	case kind == "accel" && c.Verdict == Refused:
		// One on the far side of the host bridge.
		return c.Stage == "register" && c.Errno == "EREMOTEIO" && len(c.KernelLog) > 0, "moved, or refused by EREMOTEIO with the kernel's word for it"
	}
	return c.Verdict == Moved, "moved"
}

// probes tries every cell of the guest and holds it against what is known of
// that kernel.
func probes(t *testing.T) *Matrix {
	t.Helper()
	prepare(t)
	leavesNothing(t)
	m, err := Run(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	t.Logf("linux %s\n%s", m.Kernel, b.String())
	for _, e := range m.Exporters {
		for _, d := range m.Devices {
			c := m.Cell(e.Name, d.Name)
			if c == nil {
				t.Errorf("%s on %s was not tried", e.Name, d.Name)
			} else if ok, want := expected(d, e, c); !ok {
				t.Errorf("%s on %s: %+v; want %s", e.Name, d.Name, c, want)
			}
		}
	}
	// What must be there: a kernel that has lost an exporter is no success.
	must := []string{HostMemory, "vgem"}
	if os.Getenv("PEERDIRECT_KERNEL") != "6.1" {
		must = append(must, "udmabuf", "heap:system", "memfd")
	}
	for _, e := range dmabuf.Exporters() {
		if strings.HasPrefix(e.Name(), "vfio:") || strings.HasPrefix(e.Name(), "accel:") && os.Getenv("PEERDIRECT_ACCELERATORS") != "" {
			must = append(must, e.Name())
		}
	}
	for _, e := range m.Exporters {
		if slices.Contains(must, e.Name) && !e.Available && !(strings.HasPrefix(e.Name, "vfio:") && os.Getenv("PEERDIRECT_KERNEL") != "7.3") {
			t.Errorf("%s is absent: %s", e.Name, e.Problem)
		}
	}
	return m
}

func TestEFADmabufProbe(t *testing.T) {
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a guest with an EFA device: peerdirect lab run --efa 1")
	}
	m := probes(t)
	if c := m.Cell("accel:0", "efa_0"); os.Getenv("PEERDIRECT_ACCELERATORS") != "" && (c == nil || c.Verdict != Moved) {
		t.Errorf("the accelerator beside the NIC: %+v", c)
	}
}

func TestDmabufProbe(t *testing.T) {
	if os.Getenv("PEERDIRECT_DEVICE") == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	probes(t)
}
