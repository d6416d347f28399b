package efa

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// Embedded makes a device in this process, joined to the fabric, and opens it;
// it takes no privilege and no kernel. Closing the Device ends it. The zero
// options are a good device; if Interrupt is set it is called as well.
func Embedded(fabric *device.Fabric, o device.Options) (*Device, error) {
	e := &embedded{}
	interrupt, event := o.Interrupt, o.Event
	o.Interrupt = func(vector int) {
		e.events.interrupt()
		if interrupt != nil {
			interrupt(vector)
		}
	}
	o.Event = func(ev device.Event) {
		if ev.Kind == device.EventReset {
			e.resets.Add(1)
		}
		if event != nil {
			event(ev)
		}
	}
	dev, err := fabric.NewDevice(o)
	if err != nil {
		return nil, e.failed("open", o.Name, err)
	}
	e.dev = dev
	if e.uar, err = dev.AllocUAR(); err != nil {
		dev.Close()
		return nil, e.failed("open", dev.Name(), err)
	}
	return newDevice(dev.Name(), e)
}

// Device is the device itself of an embedded one, to inject faults into, and nil
// of a kernel's.
func (d *Device) Device() *device.Device {
	if e, ok := d.ctl.(*embedded); ok {
		return e.dev
	}
	return nil
}

// embedded is a device in this process. Its rings are memory of the Go heap: it
// does not move, the device keeps it, and the race detector sees who reads and
// writes it.
type embedded struct {
	dev    *device.Device
	uar    uint16
	events eventQueue
	resets atomic.Uint32
}

// birth is what an object remembers of its device: a reset takes all objects with
// it, and their numbers may be others' since.
type birth struct {
	e    *embedded
	born uint32
}

func (e *embedded) born() birth { return birth{e, e.resets.Load()} }

// end destroys an object, unless it went with its device.
func (l birth) end(op string, destroy func() error) error {
	if l.e.resets.Load() != l.born {
		return nil
	}
	if err := destroy(); err != nil && !errors.Is(err, device.ErrClosed) {
		return l.e.failed(op, l.e.dev.Name(), err)
	}
	return nil
}

func (e *embedded) failed(op, object string, err error) error {
	class := error(syscall.EINVAL)
	var status *device.StatusError
	switch {
	case errors.Is(err, device.ErrClosed):
		class = ErrClosed
	case !errors.As(err, &status):
		return failed(op, object, err, "")
	case status.Status == wire.AdminUnsupportedOpcode:
		class = ErrUnsupported
	case status.Status == wire.AdminResourceBusy:
		class = ErrBusy
	case status.Status == wire.AdminResourceAllocationFailure:
		class = syscall.ENOMEM
	}
	return failed(op, object, class, err.Error())
}

func (e *embedded) attr() (Attr, error) {
	a := e.dev.Attr()
	q := a.Queue1
	out := Attr{
		GID: GID(e.dev.GID()), MTU: int(a.Network.MTU), Firmware: fmt.Sprint(a.Device.FWVersion),
		MaxSend: int(q.MaxLLQSize) / 64, MaxRecv: int(q.MaxRQDepth),
		MaxSendSGE: int(q.MaxSendSGEs), MaxRecvSGE: int(q.MaxRecvSGEs), MaxRDMASGE: int(q.MaxRDMASGEs),
		MaxInline: int(q.InlineBufSize), MaxInlineEx: int(max(a.Queue2.InlineBufSizeEx, uint16(q.InlineBufSize))),
		MaxRDMA: a.Device.MaxRDMASize, Caps: CapCQWithSGID,
		MaxCQ: int(q.MaxCQ), MaxCQDepth: int(q.MaxCQDepth), MaxQP: int(q.MaxQP), MaxMR: int(q.MaxMR),
		MaxMRSize: 1 << 48, MaxPD: int(q.MaxPD), MaxAH: int(q.MaxAH), Vectors: int(a.EQ.MaxEQ),
	}
	for _, c := range []struct {
		theirs wire.DeviceCaps
		ours   Caps
	}{
		{wire.CapRDMARead, CapRead}, {wire.CapRNRRetry, CapRNRRetry}, {wire.CapRDMAWrite, CapWrite},
		{wire.CapUnsolicitedWriteRecv, CapUnsolicitedWrite}, {wire.CapEventCounters, CapCounters},
	} {
		if a.Device.Caps&c.theirs != 0 {
			out.Caps |= c.ours
		}
	}
	return out, nil
}

