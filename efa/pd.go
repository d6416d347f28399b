package efa

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// PD is a protection domain: regions, address handles and endpoints work
// together only inside one.
type PD struct {
	object
	dev *Device
	ctl domain
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	if err := pd.attach("alloc pd", "pd", &d.object); err != nil {
		return nil, err
	}
	var err error
	if pd.ctl, err = d.ctl.allocPD(); err != nil {
		pd.detach()
		return nil, err
	}
	return pd, nil
}

// Device is the device the domain belongs to.
func (pd *PD) Device() *Device { return pd.dev }

// Close frees the domain. It is ErrBusy while objects stand on it.
func (pd *PD) Close() error { return pd.close("dealloc pd", pd.ctl.close) }

// MR is a memory region: memory that the device may reach, with its keys.
type MR struct {
	object
	pd     *PD
	ctl    region
	iova   uint64
	length uint64
	lkey   uint32
	rkey   uint32
	access Access
	mem    []byte // keeps the memory reachable
	gone   atomic.Bool
}

// Register registers memory under its own address. A device of the kernel takes
// mapped or C memory only; the embedded one any that does not move, and so no
// variable of a stack. The region keeps the slice reachable.
func (pd *PD) Register(mem []byte, access Access) (*MR, error) {
	iova := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	return pd.register(uint64(len(mem)), iova, access, mem, func() (region, error) {
		return pd.ctl.register(mem, iova, access)
	})
}

// RegisterAt registers memory under an address of the caller's choice, from
// which requests and peers count. Its offset in a page is the memory's.
func (pd *PD) RegisterAt(mem []byte, iova uint64, access Access) (*MR, error) {
	return pd.register(uint64(len(mem)), iova, access, mem, func() (region, error) {
		return pd.ctl.register(mem, iova, access)
	})
}

// RegisterDMABuf registers length bytes at offset of the dma-buf fd, under the
// address iova. The descriptor may be closed afterwards: the region holds the
// buffer. The embedded device maps it into this process; it is ErrUnsupported
// where the exporter does not let it.
func (pd *PD) RegisterDMABuf(fd int, offset, length, iova uint64, access Access) (*MR, error) {
	return pd.register(length, iova, access, nil, func() (region, error) {
		return pd.ctl.registerDMABuf(fd, offset, length, iova, access)
	})
}

func (pd *PD) register(length, iova uint64, access Access, mem []byte, make func() (region, error)) (*MR, error) {
	if length == 0 {
		return nil, &Error{Op: "register", Object: pd.dev.dev, Err: syscall.EINVAL, Detail: "a region must have at least one byte"}
	}
	mr := &MR{pd: pd, iova: iova, length: length, access: access, mem: mem}
	if err := mr.attach("register", "mr", &pd.object); err != nil {
		return nil, err
	}
	var err error
	if mr.ctl, err = make(); err != nil {
		mr.detach()
		return nil, err
	}
	mr.lkey, mr.rkey = mr.ctl.keys()
	mr.rename("lkey %#x", mr.lkey)
	return mr, nil
}

// LKey names the region in this side's work requests, 24 bits.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey names the region in the peer's work requests.
func (m *MR) RKey() uint32 { return m.rkey }

// Length is the region's size in bytes.
func (m *MR) Length() uint64 { return m.length }

// IOVA is the address of the region's first byte in work requests.
func (m *MR) IOVA() uint64 { return m.iova }

// Access is what the region was registered for.
func (m *MR) Access() Access { return m.access }

// At is the slice of length bytes from offset on. A slice outside the region,
// or of a closed one, makes the request that uses it fail with ErrRange.
func (m *MR) At(offset uint64, length uint32) Slice {
	s := Slice{Addr: m.iova + offset, Length: length, LKey: m.lkey}
	if offset > m.length || uint64(length) > m.length-offset || m.gone.Load() {
		s.LKey |= badKey
	}
	return s
}

// Remote describes the region to a peer.
func (m *MR) Remote() RemoteRegion {
	return RemoteRegion{Addr: m.iova, Length: m.length, RKey: m.rkey}
}

