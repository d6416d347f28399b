package dmabuf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls of vfio: linux/vfio.h, version 7.3.
const (
	ioctlVFIOSetIOMMU     = 0x3b66
	ioctlVFIOGroupStatus  = 0x3b67
	ioctlVFIOSetContainer = 0x3b68
	ioctlVFIODeviceFD     = 0x3b6a // VFIO_GROUP_GET_DEVICE_FD
	ioctlVFIORegionInfo   = 0x3b6c
	ioctlVFIOBindIOMMUFD  = 0x3b76

	vfioGroupViable  = 1
	vfioRegionMmap   = 1 << 2
	vfioType1v2      = 3
	vfioNoIOMMU      = 8
	vfioConfigRegion = 7 // VFIO_PCI_CONFIG_REGION_INDEX

	pciCommand       = 4 // offset in the configuration space
	pciCommandMemory = 1 << 1
)

type (
	vfioGroupStatus struct { // struct vfio_group_status
		argsz, flags uint32
	}
	vfioRegionInfo struct { // struct vfio_region_info
		argsz, flags, index, capOffset uint32
		size, offset                   uint64 // offset is that of the device's descriptor
	}
	vfioBindIOMMUFD struct { // struct vfio_device_bind_iommufd, as of 6.6
		argsz, flags uint32
		iommufd      int32
		devid        uint32 // the result
	}
)

// vfioDevice is a device that this process holds. A vfio device is opened once,
// so all BARs of it share it.
type vfioDevice struct {
	key   string
	fd    int   // the device
	above []int // iommufd, or group and container

	users int // under the lock of vfioDevices

	mu    sync.Mutex
	taken map[int][]span // of each BAR, ascending
}

type span struct{ start, end uint64 }

var vfioDevices struct {
	sync.Mutex
	open map[string]*vfioDevice
}

// holdVFIO gives the device, opened if this process has not yet.
func holdVFIO(root, address, exporter string) (*vfioDevice, error) {
	vfioDevices.Lock()
	defer vfioDevices.Unlock()
	key := filepath.Join(root, address)
	if d := vfioDevices.open[key]; d != nil {
		d.users++
		return d, nil
	}
	d := &vfioDevice{key: key, fd: -1, users: 1, taken: make(map[int][]span)}
	if err := d.open(root, address, exporter); err != nil {
		d.close()
		return nil, err
	}
	if vfioDevices.open == nil {
		vfioDevices.open = make(map[string]*vfioDevice)
	}
	vfioDevices.open[key] = d
	return d, nil
}

func (d *vfioDevice) release() {
	vfioDevices.Lock()
	defer vfioDevices.Unlock()
	if d.users--; d.users == 0 {
		delete(vfioDevices.open, d.key)
		d.close()
	}
}

func (d *vfioDevice) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
	for _, fd := range slices.Backward(d.above) {
		unix.Close(fd)
	}
}

// open takes the device's own node with iommufd, or goes through its group
// where the kernel has no such node.
func (d *vfioDevice) open(root, address, exporter string) error {
	if name := vfioName(root, address); name != "" {
		node := filepath.Join(root, "dev/vfio/devices", name)
		if _, err := os.Stat(node); err == nil {
			return d.openNode(root, node, exporter)
		}
	}
	link, err := os.Readlink(filepath.Join(root, pciDevices, address, "iommu_group"))
	if err != nil {
		return &Error{Op: "open", Exporter: exporter, Err: ErrUnsupported,
			Detail: "the device is in no IOMMU group: switch the IOMMU on (firmware, and intel_iommu=on or amd_iommu=on), or load vfio with enable_unsafe_noiommu_mode=1 where the kernel has that"}
	}
	return d.openGroup(root, link, address, exporter)
}

func (d *vfioDevice) openNode(root, node, exporter string) (err error) {
	iommufd, err := openNode(exporter, filepath.Join(root, "dev/iommu"), "load the module iommufd (modprobe iommufd)")
	if err != nil {
		return err
	}
	d.above = append(d.above, iommufd)
	if d.fd, err = openNode(exporter, node, vfioMissing); err != nil {
		return err
	}
	arg := vfioBindIOMMUFD{iommufd: int32(iommufd)}
	arg.argsz = uint32(unsafe.Sizeof(arg))
	if err := ioctlRetry(d.fd, ioctlVFIOBindIOMMUFD, unsafe.Pointer(&arg)); err != nil {
		detail := ""
		if err == syscall.EBUSY || err == syscall.EINVAL {
			detail = "another program drives the device, or a device of its IOMMU group is not with vfio"
		}
		return &Error{Op: "VFIO_DEVICE_BIND_IOMMUFD", Exporter: exporter, Err: err, Detail: detail}
	}
	return nil
}