func (e *embedded) path() Path {
	if n := e.dev.Attr().Queue1.SubCQsPerCQ; n != 1 {
		return Path{Reason: fmt.Sprintf("the device has %d sub-CQs in each completion queue, and no library to read them", n)}
	}
	return Path{Direct: true}
}

func (e *embedded) close() error {
	err := e.dev.Close()
	e.events.close()
	return err
}

// softDomain is a protection domain.
type softDomain struct {
	birth
	pd uint16
}

func (e *embedded) allocPD() (domain, error) {
	pd, err := e.dev.AllocPD()
	if err != nil {
		return nil, e.failed("alloc pd", e.dev.Name(), err)
	}
	return &softDomain{e.born(), pd}, nil
}

func (d *softDomain) close() error {
	return d.end("dealloc pd", func() error { return d.e.dev.DeallocPD(d.pd) })
}

// softRegion is a memory region: contiguous, so that the device checks ranges
// and no pages.
type softRegion struct {
	birth
	info device.MRInfo
}

func (d *softDomain) register(mem []byte, iova uint64, access Access) (region, error) {
	info, err := d.e.dev.RegisterMR(device.MROptions{
		PD: d.pd, IOVA: iova, Length: uint64(len(mem)), Access: wire.Access(access),
		Pages: []uint64{address(unsafe.Pointer(unsafe.SliceData(mem)))}, Keep: mem,
	})
	if err != nil {
		return nil, d.e.failed("register", fmt.Sprintf("%s, %d bytes, access %v", d.e.dev.Name(), len(mem), access), err)
	}
	return &softRegion{d.birth, info}, nil
}

func address(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }

func (r *softRegion) keys() (lkey, rkey uint32) { return r.info.LKey, r.info.RKey }

func (r *softRegion) interconnects() (Interconnects, error) {
	return Interconnects{}, nil // the device reaches memory without any
}

func (r *softRegion) close() error {
	return r.end("deregister", func() error { return r.e.dev.DeregisterMR(r.info.LKey) })
}

// softHandle is an address handle.
type softHandle struct {
	birth
	pd, ah uint16
}

func (d *softDomain) createAH(gid GID) (handle, error) {
	ah, err := d.e.dev.CreateAH(d.pd, wire.GID(gid))
	if err != nil {
		return nil, d.e.failed("create ah", fmt.Sprintf("%s to %v", d.e.dev.Name(), gid), err)
	}
	return &softHandle{d.birth, d.pd, ah}, nil
}

func (h *softHandle) number() uint16 { return h.ah }

func (h *softHandle) close() error {
	return h.end("destroy ah", func() error { return h.e.dev.DestroyAH(h.pd, h.ah) })
}

// softPair is a queue pair.
type softPair struct {
	birth
	resp       wire.CreateQPResp
	send, recv wqMemory
	maxRecv    int
	noBatch
}

