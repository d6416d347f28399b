package dmabuf

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var vfioFamily = family{name: "vfio", list: listBARs, open: openBAR}

const (
	pciDevices  = "sys/bus/pci/devices"
	vfioMissing = "bind the device to vfio-pci: modprobe vfio-pci; echo vfio-pci >/sys/bus/pci/devices/ADDRESS/driver_override; " +
		"echo ADDRESS >…/driver/unbind where it has a driver; echo ADDRESS >/sys/bus/pci/drivers_probe"
	// maxBAR is the last of a function's six.
	maxBAR = 5
)

// bar is memory of a PCI device that a user program drives through vfio. Its
// memory is the device's: whoever writes to registers steers the device, so
// list names only BARs that are memory without side effects (prefetchable).
type bar struct {
	root    string
	address string // as "0000:3b:00.0"; "" for none there is
	index   int
}

// listBARs gives the prefetchable BARs of devices that vfio holds, or one
// exporter that says how a device gets there.
func listBARs(root string) []Exporter {
	entries, _ := os.ReadDir(filepath.Join(root, pciDevices))
	var all []Exporter
	for _, e := range entries {
		if !boundToVFIO(root, e.Name()) {
			continue
		}
		for i, r := range barsOf(root, e.Name()) {
			if r.harmless() {
				all = append(all, &bar{root, e.Name(), i})
			}
		}
	}
	if all == nil {
		all = []Exporter{&bar{root: root}}
	}
	return all
}

// boundToVFIO: drivers other than vfio-pci give vfio devices too.
func boundToVFIO(root, address string) bool {
	dir := filepath.Join(root, pciDevices, address)
	driver, _ := os.Readlink(filepath.Join(dir, "driver"))
	return filepath.Base(driver) == "vfio-pci" || vfioName(root, address) != ""
}

// vfioName is the device's name with vfio, as "vfio0", on kernels from 6.1 on.
func vfioName(root, address string) string {
	names, _ := filepath.Glob(filepath.Join(root, pciDevices, address, "vfio-dev/vfio*"))
	if len(names) == 0 {
		return ""
	}
	return filepath.Base(names[0])
}

type barResource struct {
	size         uint64
	memory       bool
	prefetchable bool
}

// harmless is memory without side effects, of a page at least.
func (r barResource) harmless() bool { return r.prefetchable && r.size >= uint64(os.Getpagesize()) }

// barsOf reads a function's BARs from sysfs.
func barsOf(root, address string) []barResource {
	text, _ := os.ReadFile(filepath.Join(root, pciDevices, address, "resource"))
	return parseResources(string(text))
}

// parseResources reads lines of first and last address and the kernel's flags
// (linux/ioport.h), of which the first six are BARs.
func parseResources(text string) []barResource {
	const memory, prefetch = 0x200, 0x2000
	var all []barResource
	for line := range strings.Lines(text) {
		var first, last, flags uint64
		if n, _ := fmt.Sscanf(line, "0x%x 0x%x 0x%x", &first, &last, &flags); n != 3 || len(all) > maxBAR {
			break
		}
		r := barResource{memory: flags&memory != 0, prefetchable: flags&memory != 0 && flags&prefetch != 0}
		if flags != 0 && last >= first {
			r.size = last - first + 1
		}
		all = append(all, r)
	}
	return all
}

// openBAR takes ADDRESS:BAR, or ADDRESS for its first BAR that list would name.
func openBAR(root, rest string) (Exporter, error) {
	if rest == "" {
		return listBARs(root)[0], nil
	}
	fail := func(detail string) (Exporter, error) {
		return nil, &Error{Op: "open", Exporter: "vfio:" + rest, Err: ErrUnsupported, Detail: detail}
	}
	address, number := rest, ""
	if strings.Count(rest, ":") == 3 {
		i := strings.LastIndexByte(rest, ':')
		address, number = rest[:i], rest[i+1:]
	}
	if !isPCIAddress(address) {
		return fail("a BAR is named as 0000:3b:00.0:2, a PCI address and the BAR's number")
	}
	if number == "" {
		for i, r := range barsOf(root, address) {
			if r.harmless() {
				return &bar{root, address, i}, nil
			}
		}
		return fail("the device has no prefetchable memory BAR, or is not there; name a BAR")
	}
	index, err := strconv.ParseUint(number, 10, 8)
	if err != nil || index > maxBAR || len(number) > 1 {
		return fail(fmt.Sprintf("BARs have numbers from 0 to %d", maxBAR))
	}
	return &bar{root, address, int(index)}, nil
}

func isPCIAddress(s string) bool {
	var domain, bus, device, function uint
	n, _ := fmt.Sscanf(s, "%x:%x:%x.%x", &domain, &bus, &device, &function)
	return n == 4 && s == fmt.Sprintf("%04x:%02x:%02x.%x", domain, bus, device, function)
}

func (b *bar) Name() string {
	if b.address == "" {
		return "vfio"
	}
	return fmt.Sprintf("vfio:%s:%d", b.address, b.index)
}

func (b *bar) Describe() string {
	if b.address == "" {
		return "memory of a PCI device, through vfio"
	}
	what := fmt.Sprintf("BAR %d of PCI device %s", b.index, b.address)
	if bars := barsOf(b.root, b.address); b.index < len(bars) && bars[b.index].size > 0 {
		what += fmt.Sprintf(", %d KiB", bars[b.index].size>>10)
	}
	return what
}

