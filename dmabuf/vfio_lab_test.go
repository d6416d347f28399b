//go:build lab

package dmabuf

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sysfsFile writes to a file of sysfs.
func sysfsFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// vfioBAR gives memory of a PCI device to vfio for the test's time: an ivshmem
// function, whose BAR 2 is plain memory.
func vfioBAR(t *testing.T) Exporter {
	t.Helper()
	if os.Getenv("PEERDIRECT_NODE") == "" {
		t.Skip("needs a lab guest: run make test-lab")
	}
	address := ""
	ids, _ := filepath.Glob("/sys/bus/pci/devices/*/device")
	for _, id := range ids {
		text, _ := os.ReadFile(id)
		vendor, _ := os.ReadFile(filepath.Join(filepath.Dir(id), "vendor"))
		if strings.TrimSpace(string(vendor)) == "0x1af4" && strings.TrimSpace(string(text)) == "0x1110" {
			address = filepath.Base(filepath.Dir(id))
		}
	}
	if address == "" {
		t.Skip("needs a PCI device with memory in a BAR: lab run --accelerator 1 --iommu")
	}
	dir := "/sys/bus/pci/devices/" + address
	if _, err := os.Stat(dir + "/iommu_group"); err != nil {
		t.Skip("needs an IOMMU: lab run --accelerator 1 --iommu")
	}
	// The guest's IOMMU does not remap interrupts; a guest's device may write
	// where it likes.
	for _, m := range [][]string{{"vfio_iommu_type1", "allow_unsafe_interrupts=1"}, {"vfio-pci"}} {
		if out, err := exec.Command("modprobe", m...).CombinedOutput(); err != nil {
			t.Fatalf("modprobe %v: %v\n%s", m, err, out)
		}
	}
	rebind := func(driver string) {
		sysfsFile(t, dir+"/driver_override", driver+"\n")
		if _, err := os.Stat(dir + "/driver"); err == nil {
			sysfsFile(t, dir+"/driver/unbind", address)
		}
		sysfsFile(t, "/sys/bus/pci/drivers_probe", address)
	}
	rebind("vfio-pci")
	t.Cleanup(func() { rebind("") })
	e, err := Open("vfio:" + address + ":2")
	if err != nil {
		t.Fatal(err)
	}
	err = e.Available()
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("needs the exporter, which this kernel lacks: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestVFIOMemoryIsTheDevicesOwn(t *testing.T) {
	e := vfioBAR(t)
	leavesNothing(t)
	listed := false
	for _, x := range listBARs("/") {
		listed = listed || x.Name() == e.Name()
	}
	if !listed {
		t.Errorf("list does not name %s", e.Name())
	}
	a := made[Memory](t)(e.Allocate(2 * page))
	b := made[Memory](t)(e.Allocate(page))
	pa, pb := pattern(2*page, 1), pattern(page, 2)
	a.WriteAt(pa, 0)
	b.WriteAt(pb, 0)
	got := make([]byte, 2*page)
	if _, err := a.ReadAt(got, 0); err != nil || !bytes.Equal(got, pa) {
		t.Errorf("two allocations share bytes, or %v", err)
	}
	ida, _ := a.Identity()
	idb, err := b.Identity()
	if err != nil || ida == idb {
		t.Errorf("identities %+v %+v, %v", ida, idb, err)
	}
	x := made[*Buffer](t)(a.Export(page+10, 100))
	info, err := x.Info()
	if err != nil || x.Offset != page+10 || info.Size != 2*page || info.Exporter == "" {
		t.Errorf("buffer %+v is %+v, %v", x, info, err)
	}
	t.Logf("%s: %s; the kernel tells %+v", e.Name(), e.Describe(), info)
	// A device has one user.
	out, err := exec.Command("peerdirect", "dmabuf", "list").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "EBUSY") || !strings.Contains(string(out), "another program drives") {
		t.Errorf("another process finds: %v\n%s", err, out)
	}
	_, err = e.Allocate(1 << 40)
	refused(t, err, syscall.ENOSPC, "not free in one piece")
}

func TestVFIOMemoryComesBackWithItsLastBuffer(t *testing.T) {
	e := vfioBAR(t)
	leavesNothing(t)
	bars := barsOf("/", e.(*bar).address)
	all, err := e.Allocate(bars[2].size)
	if err != nil {
		t.Fatal(err)
	}
	b, err := all.Export(0, page)
	if err != nil {
		t.Fatal(err)
	}
	release, err := b.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = e.Allocate(page)
	refused(t, err, syscall.ENOSPC)
	refused(t, b.Close(), syscall.EBUSY, "deregister")
	if err := b.BeginCPU(CPURead); err != nil {
		t.Errorf("a refused close broke the buffer: %v", err)
	}
	release()
	release()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := made[Memory](t)(e.Allocate(bars[2].size))
	if again.Size() != bars[2].size {
		t.Errorf("%d bytes", again.Size())
	}
}
