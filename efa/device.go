package efa

import (
	"fmt"
	"sync"
)

// Path is how an endpoint's requests reach the device.
type Path struct {
	Direct bool
	Reason string // why not direct
}

func (p Path) String() string {
	if p.Direct {
		return "direct"
	}
	return "ibv_wr: " + p.Reason
}

// Caps are what a device can do beyond SEND and RECV (efadv.h of rdma-core 65).
type Caps uint32

const (
	CapRead             Caps = 1 << 0
	CapRNRRetry         Caps = 1 << 1
	CapCQWithSGID       Caps = 1 << 2 // CQOptions.SGID
	CapWrite            Caps = 1 << 3
	CapUnsolicitedWrite Caps = 1 << 4 // SRDOptions.Unsolicited
	CapCQWithDMABuf     Caps = 1 << 5 // CQOptions.Memory
	CapCounters         Caps = 1 << 6 // CreateCounter
)

func (c Caps) String() string {
	return bitNames(uint64(c), "RDMA_READ", "RNR_RETRY", "CQ_WITH_SGID", "RDMA_WRITE", "UNSOLICITED_WRITE_RECV", "CQ_WITH_EXT_MEM_DMABUF", "COMP_CNTR")
}

// Attr is what a device tells of itself (struct efadv_device_attr, and the
// common attributes that EFA uses). What the library is too old to tell is 0.
type Attr struct {
	GID         GID    // of port 1, index 0; the only one a device has
	MTU         int    // bytes of the longest SEND
	Part        int    // PCI device id, 0xefa0 to 0xefa4; 0 of an embedded device
	Firmware    string // as the device spells it
	MaxSend     int    // requests in a send queue of 64-byte entries
	MaxRecv     int    // buffers in a receive queue
	MaxSendSGE  int    // buffers of a SEND
	MaxRecvSGE  int    // buffers of a receive
	MaxRDMASGE  int    // buffers of a READ or WRITE
	MaxInline   int    // bytes in a 64-byte entry
	MaxInlineEx int    // bytes in a 128-byte entry
	MaxRDMA     uint32 // bytes of a READ or WRITE
	Caps        Caps
	MaxCQ       int
	MaxCQDepth  int // completions in one queue
	MaxQP       int
	MaxMR       int
	MaxMRSize   uint64
	MaxPD       int
	MaxAH       int
	Vectors     int // completion vectors
}

// Device is an open EFA device. Its methods may be called from several
// goroutines; Close refuses while objects stand on it.
type Device struct {
	object
	ctl   control
	dev   string
	a     Attr
	defMu sync.Mutex // guards def
	def   *PD        // made when first needed
}

func newDevice(name string, ctl control) (*Device, error) {
	a, err := ctl.attr()
	if err != nil {
		ctl.close()
		return nil, err
	}
	d := &Device{ctl: ctl, dev: name, a: a}
	if err := d.attach("open", "device "+name); err != nil {
		ctl.close()
		return nil, err
	}
	return d, nil
}

// Name is the device's name: the kernel's, or the one it was made with.
func (d *Device) Name() string { return d.dev }

// Attr is what the device told when it was opened.
func (d *Device) Attr() Attr { return d.a }

// Path tells how endpoints of the device will be driven.
func (d *Device) Path() Path { return d.ctl.path() }

// PD gives the device's own protection domain, for programs that need but one.
// It is closed with the device.
func (d *Device) PD() (*PD, error) {
	d.defMu.Lock()
	defer d.defMu.Unlock()
	if d.def == nil {
		pd, err := d.AllocPD()
		if err != nil {
			return nil, err
		}
		d.def = pd
	}
	return d.def, nil
}

// Register registers memory in the device's own domain; see [PD.Register].
func (d *Device) Register(mem []byte, access Access) (*MR, error) {
	pd, err := d.PD()
	if err != nil {
		return nil, err
	}
	return pd.Register(mem, access)
}

// RegisterDMABuf registers a dma-buf in the device's own domain; see
// [PD.RegisterDMABuf].
func (d *Device) RegisterDMABuf(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	pd, err := d.PD()
	if err != nil {
		return nil, err
	}
	return pd.RegisterDMABuf(fd, offset, length, iova, access)
}

// CreateAH makes an address handle in the device's own domain; see [PD.CreateAH].
func (d *Device) CreateAH(gid GID) (*AH, error) {
	pd, err := d.PD()
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(gid)
}

// MaxSendDepth is the number of requests that a send queue may hold with so
// many inline bytes a request; inlineWrite asks for [SRDOptions].InlineWrite
// (efadv_get_max_sq_depth). Entries of 128 bytes halve it.
func (d *Device) MaxSendDepth(inline int, inlineWrite bool) int {
	if entrySize(inline, inlineWrite) == 128 {
		return d.a.MaxSend / 2
	}
	return d.a.MaxSend
}

// MaxRecvDepth is the number of receives of so many buffers that a receive queue
// may hold (efadv_get_max_rq_depth).
func (d *Device) MaxRecvDepth(buffers int) int { return d.a.MaxRecv / max(buffers, 1) }

// entrySize is the size of a send queue's entries, in bytes.
func entrySize(inline int, inlineWrite bool) int {
	if inline > 32 || inlineWrite {
		return 128
	}
	return 64
}

func (d *Device) describe(what string) string { return d.dev + " " + what }

// Close closes the device. It is ErrBusy while objects stand on it.
func (d *Device) Close() error {
	d.defMu.Lock()
	defer d.defMu.Unlock()
	if d.def != nil {
		if err := d.def.Close(); err != nil {
			return fmt.Errorf("device %s: %w", d.dev, err)
		}
		d.def = nil
	}
	return d.close("close", d.ctl.close)
}

// OpenOptions say how a device of the machine is driven.
type OpenOptions struct {
	// Library leaves the rings to libibverbs, though this package could drive
	// them.
	Library bool
}
