//go:build lab

package dmabuf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What holds for every exporter's memory holds for an accelerator's.
func init() { labExporters = append(labExporters, "accel:0") }

type accelFree struct{ handle, pad uint32 } // struct peerdirect_accel_free

// accelDevice is the driver's file, for the requests that Allocate makes.
func accelDevice(t *testing.T) int {
	t.Helper()
	a := exporter(t, "accel:0").(*accel)
	fd, _, err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// free is what of the accelerator is not allocated.
func free(t *testing.T, fd int) uint64 {
	t.Helper()
	var info accelInfo
	if err := ioctlRetry(fd, ioctlAccelInfo, unsafe.Pointer(&info)); err != nil {
		t.Fatal(err)
	}
	return info.free
}

func TestAcceleratorTellsWhatItIs(t *testing.T) {
	var info accelInfo
	if err := ioctlRetry(accelDevice(t), ioctlAccelInfo, unsafe.Pointer(&info)); err != nil {
		t.Fatal(err)
	}
	function := unix.ByteSliceToString(info.pci[:])
	vendor, err := os.ReadFile(filepath.Join("/sys/bus/pci/devices", function, "vendor"))
	if err != nil || string(vendor) != "0x1af4\n" || info.size == 0 || info.free > info.size || info.bus%info.size != 0 {
		t.Errorf("%+v, function %s of vendor %q, %v", info, function, vendor, err)
	}
}

// The driver takes nothing that makes no sense, and then nothing has changed.
func TestAcceleratorRefusesNonsense(t *testing.T) {
	dev := accelDevice(t)
	before, fds := free(t, dev), descriptors(t)
	alloc := accelAlloc{size: 3 * page}
	if err := ioctlRetry(dev, ioctlAccelAlloc, unsafe.Pointer(&alloc)); err != nil {
		t.Fatal(err)
	}
	if free(t, dev) != before-3*page || alloc.handle == 0 {
		t.Errorf("%+v leaves %d of %d bytes", alloc, free(t, dev), before)
	}
	h := alloc.handle
	for name, c := range map[string]struct {
		request uint
		arg     unsafe.Pointer
		want    syscall.Errno
	}{
		"no bytes":              {ioctlAccelAlloc, unsafe.Pointer(&accelAlloc{}), syscall.EINVAL},
		"flags":                 {ioctlAccelAlloc, unsafe.Pointer(&accelAlloc{size: page, flags: 1}), syscall.EINVAL},
		"more than there is":    {ioctlAccelAlloc, unsafe.Pointer(&accelAlloc{size: before + page}), syscall.ENOSPC},
		"more than can be":      {ioctlAccelAlloc, unsafe.Pointer(&accelAlloc{size: 1<<64 - 1}), syscall.ENOSPC},
		"no handle":             {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h + 1}), syscall.ENOENT},
		"half a page":           {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h, offset: 100}), syscall.EINVAL},
		"half a page's length":  {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h, length: 100}), syscall.EINVAL},
		"from the end":          {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h, offset: 3 * page}), syscall.EINVAL},
		"past the end":          {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h, offset: 2 * page, length: 2 * page}), syscall.EINVAL},
		"an offset that wraps":  {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h, offset: 1<<64 - page, length: 2 * page}), syscall.EINVAL},
		"flags of a descriptor": {ioctlAccelExport, unsafe.Pointer(&accelExport{handle: h, flags: unix.O_APPEND}), syscall.EINVAL},
		"nowhere":               {ioctlAccelExport, nil, syscall.EFAULT},
		"free what is not":      {ioctlAccelFree, unsafe.Pointer(&accelFree{handle: h + 1}), syscall.ENOENT},
		"another request":       {ioctlAccelInfo + 100, unsafe.Pointer(&accelInfo{}), syscall.ENOTTY},
	} {
		if err := ioctlRetry(dev, c.request, c.arg); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		offset int64
		length uint64
		flags  int
	}{
		"a mapping past the end": {int64(alloc.offset) + page, 3 * page, unix.MAP_SHARED},
		"of other memory":        {int64(alloc.offset) + 64*page, page, unix.MAP_SHARED},
		"a private mapping":      {int64(alloc.offset), page, unix.MAP_PRIVATE},
	} {
		if data, err := unix.Mmap(dev, c.offset, int(c.length), unix.PROT_READ|unix.PROT_WRITE, c.flags); err == nil {
			t.Errorf("%s: it works", name)
			unix.Munmap(data)
		}
	}
	if err := ioctlRetry(dev, ioctlAccelFree, unsafe.Pointer(&accelFree{handle: h})); err != nil {
		t.Error(err)
	}
	if free(t, dev) != before || descriptors(t) != fds {
		t.Errorf("%d bytes are free, before %d; %d descriptors, before %d", free(t, dev), before, descriptors(t), fds)
	}
}