func (d *vfioDevice) openGroup(root, link, address, exporter string) (err error) {
	fail := func(op string, err error, detail string) error {
		return &Error{Op: op, Exporter: exporter, Err: err, Detail: detail}
	}
	group, iommu := filepath.Base(link), uintptr(vfioType1v2)
	if name, _ := os.ReadFile(filepath.Join(root, pciDevices, address, "iommu_group/name")); strings.TrimSpace(string(name)) == "vfio-noiommu" {
		group, iommu = "noiommu-"+group, vfioNoIOMMU
	}
	container, err := openNode(exporter, filepath.Join(root, "dev/vfio/vfio"), "load the module vfio (modprobe vfio-pci)")
	if err != nil {
		return err
	}
	d.above = append(d.above, container)
	node := filepath.Join(root, "dev/vfio", group)
	fd, err := openNode(exporter, node, vfioMissing)
	if err != nil {
		if e, ok := err.(*Error); ok && e.Err == syscall.EBUSY {
			e.Detail = "another program drives a device of the group"
		}
		return err
	}
	d.above = append(d.above, fd)
	status := vfioGroupStatus{argsz: 8}
	if err := ioctlRetry(fd, ioctlVFIOGroupStatus, unsafe.Pointer(&status)); err != nil {
		return fail("VFIO_GROUP_GET_STATUS", err, "")
	}
	if status.flags&vfioGroupViable == 0 {
		return fail("VFIO_GROUP_GET_STATUS", syscall.EBUSY,
			fmt.Sprintf("other devices of IOMMU group %s have drivers that use DMA; bind all of /sys/kernel/iommu_groups/%s/devices to vfio-pci", group, group))
	}
	held := int32(container)
	if err := ioctlRetry(fd, ioctlVFIOSetContainer, unsafe.Pointer(&held)); err != nil {
		return fail("VFIO_GROUP_SET_CONTAINER", err, "")
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(container), ioctlVFIOSetIOMMU, iommu); errno != 0 {
		detail := ""
		if errno == syscall.ENODEV || errno == syscall.EINVAL {
			detail = "load the module vfio_iommu_type1"
		}
		return fail("VFIO_SET_IOMMU", errno, detail)
	}
	name, err := unix.BytePtrFromString(address)
	if err != nil {
		return fail("VFIO_GROUP_GET_DEVICE_FD", err, "")
	}
	device, err := ioctlFD(fd, ioctlVFIODeviceFD, unsafe.Pointer(name))
	if err != nil {
		return fail("VFIO_GROUP_GET_DEVICE_FD", err, fdDetail(err))
	}
	d.fd = device
	return nil
}

// region describes a BAR, or the configuration space.
func (d *vfioDevice) region(index int) (vfioRegionInfo, error) {
	arg := vfioRegionInfo{index: uint32(index)}
	arg.argsz = uint32(unsafe.Sizeof(arg))
	err := ioctlRetry(d.fd, ioctlVFIORegionInfo, unsafe.Pointer(&arg))
	if err == nil && arg.size == 0 {
		err = ErrNoDevice
	}
	return arg, err
}

// enableMemory has the device answer to its BARs' addresses, without which
// every dma-buf of it counts as revoked.
func (d *vfioDevice) enableMemory() error {
	config, err := d.region(vfioConfigRegion)
	if err != nil {
		return err
	}
	var command [2]byte
	at := int64(config.offset) + pciCommand
	if _, err := unix.Pread(d.fd, command[:], at); err != nil {
		return err
	}
	if command[0]&pciCommandMemory != 0 {
		return nil
	}
	command[0] |= pciCommandMemory
	_, err = unix.Pwrite(d.fd, command[:], at)
	return err
}

// mmap maps bytes of a BAR. syscall.EOPNOTSUPP where vfio maps it to nobody.
func (d *vfioDevice) mmap(index int, offset, size uint64) ([]byte, error) {
	r, err := d.region(index)
	if err != nil {
		return nil, err
	}
	if r.flags&vfioRegionMmap == 0 {
		return nil, syscall.EOPNOTSUPP
	}
	return mapShared(d.fd, int64(r.offset+offset), size)
}

// take gives the first free place of that many bytes in a BAR.
func (d *vfioDevice) take(index int, size uint64) (uint64, error) {
	r, err := d.region(index)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	taken, start, ok := place(d.taken[index], r.size, size)
	if !ok {
		return 0, syscall.ENOSPC
	}
	d.taken[index] = taken
	return start, nil
}

// place finds the first gap of that size, and gives the spans with it taken.
func place(taken []span, limit, size uint64) (now []span, start uint64, ok bool) {
	at := 0
	for _, s := range taken {
		if s.start-start >= size {
			break
		}
		start, at = s.end, at+1
	}
	if start > limit || size > limit-start {
		return taken, 0, false
	}
	return slices.Insert(taken, at, span{start, start + size}), start, true
}

func (d *vfioDevice) give(index int, start uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taken[index] = slices.DeleteFunc(d.taken[index], func(s span) bool { return s.start == start })
}
