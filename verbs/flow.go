package verbs

/*
#include "shim.h"

static struct ibv_flow *vb_create_flow(struct ibv_qp *qp, void *attr)
{
	struct verbs_context *v = VB_OP(qp->context, ibv_create_flow);

	if (!v)
		return NULL;
	errno = 0;
	return v->ibv_create_flow(qp, attr);
}

static int vb_destroy_flow(struct ibv_flow *f)
{
	struct verbs_context *v = VB_OP(f->context, ibv_destroy_flow);

	return v ? vb_rc(v->ibv_destroy_flow(f)) : EOPNOTSUPP;
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"unsafe"
)

// FlowType is what a rule steers (enum ibv_flow_attr_type).
type FlowType uint32

const (
	FlowNormal           FlowType = iota // what its specifications match
	FlowAllDefault                       // what no other rule takes
	FlowMulticastDefault                 // multicast that no other rule takes
	FlowSniffer                          // a copy of all the port's traffic
)

// FlowFlags are properties of a rule (enum ibv_flow_flags).
type FlowFlags uint32

const (
	FlowDontTrap FlowFlags = 1 << 1 // others may receive the packets too
	FlowEgress   FlowFlags = 1 << 2
)

// FlowOptions describe a steering rule.
type FlowOptions struct {
	Type     FlowType
	Priority uint16 // 0 is the highest
	Port     int    // default 1
	Flags    FlowFlags
	Specs    []FlowSpec // from the outer layer inwards, then actions
}

// FlowSpec is one layer that a rule matches, or one action. Pointers to the
// Flow types below are specs.
type FlowSpec interface {
	flowSpec() []byte
	counters() *Counters
}

type noCounters struct{}

func (noCounters) counters() *Counters { return nil }

// FlowEthernet matches an Ethernet header. A nil mask of a set field means all
// of it; unset fields match everything.
type FlowEthernet struct {
	noCounters
	Dst, Src         net.HardwareAddr
	DstMask, SrcMask net.HardwareAddr
	EtherType        uint16
	VLAN             uint16 // 802.1Q tag with its priority
	VLANMask         uint16 // 0: the VLAN is not matched
	Inner            bool
}

// FlowIPv4 matches an IPv4 header, addresses by prefix.
type FlowIPv4 struct {
	noCounters
	Src, Dst netip.Prefix
	Inner    bool
}

// FlowIPv6 matches an IPv6 header, addresses by prefix.
type FlowIPv6 struct {
	noCounters
	Src, Dst   netip.Prefix
	NextHeader uint8 // 0: not matched
	Inner      bool
}

// FlowPorts matches ports of UDP or TCP; 0 matches all.
type FlowPorts struct {
	noCounters
	TCP      bool
	Src, Dst uint16
	Inner    bool
}

// FlowTag puts a number into the packets' completions (WCFlowTag).
type FlowTag struct {
	noCounters
	Tag uint32
}

// FlowDrop drops the packets.
type FlowDrop struct{ noCounters }

// FlowCount counts the packets.
type FlowCount struct{ Set *Counters }

func (s FlowCount) counters() *Counters { return s.Set }

// Types and sizes of the specifications (enum ibv_flow_spec_type; the layouts
// are pinned in shim.c).
const (
	specEthernet = 0x20
	specIPv4     = 0x30
	specIPv6     = 0x31
	specTCP      = 0x40
	specUDP      = 0x41
	specInner    = 0x100
	specTag      = 0x1000
	specDrop     = 0x1001
	specCount    = 0x1003
)

func newSpec(kind uint32, inner bool, size int) []byte {
	b := make([]byte, size)
	if inner {
		kind |= specInner
	}
	binary.NativeEndian.PutUint32(b, kind)
	binary.NativeEndian.PutUint16(b[4:], uint16(size))
	return b
}

func (s FlowEthernet) flowSpec() []byte {
	b := newSpec(specEthernet, s.Inner, 40)
	val, mask := b[6:22], b[22:38]
	address := func(at int, addr, m net.HardwareAddr) {
		if len(addr) != 6 {
			return
		}
		copy(val[at:], addr)
		if len(m) != 6 {
			m = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		}
		copy(mask[at:], m)
	}
	address(0, s.Dst, s.DstMask)
	address(6, s.Src, s.SrcMask)
	if s.EtherType != 0 {
		binary.BigEndian.PutUint16(val[12:], s.EtherType)
		binary.BigEndian.PutUint16(mask[12:], 0xffff)
	}
	binary.BigEndian.PutUint16(val[14:], s.VLAN)
	binary.BigEndian.PutUint16(mask[14:], s.VLANMask)
	return b
}

func prefix(val, mask []byte, p netip.Prefix) {
	if !p.IsValid() {
		return
	}
	copy(val, p.Addr().AsSlice())
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
}

func (s FlowIPv4) flowSpec() []byte {
	b := newSpec(specIPv4, s.Inner, 24)
	prefix(b[8:12], b[16:20], s.Src)
	prefix(b[12:16], b[20:24], s.Dst)
	return b
}

func (s FlowIPv6) flowSpec() []byte {
	b := newSpec(specIPv6, s.Inner, 88)
	prefix(b[8:24], b[48:64], s.Src)
	prefix(b[24:40], b[64:80], s.Dst)
	if s.NextHeader != 0 {
		b[44], b[84] = s.NextHeader, 0xff
	}
	return b
}

func (s FlowPorts) flowSpec() []byte {
	kind := uint32(specUDP)
	if s.TCP {
		kind = specTCP
	}
	b := newSpec(kind, s.Inner, 16)
	port := func(at int, p uint16) {
		if p != 0 {
			binary.BigEndian.PutUint16(b[6+at:], p)
			binary.BigEndian.PutUint16(b[10+at:], 0xffff)
		}
	}
	port(0, s.Dst)
	port(2, s.Src)
	return b
}

func (s FlowTag) flowSpec() []byte {
	b := newSpec(specTag, false, 12)
	binary.NativeEndian.PutUint32(b[8:], s.Tag)
	return b
}

func (FlowDrop) flowSpec() []byte { return newSpec(specDrop, false, 8) }

func (s FlowCount) flowSpec() []byte {
	b := newSpec(specCount, false, 16)
	binary.NativeEndian.PutUint64(b[8:], uint64(uintptr(unsafe.Pointer(s.Set.c))))
	return b
}

// bytes is the struct ibv_flow_attr with its specifications behind it.
func (o *FlowOptions) bytes() []byte {
	b := make([]byte, 20)
	for _, s := range o.Specs {
		b = append(b, s.flowSpec()...)
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(o.Type))
	binary.NativeEndian.PutUint16(b[8:], uint16(len(b)))
	binary.NativeEndian.PutUint16(b[10:], o.Priority)
	b[12], b[13] = byte(len(o.Specs)), byte(o.Port)
	binary.NativeEndian.PutUint32(b[16:], uint32(o.Flags))
	return b
}

// Flow is a steering rule: packets that match it go to its queue pair.
type Flow struct {
	object
	dev  *Device
	flow *C.struct_ibv_flow
}

// CreateFlow adds a steering rule that leads to the queue pair.
func (q *QP) CreateFlow(o FlowOptions) (*Flow, error) {
	if o.Port == 0 {
		o.Port = 1
	}
	f := &Flow{dev: q.dev}
	parents := []*object{&q.object}
	for _, s := range o.Specs {
		if c := s.counters(); c != nil {
			parents = append(parents, &c.object)
		}
	}
	if err := f.attach("ibv_create_flow", "flow", parents...); err != nil {
		return nil, err
	}
	p, errno := C.vb_create_flow(q.qp, unsafe.Pointer(unsafe.SliceData(o.bytes())))
	if p == nil {
		f.detach()
		detail := ""
		switch {
		case errors.Is(errno, ErrPermission):
			detail = "steering needs CAP_NET_RAW"
		case errors.Is(errno, ErrUnsupported):
			detail = "the device has no MANAGED_FLOW_STEERING"
		}
		return nil, failed("ibv_create_flow", fmt.Sprintf("%s, %d specifications", q.describe(), len(o.Specs)), errno, detail)
	}
	f.flow = p
	f.rename("%d", uint32(p.handle))
	return f, nil
}

// Handle is the struct ibv_flow, nil once the rule is closed.
func (f *Flow) Handle() unsafe.Pointer { return unsafe.Pointer(f.flow) }

// Close removes the rule.
func (f *Flow) Close() error {
	return f.close("ibv_destroy_flow", func() error {
		if err := code("ibv_destroy_flow", f.dev.info.Name+" "+f.name(), int(C.vb_destroy_flow(f.flow)), ""); err != nil {
			return err
		}
		f.flow = nil
		return nil
	})
}

// RawPacket sends and receives whole Ethernet frames.
type RawPacket struct{ *QP }

// CreateRawPacket makes a raw packet queue pair that is ready to send; rules
// (CreateFlow) say what it receives. It takes CAP_NET_RAW.
func (pd *PD) CreateRawPacket(o QPOptions) (*RawPacket, error) {
	o.Type = TypeRawPacket
	q, err := pd.CreateQP(o)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return q.Init(0) },
		func() error { return q.Modify(QPAttr{State: StateRTR}, AttrState) },
		func() error { return q.Modify(QPAttr{State: StateRTS}, AttrState) },
	} {
		if err := step(); err != nil {
			q.Close()
			return nil, err
		}
	}
	return &RawPacket{q}, nil
}