// Available opens the device, which resets it, unless this process has it open.
// Where another process has, it answers EBUSY.
func (b *bar) Available() error {
	d, err := b.device()
	if err != nil {
		return err
	}
	defer d.release()
	if _, err := d.region(b.index); err != nil {
		return b.fail("VFIO_DEVICE_GET_REGION_INFO", err, "")
	}
	return b.probe(d)
}

// device opens the device; the caller releases it.
func (b *bar) device() (*vfioDevice, error) {
	if b.address == "" {
		return nil, &Error{Op: "open", Exporter: b.Name(), Err: ErrNoDevice, Detail: "no device is bound to vfio; " + vfioMissing}
	}
	if _, err := os.Stat(filepath.Join(b.root, pciDevices, b.address)); err != nil {
		return nil, &Error{Op: "open", Exporter: b.Name(), Err: ErrNoDevice, Detail: "there is no such PCI device"}
	}
	if !boundToVFIO(b.root, b.address) {
		return nil, &Error{Op: "open", Exporter: b.Name(), Err: ErrNoDevice, Detail: strings.ReplaceAll(vfioMissing, "ADDRESS", b.address)}
	}
	bars := barsOf(b.root, b.address)
	if b.index >= len(bars) || !bars[b.index].memory {
		return nil, &Error{Op: "open", Exporter: b.Name(), Err: ErrNoDevice, Detail: "the device has no such memory BAR"}
	}
	return holdVFIO(b.root, b.address, b.Name())
}

func (b *bar) fail(op string, err error, detail string) error {
	return &Error{Op: op, Exporter: b.Name(), Err: err, Detail: detail}
}

// struct vfio_device_feature and, after it, struct vfio_device_feature_dma_buf
// with one range (linux/vfio.h, version 7.3; DMA_BUF since 6.19).
type vfioDMABuf struct {
	argsz, flags  uint32
	regionIndex   uint32
	openFlags     uint32
	dmabufFlags   uint32
	ranges        uint32
	offset, bytes uint64 // in the region, whole pages
}

const (
	ioctlVFIOFeature  = 0x3b75 // VFIO_DEVICE_FEATURE
	vfioFeatureDMABuf = 11
	vfioFeatureGet    = 1 << 16
	vfioFeatureProbe  = 1 << 18
)

const opVFIODMABuf = "VFIO_DEVICE_FEATURE_DMA_BUF"

// probe asks whether the device's driver exports dma-bufs.
func (b *bar) probe(d *vfioDevice) error {
	arg := vfioDMABuf{argsz: 8, flags: vfioFeatureDMABuf | vfioFeatureGet | vfioFeatureProbe}
	if err := ioctlRetry(d.fd, ioctlVFIOFeature, unsafe.Pointer(&arg)); err != nil {
		return b.exportError(err)
	}
	return nil
}

func (b *bar) exportError(err error) error {
	switch err {
	case syscall.ENOTTY:
		return b.fail(opVFIODMABuf, ErrUnsupported, "the kernel has no dma-bufs of vfio devices: it takes 6.19 or later with CONFIG_VFIO_PCI_DMABUF (and CONFIG_PCI_P2PDMA)")
	case syscall.EOPNOTSUPP:
		return b.fail(opVFIODMABuf, err, "the device's vfio driver does not export its BARs; vfio-pci itself does")
	case syscall.ENODEV:
		return b.fail(opVFIODMABuf, err, "the BAR could not be claimed for this device")
	}
	return b.fail(opVFIODMABuf, err, fdDetail(err))
}

// Allocate takes pages of the BAR that nobody has in this process. They are as
// the device left them.
func (b *bar) Allocate(size uint64) (Memory, error) {
	size, err := allocation(b.Name(), size)
	if err != nil {
		return nil, err
	}
	d, err := b.device()
	if err != nil {
		return nil, err
	}
	offset, err := d.take(b.index, size)
	if err != nil {
		d.release()
		return nil, b.fail("allocate", err, fmt.Sprintf("%d bytes of the BAR are not free in one piece", size))
	}
	under := newShared(func() {
		d.give(b.index, offset)
		d.release()
	})
	m, err := b.export(d, offset, size)
	if err != nil {
		under.release()
		return nil, err
	}
	m.under = under
	// The device takes its dma-bufs with it when it is closed, which the last
	// buffer does.
	m.closing = CloseAfterDeregister
	return m, nil
}

// export makes the dma-buf and, where the device allows it, the mapping.
func (b *bar) export(d *vfioDevice, offset, size uint64) (*hostMemory, error) {
	if err := d.enableMemory(); err != nil {
		return nil, b.fail("enabling the device's memory", err, "")
	}
	arg := vfioDMABuf{flags: vfioFeatureDMABuf | vfioFeatureGet, regionIndex: uint32(b.index),
		openFlags: unix.O_RDWR | unix.O_CLOEXEC, ranges: 1, offset: offset, bytes: size}
	arg.argsz = uint32(unsafe.Sizeof(arg))
	fd, err := ioctlFD(d.fd, ioctlVFIOFeature, unsafe.Pointer(&arg))
	if err != nil {
		return nil, b.exportError(err)
	}
	data, err := d.mmap(b.index, offset, size)
	if err != nil && !refusesCPU(err) {
		unix.Close(fd)
		return nil, b.fail("mmap", err, fmt.Sprintf("of %d bytes of the BAR", size))
	}
	return newHostMemory(b.Name(), fd, data, size), nil
}

func (b *bar) Adopt(address, size uint64) (Memory, error) { return nil, unaddressed(b.Name()) }
