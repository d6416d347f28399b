package umem

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/uname"
)

// magic is the type of the file system of dma-bufs (linux/magic.h).
const magic = 0x444d4142

// ReadBuffer finds what a descriptor of this process names. The exporter takes
// /proc.
func ReadBuffer(fd int) Buffer {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_PATH != 0 {
		return Buffer{State: StateBad}
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return Buffer{}
	}
	if fs.Type != magic {
		return Buffer{State: StateOther}
	}
	b := Buffer{State: StateDMABuf}
	// The position of a dma-buf means nothing and does not move.
	if size, err := unix.Seek(fd, 0, unix.SEEK_END); err == nil && size > 0 {
		b.Size = uint64(size)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err == nil {
		b.Exporter = exporterOf(string(text))
	}
	return b
}

// exporterOf reads exp_name of a dma-buf's fdinfo. The name that a user gave
// the buffer comes after it.
func exporterOf(fdinfo string) string {
	for line := range strings.Lines(fdinfo) {
		if name, ok := strings.CutPrefix(line, "exp_name:"); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// ReadDevice finds an RDMA device's driver, and whether its IOMMU translates,
// in sysfs below root.
func ReadDevice(root, name string) (driver string, translated bool) {
	dir := filepath.Join(root, "sys/class/infiniband", name)
	if _, err := os.Stat(dir); err != nil || name == "" {
		return "", false
	}
	link, err := os.Readlink(filepath.Join(dir, "device/driver"))
	if err != nil {
		if _, err := os.Lstat(filepath.Join(dir, "device")); err == nil {
			return "", false
		}
		return SoftwareDriver, false
	}
	driver = DriverOfPCI(filepath.Base(link))
	kind, err := os.ReadFile(filepath.Join(dir, "device/iommu_group/type"))
	return driver, err == nil && strings.HasPrefix(string(kind), "DMA")
}

// Gather fills in what this machine tells of a registration: the buffer by its
// descriptor, the driver of the device, the kernel and its page. It is for the
// time after a failure, and opens files.
func (r *Request) Gather(fd int, device string) {
	r.Buffer = ReadBuffer(fd)
	r.Device.Driver, r.Device.Translated = ReadDevice("/", device)
	r.Kernel = uname.Release()
	r.PageSize = uint64(os.Getpagesize())
}
