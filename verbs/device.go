package verbs

/*
#include "shim.h"

static struct ibv_device **vb_devices(int *n) { errno = 0; return vb.ibv_get_device_list(n); }
static struct ibv_device *vb_device_at(struct ibv_device **list, int i) { return list[i]; }
static void vb_free_devices(struct ibv_device **list) { vb.ibv_free_device_list(list); }
static uint64_t vb_guid(struct ibv_device *d) { return vb.ibv_get_device_guid(d); }
static int vb_index(struct ibv_device *d) { return vb.ibv_get_device_index ? vb.ibv_get_device_index(d) : -1; }
static struct ibv_context *vb_open(struct ibv_device *d) { errno = 0; return vb.ibv_open_device(d); }
static int vb_close(struct ibv_context *c) { errno = 0; return vb_rc(vb.ibv_close_device(c)); }
static int vb_fork_init(void) { return vb_rc(vb.ibv_fork_init()); }
static int vb_fork_state(void)
{
	return vb.ibv_is_fork_initialized ? (int)vb.ibv_is_fork_initialized() : -1;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NodeType is what a device is in its fabric (enum ibv_node_type).
type NodeType int

const (
	NodeUnknown     NodeType = -1
	NodeCA          NodeType = 1
	NodeSwitch      NodeType = 2
	NodeRouter      NodeType = 3
	NodeRNIC        NodeType = 4
	NodeUSNIC       NodeType = 5
	NodeUSNICUDP    NodeType = 6
	NodeUnspecified NodeType = 7
)

func (t NodeType) String() string {
	switch t {
	case NodeCA:
		return "InfiniBand channel adapter"
	case NodeSwitch:
		return "InfiniBand switch"
	case NodeRouter:
		return "InfiniBand router"
	case NodeRNIC:
		return "iWARP NIC"
	case NodeUSNIC:
		return "usNIC"
	case NodeUSNICUDP:
		return "usNIC UDP"
	case NodeUnspecified:
		return "unspecified"
	}
	return "unknown"
}

// Transport is the protocol family a device speaks (enum ibv_transport_type).
// RoCE devices say InfiniBand: their ports' link layer tells them apart.
type Transport int

const (
	TransportUnknown     Transport = -1
	TransportIB          Transport = 0
	TransportIWARP       Transport = 1
	TransportUSNIC       Transport = 2
	TransportUSNICUDP    Transport = 3
	TransportUnspecified Transport = 4
)

func (t Transport) String() string {
	switch t {
	case TransportIB:
		return "InfiniBand"
	case TransportIWARP:
		return "iWARP"
	case TransportUSNIC:
		return "usNIC"
	case TransportUSNICUDP:
		return "usNIC UDP"
	case TransportUnspecified:
		return "unspecified"
	}
	return "unknown"
}

// GUID is a 64-bit identifier in the byte order it is printed in.
type GUID [8]byte

func (g GUID) String() string {
	return fmt.Sprintf("%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7])
}

// MarshalText prints the GUID as String does.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// DeviceInfo is what the library tells of a device that is not open.
type DeviceInfo struct {
	Name      string    // "rxe0"
	Index     int       // the kernel's index as in netlink, -1 where the library does not tell
	GUID      GUID      // node GUID
	NodeType  NodeType  //
	Transport Transport //
	CharDev   string    // "/dev/infiniband/uverbs0"
	Sysfs     string    // "/sys/class/infiniband/rxe0"
}

// Devices lists the RDMA devices of this machine. It is ErrNoDevice that there
// are none, or that the kernel or rdma-core lacks what it takes.
func Devices() ([]DeviceInfo, error) {
	var infos []DeviceInfo
	err := eachDevice(func(d *C.struct_ibv_device) bool {
		infos = append(infos, deviceInfo(d))
		return true
	})
	if err == nil && len(infos) == 0 {
		err = noDevices()
	}
	return infos, err
}

// eachDevice calls f with every device until it answers false; the device is
// only valid inside f.
func eachDevice(f func(*C.struct_ibv_device) bool) error {
	if _, err := library(); err != nil {
		return err
	}
	var n C.int
	list, errno := C.vb_devices(&n)
	if list == nil {
		if errors.Is(errno, syscall.ENOSYS) || errors.Is(errno, syscall.ENOENT) {
			return noDevices()
		}
		return failed("ibv_get_device_list", "", errno, "")
	}
	defer C.vb_free_devices(list)
	for i := C.int(0); i < n; i++ {
		if !f(C.vb_device_at(list, i)) {
			break
		}
	}
	return nil
}

func noDevices() error {
	detail := "no RDMA device on this machine; load its driver, or make one with: rdma link add rxe0 type rxe netdev DEV"
	if _, err := os.Stat("/sys/class/infiniband_verbs"); err != nil {
		detail = "the kernel's ib_uverbs is not there; load it with: modprobe ib_uverbs"
	}
	return &Error{Verb: "ibv_get_device_list", Err: ErrNoDevice, Detail: detail}
}

func deviceInfo(d *C.struct_ibv_device) DeviceInfo {
	info := DeviceInfo{
		Name:      C.GoString(&d.name[0]),
		Index:     int(C.vb_index(d)),
		NodeType:  NodeType(d.node_type),
		Transport: Transport(d.transport_type),
		CharDev:   "/dev/infiniband/" + C.GoString(&d.dev_name[0]),
		Sysfs:     C.GoString(&d.ibdev_path[0]),
	}
	guid := C.vb_guid(d)
	info.GUID = *(*GUID)(unsafe.Pointer(&guid))
	return info
}

// Device is an open RDMA device (struct ibv_context). Its methods may be
// called from several goroutines; Close refuses while objects stand on it.
type Device struct {
	object
	ctx    *C.struct_ibv_context
	info   DeviceInfo
	events *eventFile // async events; made by the first NextEvent
}

// Open opens a device by its name. An empty name means the machine's only
// device, and is an error when there are several.
func Open(name string) (*Device, error) {
	var (
		dev   *Device
		first error
		all   []string
	)
	err := eachDevice(func(d *C.struct_ibv_device) bool {
		info := deviceInfo(d)
		all = append(all, info.Name)
		if name != "" && info.Name != name || name == "" && len(all) > 1 {
			return true
		}
		dev, first = openDevice(d, info)
		return name == ""
	})
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, noDevices()
	case name == "" && len(all) > 1:
		if dev != nil {
			dev.Close()
		}
		return nil, &Error{Verb: "ibv_open_device", Err: syscall.EINVAL,
			Detail: "several devices, name one of them: " + strings.Join(all, ", ")}
	case dev == nil && first == nil:
		return nil, &Error{Verb: "ibv_open_device", Object: name, Err: ErrNoDevice,
			Detail: "there is " + strings.Join(all, ", ")}
	}
	return dev, first
}

func openDevice(d *C.struct_ibv_device, info DeviceInfo) (*Device, error) {
	dev := &Device{info: info}
	if err := dev.attach("ibv_open_device", "device "+info.Name); err != nil {
		return nil, err
	}
	ctx, errno := C.vb_open(d)
	if ctx == nil {
		dev.detach()
		detail := ""
		// libibverbs looks for the node elsewhere when it may not open this
		// one, and then reports that there is none.
		if denied := unix.Access(info.CharDev, unix.R_OK|unix.W_OK); errors.Is(denied, ErrPermission) {
			errno = denied
		}
		if errors.Is(errno, ErrPermission) {
			detail = "no access to " + info.CharDev + "; check its mode and group"
		}
		return nil, failed("ibv_open_device", info.Name, errno, detail)
	}
	dev.ctx = ctx
	return dev, nil
}

// Name is the device's name at the time it was opened.
func (d *Device) Name() string { return d.info.Name }

// Info is what Devices tells of this device.
func (d *Device) Info() DeviceInfo { return d.info }

// Transport is the protocol family the device speaks.
func (d *Device) Transport() Transport { return d.info.Transport }

// Vectors is the number of completion vectors (interrupts) queues can use.
func (d *Device) Vectors() int { return int(d.ctx.num_comp_vectors) }

// Handle is the struct ibv_context, for C code that lives beside this package.
// It is nil once the device is closed.
func (d *Device) Handle() unsafe.Pointer { return unsafe.Pointer(d.ctx) }

// Close closes the device. It is ErrBusy while objects stand on it.
func (d *Device) Close() error {
	return d.close("ibv_close_device", func() error {
		if err := d.events.close(); err != nil {
			return err
		}
		if err := code("ibv_close_device", d.info.Name, int(C.vb_close(d.ctx)), ""); err != nil {
			return err
		}
		d.ctx = nil
		return nil
	})
}

// ForkInit makes registered memory safe across fork on kernels that need it
// (before 5.12; newer ones copy it at once). Call it before the first Open.
func ForkInit() error {
	if _, err := library(); err != nil {
		return err
	}
	return code("ibv_fork_init", "", int(C.vb_fork_init()), "must come before the first registration")
}

// ForkState is what the library says of fork (enum ibv_fork_status).
type ForkState int

const (
	ForkDisabled ForkState = 0
	ForkEnabled  ForkState = 1
	ForkUnneeded ForkState = 2 // the kernel copies pinned pages on fork
)

// ForkStatus tells whether registered memory survives a fork.
func ForkStatus() (ForkState, error) {
	if _, err := library(); err != nil {
		return 0, err
	}
	s := C.vb_fork_state()
	if s < 0 {
		return 0, unsupported("ibv_is_fork_initialized", "")
	}
	return ForkState(s), nil
}
