package verbs

/*
#include "shim.h"

static int vb_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, uint32_t *speed)
{
	struct verbs_context *v = verbs_get_ctx_op(c, query_port);
	union vb_port_attr x;
	int rc;

	memset(&x, 0, sizeof(x));
	errno = 0;
	if (v)
		rc = vb_rc(v->query_port(c, port, &x.attr, sizeof(x)));
	else
		rc = vb_rc((vb.ibv_query_port)(c, port, (struct _compat_ibv_port_attr *)&x));
	*a = x.attr;
	*speed = x.tail.active_speed_ex ? x.tail.active_speed_ex : x.attr.active_speed;
	return rc;
}

static int vb_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	errno = 0;
	return vb_rc(vb.ibv_query_gid(c, port, index, gid));
}

static int vb_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *e)
{
	if (!vb._ibv_query_gid_ex)
		return EOPNOTSUPP;
	return vb_rc(vb._ibv_query_gid_ex(c, port, index, e, 0, sizeof(*e)));
}
*/
import "C"

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// PortState is a port's logical state (enum ibv_port_state).
type PortState uint8

const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

func (s PortState) String() string {
	names := [...]string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// LinkLayer is what a port is wired with (IBV_LINK_LAYER_*).
type LinkLayer uint8

const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

func (l LinkLayer) String() string {
	switch l {
	case LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return "unspecified"
}

// MTU is a path MTU as the verbs encode it (enum ibv_mtu); zero is unset.
type MTU uint8

// Path MTUs.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes is the payload of one packet, 0 for an unknown encoding.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// MTUOf gives the encoding of a payload size in bytes.
func MTUOf(bytes int) (MTU, bool) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == bytes {
			return m, true
		}
	}
	return 0, false
}

// PortAttr is a port's state and limits (struct ibv_port_attr).
type PortAttr struct {
	State         PortState
	MaxMTU        MTU
	ActiveMTU     MTU
	GIDTableLen   int
	CapFlags      uint32 // enum ibv_port_cap_flags
	CapFlags2     uint16 // enum ibv_port_cap_flags2
	MaxMsgSize    uint32 // bytes
	BadPKeyCount  uint32
	QKeyViolCount uint32
	PKeyTableLen  int
	LID           uint16
	SMLID         uint16
	LMC           uint8
	MaxVLNum      uint8
	SMSL          uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8  // bits: 1 1x, 2 4x, 4 8x, 8 12x, 16 2x
	ActiveSpeed   uint32 // as the kernel encodes it; see Speed
	PhysState     uint8
	LinkLayer     LinkLayer
	Flags         uint8
}

// Port queries a port; ports are numbered from 1.
func (d *Device) Port(port int) (PortAttr, error) {
	if d.ctx == nil {
		return PortAttr{}, &Error{Verb: "ibv_query_port", Object: d.info.Name, Err: ErrClosed}
	}
	if port < 1 || port > 255 {
		return PortAttr{}, d.badPort(port)
	}
	var (
		a     C.struct_ibv_port_attr
		speed C.uint32_t
	)
	if rc := C.vb_query_port(d.ctx, C.uint8_t(port), &a, &speed); rc != 0 {
		if syscall.Errno(rc) == syscall.EINVAL || syscall.Errno(rc) == syscall.ENODEV {
			return PortAttr{}, d.badPort(port)
		}
		return PortAttr{}, code("ibv_query_port", fmt.Sprintf("%s port %d", d.info.Name, port), int(rc), "")
	}
	return PortAttr{
		State:         PortState(a.state),
		MaxMTU:        MTU(a.max_mtu),
		ActiveMTU:     MTU(a.active_mtu),
		GIDTableLen:   int(a.gid_tbl_len),
		CapFlags:      uint32(a.port_cap_flags),
		CapFlags2:     uint16(a.port_cap_flags2),
		MaxMsgSize:    uint32(a.max_msg_sz),
		BadPKeyCount:  uint32(a.bad_pkey_cntr),
		QKeyViolCount: uint32(a.qkey_viol_cntr),
		PKeyTableLen:  int(a.pkey_tbl_len),
		LID:           uint16(a.lid),
		SMLID:         uint16(a.sm_lid),
		LMC:           uint8(a.lmc),
		MaxVLNum:      uint8(a.max_vl_num),
		SMSL:          uint8(a.sm_sl),
		SubnetTimeout: uint8(a.subnet_timeout),
		InitTypeReply: uint8(a.init_type_reply),
		ActiveWidth:   uint8(a.active_width),
		ActiveSpeed:   uint32(speed),
		PhysState:     uint8(a.phys_state),
		LinkLayer:     LinkLayer(a.link_layer),
		Flags:         uint8(a.flags),
	}, nil
}

