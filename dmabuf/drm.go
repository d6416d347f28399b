package dmabuf

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	drmFamily  = family{name: "drm", list: listCards, open: openCard}
	vgemFamily = family{
		name: "vgem",
		list: func(root string) []Exporter { return []Exporter{&vgem{root}} },
		open: func(root, rest string) (Exporter, error) {
			if rest != "" {
				return nil, noPart("vgem", rest)
			}
			return &vgem{root}, nil
		},
	}
)

// Calls on a card: drm/drm.h and drm/drm_mode.h, version 7.3.
const (
	ioctlDRMVersion           = 0xc0406400
	ioctlDRMDropMaster        = 0x641f
	ioctlDRMGEMClose          = 0x40086409
	ioctlDRMPrimeToFD         = 0xc00c642d // DRM_IOCTL_PRIME_HANDLE_TO_FD
	ioctlDRMCreateDumb        = 0xc02064b2 // DRM_IOCTL_MODE_CREATE_DUMB
	ioctlDRMMapDumb           = 0xc01064b3 // DRM_IOCTL_MODE_MAP_DUMB
	drmFolder                 = "dev/dri"
	drmMissing                = "load the driver of a graphics card, or vgem, which needs none (modprobe vgem)"
	vgemMissing               = "load the module vgem (modprobe vgem); it takes a kernel with CONFIG_DRM_VGEM"
	drmPitch                  = 4096 // bytes of a line, a page of most machines
	drmLines           uint64 = math.MaxUint32/drmPitch - 1
)

type (
	drmVersion struct { // struct drm_version; the texts are asked for by length
		major, minor, patch int32
		_                   int32
		nameLen             uint64
		name                *byte
		dateLen             uint64
		date                *byte
		descLen             uint64
		desc                *byte
	}
	drmGEMClose struct { // struct drm_gem_close
		handle, pad uint32
	}
	drmPrime struct { // struct drm_prime_handle
		handle, flags uint32
		fd            int32
	}
	drmCreateDumb struct { // struct drm_mode_create_dumb
		height, width, bpp, flags uint32
		handle, pitch             uint32 // results
		size                      uint64
	}
	drmMapDumb struct { // struct drm_mode_map_dumb
		handle, pad uint32
		offset      uint64 // for mmap of the card
	}
)

// card is a graphics card, whose dumb buffers are plain memory: pixels that
// nobody shows.
type card struct{ root, card string }

// cards gives the names of the cards, in the order of their numbers. Render
// nodes have no dumb buffers.
func cards(root string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(root, drmFolder))
	if errno, _ := underlying(err); errno == syscall.ENOENT {
		err = nil
	}
	var names []string
	for _, e := range entries {
		if _, ok := cardNumber(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		i, _ := cardNumber(a)
		j, _ := cardNumber(b)
		return int(i) - int(j)
	})
	return names, err
}

func cardNumber(name string) (uint64, bool) {
	digits, is := strings.CutPrefix(name, "card")
	n, err := strconv.ParseUint(digits, 10, 20)
	return n, is && err == nil
}

func listCards(root string) []Exporter {
	var all []Exporter
	names, _ := cards(root)
	for _, name := range names {
		all = append(all, &card{root, name})
	}
	if all == nil {
		all = []Exporter{&card{root, "card0"}}
	}
	return all
}

func openCard(root, rest string) (Exporter, error) {
	if rest == "" {
		return listCards(root)[0], nil
	}
	if _, ok := cardNumber(rest); !ok {
		return nil, &Error{Op: "open", Exporter: "drm:" + rest, Err: ErrUnsupported, Detail: "a card has a name like card0"}
	}
	return &card{root, rest}, nil
}

func (c *card) Name() string { return "drm:" + c.card }

func (c *card) Describe() string {
	if name := c.driver(); name != "" {
		return "dumb buffers of a graphics card, driver " + name
	}
	return "dumb buffers of a graphics card"
}

// driver is the name that the card's driver has, "" where it cannot be asked.
func (c *card) driver() string {
	fd, err := c.open(c.Name())
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return drmDriver(fd)
}

func drmDriver(fd int) string {
	var name [64]byte
	v := drmVersion{name: &name[0], nameLen: uint64(len(name))}
	if ioctlRetry(fd, ioctlDRMVersion, unsafe.Pointer(&v)) != nil {
		return ""
	}
	return string(name[:min(v.nameLen, uint64(len(name)))])
}

func (c *card) open(exporter string) (int, error) {
	fd, err := openNode(exporter, filepath.Join(c.root, drmFolder, c.card), drmMissing)
	if err == nil {
		// Who opens a card first owns the screen; it is left to those who
		// show something.
		ioctl(fd, ioctlDRMDropMaster, nil)
	}
	return fd, err
}

// Available makes a buffer of one page, because not every driver has them.
func (c *card) Available() error { return c.available(c.Name()) }