// Interconnects tell over which of the host's interconnects the device reaches
// a region, for each kind of traffic (efadv_query_mr). The numbers only serve to
// be compared; Valid says which are known.
type Interconnects struct {
	Valid    InterconnectUse
	Recv     uint16 // messages that are received
	RDMARead uint16 // what this side's reads bring
	RDMARecv uint16 // what peers write
}

// InterconnectUse is a kind of traffic (EFADV_MR_ATTR_VALIDITY_* of efadv.h).
type InterconnectUse uint16

const (
	InterconnectRecv     InterconnectUse = 1 << 0
	InterconnectRDMARead InterconnectUse = 1 << 1
	InterconnectRDMARecv InterconnectUse = 1 << 2
)

// Interconnects asks over which interconnects the region is reached.
func (m *MR) Interconnects() (Interconnects, error) {
	m.life.Lock()
	defer m.life.Unlock()
	if m.life.Closed() {
		return Interconnects{}, &Error{Op: "efadv_query_mr", Object: m.name(), Err: ErrClosed}
	}
	return m.ctl.interconnects()
}

// Close deregisters the memory. What peers or this side still had in flight
// there fails.
func (m *MR) Close() error {
	return m.close("deregister", func() error {
		if err := m.ctl.close(); err != nil {
			return err
		}
		m.gone.Store(true)
		runtime.KeepAlive(m.mem)
		m.mem = nil
		return nil
	})
}

// AH is an address handle: the way to a peer's device. A device needs one of
// everyone it sends to, and of everyone who writes or reads its memory.
type AH struct {
	object
	pd  *PD
	ctl handle
	gid GID
	// word is the handle's number where work entries have it, bits 47:32 of
	// their second word, or closedAH.
	word atomic.Uint64
}

const closedAH = 1 << 63

// CreateAH makes an address handle of the device with that GID.
func (pd *PD) CreateAH(gid GID) (*AH, error) {
	ah := &AH{pd: pd, gid: gid}
	if err := ah.attach("create ah", "ah", &pd.object); err != nil {
		return nil, err
	}
	var err error
	if ah.ctl, err = pd.ctl.createAH(gid); err != nil {
		ah.detach()
		return nil, err
	}
	ah.word.Store(uint64(ah.ctl.number()) << 32)
	ah.rename("%d of %v", ah.ctl.number(), gid)
	return ah, nil
}

// Number is the handle's number on the device (efadv_query_ah), which
// completions of receives carry.
func (a *AH) Number() uint16 { return uint16(a.word.Load() >> 32) }

// GID is the peer's.
func (a *AH) GID() GID { return a.gid }

// Close destroys the handle. Requests that use it should have completed: those
// in flight may fail as StatusInvalidAH, and new ones are refused.
func (a *AH) Close() error {
	return a.close("destroy ah", func() error {
		number := a.word.Load()
		a.word.Store(number | closedAH)
		if err := a.ctl.close(); err != nil {
			a.word.Store(number)
			return err
		}
		return nil
	})
}

// Dest is a peer's endpoint, as requests name it.
type Dest struct {
	ah   *AH
	qpn  uint64 // bits 47:32 of an entry's first word
	qkey uint64
}

// To names the endpoint qpn at the handle's device.
func (a *AH) To(qpn uint16, qkey uint32) *Dest {
	return &Dest{ah: a, qpn: uint64(qpn) << 32, qkey: uint64(qkey)}
}

// AH is the handle of the destination's device.
func (d *Dest) AH() *AH { return d.ah }

// QPN is the destination's queue pair.
func (d *Dest) QPN() uint16 { return uint16(d.qpn >> 32) }

// QKey is the key that the destination takes messages by.
func (d *Dest) QKey() uint32 { return uint32(d.qkey) }

// Address is what a peer must know of an endpoint to send to it.
type Address struct {
	GID  GID    `json:"gid"`
	QPN  uint16 `json:"qpn"`
	QKey uint32 `json:"qkey"`
}

func (a Address) String() string { return fmt.Sprintf("%v qp %d", a.GID, a.QPN) }