// A dma-buf of a part has that part alone, and it, or a mapping, holds all of the
// allocation.
func TestAcceleratorMemoryIsHeldByEveryUser(t *testing.T) {
	dev := accelDevice(t)
	before := free(t, dev)
	alloc := accelAlloc{size: 4 * page}
	if err := ioctlRetry(dev, ioctlAccelAlloc, unsafe.Pointer(&alloc)); err != nil {
		t.Fatal(err)
	}
	whole, err := mapShared(dev, int64(alloc.offset), 4*page)
	if err != nil {
		t.Fatal(err)
	}
	copy(whole, pattern(4*page, 3))
	export := accelExport{handle: alloc.handle, flags: unix.O_CLOEXEC, offset: page, length: 2 * page}
	if err := ioctlRetry(dev, ioctlAccelExport, unsafe.Pointer(&export)); err != nil {
		t.Fatal(err)
	}
	info, err := stat(int(export.fd))
	if err != nil || info.Size != 2*page || info.Exporter != "peerdirect_accel" {
		t.Errorf("%+v, %v", info, err)
	}
	part, err := mapShared(int(export.fd), page, page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(part, whole[2*page:3*page]) {
		t.Error("the part has other bytes")
	}
	if err := ioctlRetry(dev, ioctlAccelFree, unsafe.Pointer(&accelFree{handle: alloc.handle})); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what string
		f    func() error
	}{
		{"the handle", func() error { return nil }},
		{"the mapping of the device", func() error { return unix.Munmap(whole) }},
		{"the dma-buf's descriptor", func() error { return unix.Close(int(export.fd)) }},
	} {
		if err := step.f(); err != nil {
			t.Fatal(err)
		}
		if got := free(t, dev); got != before-4*page {
			t.Errorf("%d bytes are free when %s is gone, before there were %d", got, step.what, before)
		}
	}
	if err := unix.Munmap(part); err != nil {
		t.Fatal(err)
	}
	if got := free(t, dev); got != before {
		t.Errorf("%d bytes are free when all is gone, before there were %d", got, before)
	}
}

// What a process leaves behind goes with its file.
func TestAcceleratorMemoryGoesWithTheFile(t *testing.T) {
	dev := accelDevice(t)
	before := free(t, dev)
	second := accelDevice(t)
	for range 10 {
		if err := ioctlRetry(second, ioctlAccelAlloc, unsafe.Pointer(&accelAlloc{size: 5 * page})); err != nil {
			t.Fatal(err)
		}
	}
	if err := ioctlRetry(dev, ioctlAccelFree, unsafe.Pointer(&accelFree{handle: 1})); err != syscall.ENOENT {
		t.Errorf("another file's handle: %v", err)
	}
	third, err := unix.Dup(second)
	if err != nil {
		t.Fatal(err)
	}
	unix.Dup2(dev, second) // closes it; the test's end closes what is there now
	if free(t, dev) == before {
		t.Error("the memory went before the last descriptor")
	}
	unix.Close(third)
	if got := free(t, dev); got != before {
		t.Errorf("%d bytes are free, before %d", got, before)
	}
}

func TestAcceleratorOutOfMemory(t *testing.T) {
	e := exporter(t, "accel:0")
	leavesNothing(t)
	_, err := e.Allocate(1 << 40)
	refused(t, err, syscall.ENOSPC, "--accelerator-memory")
	_, err = e.Adopt(4096, 4096)
	if !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	far, err := Open("accel:99")
	if err != nil {
		t.Fatal(err)
	}
	refused(t, far.Available(), ErrNoDevice, "--accelerator")
}