func (c *card) available(exporter string) error {
	m, err := c.allocate(exporter, 1)
	if err != nil {
		return err
	}
	return m.Close()
}

func (c *card) Allocate(size uint64) (Memory, error) { return c.allocate(c.Name(), size) }

// allocate makes a dumb buffer of whole pages: under 4 GiB, which is as large as
// the kernel makes them.
func (c *card) allocate(exporter string, size uint64) (Memory, error) {
	size, err := allocation(exporter, size)
	if err != nil {
		return nil, err
	}
	lines := (size + drmPitch - 1) / drmPitch
	if lines > drmLines {
		return nil, &Error{Op: "MODE_CREATE_DUMB", Exporter: exporter, Err: syscall.EINVAL,
			Detail: fmt.Sprintf("%d bytes, and a dumb buffer has at most %d", size, drmLines*drmPitch)}
	}
	fd, err := c.open(exporter)
	if err != nil {
		return nil, err
	}
	// The dma-buf holds the buffer, the mapping holds the card.
	defer unix.Close(fd)
	dumb := drmCreateDumb{height: uint32(lines), width: drmPitch / 4, bpp: 32}
	if err := ioctlRetry(fd, ioctlDRMCreateDumb, unsafe.Pointer(&dumb)); err != nil {
		return nil, c.dumbError(exporter, fd, err, size)
	}
	defer ioctlRetry(fd, ioctlDRMGEMClose, unsafe.Pointer(&drmGEMClose{handle: dumb.handle}))
	prime := drmPrime{handle: dumb.handle, flags: unix.O_RDWR | unix.O_CLOEXEC, fd: -1}
	if err := ioctlRetry(fd, ioctlDRMPrimeToFD, unsafe.Pointer(&prime)); err != nil {
		detail := fdDetail(err)
		if detail == "" {
			detail = fmt.Sprintf("the driver %s does not export its buffers", drmDriver(fd))
		}
		return nil, &Error{Op: "PRIME_HANDLE_TO_FD", Exporter: exporter, Err: err, Detail: detail}
	}
	data, err := mapDumb(fd, dumb.handle, size)
	if err != nil && !refusesCPU(err) {
		unix.Close(int(prime.fd))
		return nil, &Error{Op: "mmap", Exporter: exporter, Err: err, Detail: fmt.Sprintf("for %d bytes", size)}
	}
	return newHostMemory(exporter, int(prime.fd), data, size), nil
}

func mapDumb(fd int, handle uint32, size uint64) ([]byte, error) {
	arg := drmMapDumb{handle: handle}
	if err := ioctlRetry(fd, ioctlDRMMapDumb, unsafe.Pointer(&arg)); err != nil {
		return nil, err
	}
	return mapShared(fd, int64(arg.offset), size)
}

// dumbError explains why there is no dumb buffer.
func (c *card) dumbError(exporter string, fd int, err error, size uint64) error {
	e := &Error{Op: "MODE_CREATE_DUMB", Exporter: exporter, Err: err}
	switch err {
	case syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL:
		e.Detail = fmt.Sprintf("the driver %s has no dumb buffers, or none of %d bytes", drmDriver(fd), size)
	case syscall.ENOMEM, syscall.ENOSPC:
		e.Detail = fmt.Sprintf("the card has no memory for %d bytes", size)
	case syscall.EACCES:
		e.Detail = "the card lets only those who show something do this; vgem does not ask"
	}
	return e
}

func (c *card) Adopt(address, size uint64) (Memory, error) { return nil, unaddressed(c.Name()) }

// vgem is the card of the driver vgem, which has no hardware.
type vgem struct{ root string }

func (v *vgem) Name() string     { return "vgem" }
func (v *vgem) Describe() string { return "host memory of the virtual graphics driver vgem" }

// card finds vgem's among all cards. One that cannot be opened could be it.
func (v *vgem) card() (*card, error) {
	names, err := cards(v.root)
	if err != nil {
		return nil, &Error{Op: "open /" + drmFolder, Exporter: v.Name(), Err: err, Detail: fdDetail(err)}
	}
	var closed error
	for _, name := range names {
		c := &card{v.root, name}
		fd, err := c.open(v.Name())
		if err != nil {
			closed = err
			continue
		}
		driver := drmDriver(fd)
		unix.Close(fd)
		if driver == "vgem" {
			return c, nil
		}
	}
	if closed != nil {
		return nil, closed
	}
	return nil, &Error{Op: "open", Exporter: v.Name(), Err: ErrNoDevice, Detail: vgemMissing}
}

func (v *vgem) Available() error {
	c, err := v.card()
	if err != nil {
		return err
	}
	return c.available(v.Name())
}

func (v *vgem) Allocate(size uint64) (Memory, error) {
	c, err := v.card()
	if err != nil {
		return nil, err
	}
	return c.allocate(v.Name(), size)
}

func (v *vgem) Adopt(address, size uint64) (Memory, error) { return nil, unaddressed(v.Name()) }