func (d *Device) badPort(port int) error {
	return &Error{Verb: "ibv_query_port", Object: fmt.Sprintf("%s port %d", d.info.Name, port), Err: syscall.EINVAL,
		Detail: "the device has no such port; ports are numbered from 1"}
}

// GIDAt reads one entry of a port's GID table.
func (d *Device) GIDAt(port, index int) (GIDEntry, error) {
	object := fmt.Sprintf("%s port %d GID index %d", d.info.Name, port, index)
	if d.ctx == nil {
		return GIDEntry{}, &Error{Verb: "ibv_query_gid", Object: object, Err: ErrClosed}
	}
	attr, err := d.Port(port)
	if err != nil {
		return GIDEntry{}, err
	}
	if index < 0 || index >= attr.GIDTableLen {
		return GIDEntry{}, &Error{Verb: "ibv_query_gid", Object: object, Err: syscall.EINVAL,
			Detail: fmt.Sprintf("the table has %d entries, from 0", attr.GIDTableLen)}
	}
	return d.gidAt(port, index, object, attr.LinkLayer)
}

func (d *Device) gidAt(port, index int, object string, link LinkLayer) (GIDEntry, error) {
	empty := &Error{Verb: "ibv_query_gid", Object: object, Err: errEmptyGID,
		Detail: "give the interface an address, or choose another index"}
	var e C.struct_ibv_gid_entry
	rc := C.vb_query_gid_ex(d.ctx, C.uint32_t(port), C.uint32_t(index), &e)
	switch syscall.Errno(rc) {
	case 0:
		out := GIDEntry{Port: port, Index: index, Type: GIDType(e.gid_type), IfIndex: int(e.ndev_ifindex)}
		out.GID = *(*GID)(unsafe.Pointer(&e.gid))
		if out.GID.IsZero() {
			return out, empty
		}
		return out, nil
	case syscall.ENODATA:
		return GIDEntry{}, empty
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPROTONOSUPPORT:
	default:
		return GIDEntry{}, code("ibv_query_gid_ex", object, int(rc), "")
	}
	// Older library, or a driver without the extended query: the GID alone
	// comes from the library, type and interface from sysfs.
	var raw C.union_ibv_gid
	if rc := C.vb_query_gid(d.ctx, C.uint8_t(port), C.int(index), &raw); rc != 0 {
		return GIDEntry{}, code("ibv_query_gid", object, int(rc), "")
	}
	out := GIDEntry{Port: port, Index: index, GID: *(*GID)(unsafe.Pointer(&raw))}
	if out.GID.IsZero() {
		return out, empty
	}
	attrs := fmt.Sprintf("%s/ports/%d/gid_attrs", d.info.Sysfs, port)
	if b, err := os.ReadFile(fmt.Sprintf("%s/types/%d", attrs, index)); err == nil {
		switch strings.TrimSpace(string(b)) {
		case "RoCE v2":
			out.Type = GIDTypeRoCEv2
		case "IB/RoCE v1":
			if link == LinkEthernet {
				out.Type = GIDTypeRoCEv1
			}
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("%s/ndevs/%d", attrs, index)); err == nil {
		if ifi, err := net.InterfaceByName(strings.TrimSpace(string(b))); err == nil {
			out.IfIndex = ifi.Index
		}
	}
	return out, nil
}

// GIDs lists the used entries of a port's GID table.
func (d *Device) GIDs(port int) ([]GIDEntry, error) {
	attr, err := d.Port(port)
	if err != nil {
		return nil, err
	}
	var out []GIDEntry
	for i := range attr.GIDTableLen {
		e, err := d.gidAt(port, i, fmt.Sprintf("%s port %d GID index %d", d.info.Name, port, i), attr.LinkLayer)
		if errors.Is(err, errEmptyGID) {
			continue
		}
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

// BestGID chooses the entry of a port's GID table that a routable connection
// wants, see BestGIDOf.
func (d *Device) BestGID(port int) (GIDEntry, error) {
	entries, err := d.GIDs(port)
	if err != nil {
		return GIDEntry{}, err
	}
	best, ok := BestGIDOf(entries)
	if !ok {
		return GIDEntry{}, &Error{Verb: "ibv_query_gid", Object: fmt.Sprintf("%s port %d", d.info.Name, port),
			Err: ErrNoDevice, Detail: "the GID table is empty; give the interface an address and bring it up"}
	}
	return best, nil
}