func (d *softDomain) createQP(o qpOptions) (queuePair, error) {
	e, a := d.e, d.e.dev.Attr()
	p := &softPair{birth: d.birth}
	p.send = wqMemory{
		entry: entrySize(o.MaxInline, o.InlineWrite), count: powerOfTwo(o.MaxSend),
		wideIDs: a.Device.Caps&wire.CapSQReqID64 != 0,
	}
	p.recv = wqMemory{entry: wire.SizeRxDesc, count: powerOfTwo(o.MaxRecv * o.MaxRecvSGE)}
	p.recv.maxBatch, p.maxRecv = p.recv.count, p.recv.count/o.MaxRecvSGE
	p.send.maxBatch = p.send.count
	if units := int(a.Queue1.MaxTxBatch); units > 0 {
		p.send.maxBatch = min(p.send.count, max(1, units*64/p.send.entry))
	}
	ring := aligned(p.recv.count*p.recv.entry, 4096)
	create := device.QPOptions{
		CreateQP: wire.CreateQP{
			PD: d.pd, Type: wire.QPTypeSRD, SendCQ: uint32(o.send.(*softCQ).resp.CQ), RecvCQ: uint32(o.recv.(*softCQ).resp.CQ),
			SQRingSize: uint32(p.send.count * p.send.entry), SQDepth: uint32(p.send.count),
			RQRingSize: uint32(len(ring)), RQDepth: uint32(p.recv.count), RQBaseAddr: address(unsafe.Pointer(&ring[0])),
			UAR: e.uar, ServiceLevel: o.ServiceLevel,
		},
		Keep: ring,
	}
	if o.ud {
		create.Type = wire.QPTypeUD
	}
	if o.Unsolicited {
		create.Flags |= wire.QPUnsolicitedWriteRecv
	}
	if p.send.wideIDs {
		create.Flags |= wire.QPSQReqID64
	}
	var err error
	if p.resp, err = e.dev.CreateQP(create); err != nil {
		return nil, e.failed("create endpoint", e.dev.Name(), err)
	}
	llq := e.dev.LLQ()[p.resp.LLQ:][:p.send.count*p.send.entry]
	p.send.ring, p.send.keep = unsafe.Pointer(&llq[0]), llq
	p.recv.ring, p.recv.keep = unsafe.Pointer(&ring[0]), ring
	p.send.bell = bell{dev: e.dev, offset: p.resp.SQDB}
	p.recv.bell = bell{dev: e.dev, offset: p.resp.RQDB}
	for _, m := range []wire.ModifyQP{
		{Mask: wire.ModifyState | wire.ModifyQKey, State: wire.QPStateInit, QKey: o.QKey},
		{Mask: wire.ModifyState, State: wire.QPStateRTR},
		{Mask: wire.ModifyState | wire.ModifySQPSN, State: wire.QPStateRTS},
	} {
		m.Handle = p.resp.Handle
		if err := e.dev.ModifyQP(m); err != nil {
			e.dev.DestroyQP(p.resp.Handle)
			return nil, e.failed("create endpoint", e.dev.Name(), err)
		}
	}
	return p, nil
}

func (p *softPair) qpn() uint16                    { return p.resp.QPNum }
func (p *softPair) rings() (send, recv *wqMemory)  { return &p.send, &p.recv }
func (p *softPair) limits() (maxSend, maxRecv int) { return p.send.count, p.maxRecv }

func (p *softPair) fail() error {
	err := p.e.dev.ModifyQP(wire.ModifyQP{Mask: wire.ModifyState, Handle: p.resp.Handle, State: wire.QPStateError})
	if err != nil {
		return p.e.failed("modify", fmt.Sprintf("%s qp %d", p.e.dev.Name(), p.resp.QPNum), err)
	}
	return nil
}

func (p *softPair) state() (State, error) {
	r, err := p.e.dev.QueryQP(p.resp.Handle)
	if err != nil {
		return StateOther, p.e.failed("query", fmt.Sprintf("%s qp %d", p.e.dev.Name(), p.resp.QPNum), err)
	}
	switch r.State {
	case wire.QPStateRTS:
		return StateReady, nil
	case wire.QPStateError:
		return StateError, nil
	}
	return StateOther, nil
}

func (p *softPair) close() error {
	return p.end("destroy endpoint", func() error { return p.e.dev.DestroyQP(p.resp.Handle) })
}

// noBatch is what a device without a library has for the library's path.
type noBatch struct{}

func (noBatch) sendBatch() libBatch     { return nil }
func (noBatch) recvBatch() libRecvBatch { return nil }
