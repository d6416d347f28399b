package verbs

/*
#include "shim.h"

static struct ibv_ah *vb_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a) { errno = 0; return vb.ibv_create_ah(pd, a); }
static int vb_init_ah_from_wc(struct ibv_context *c, uint8_t port, void *wc, void *grh, struct ibv_ah_attr *a)
{
	memset(a, 0, sizeof(*a));
	errno = 0;
	return vb_rc(vb.ibv_init_ah_from_wc(c, port, wc, grh, a));
}

static int vb_destroy_ah(struct ibv_ah *ah) { return vb_rc(vb.ibv_destroy_ah(ah)); }
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"
)

// AH is an address handle: the way to a peer, for datagrams.
type AH struct {
	object
	pd *PD
	ah *C.struct_ibv_ah
}

// CreateAH makes an address handle for a route.
func (pd *PD) CreateAH(r Route) (*AH, error) {
	ah := &AH{pd: pd}
	if err := ah.attach("ibv_create_ah", "ah", &pd.object); err != nil {
		return nil, err
	}
	a := r.c()
	p, errno := C.vb_create_ah(pd.pd, &a)
	if p == nil {
		ah.detach()
		return nil, failed("ibv_create_ah", fmt.Sprintf("%s to %v", pd.describe(), r.DGID), errno, "the port, the GID index or the route to the peer is wrong")
	}
	ah.ah = p
	ah.rename("%d", uint32(p.handle))
	return ah, nil
}

// GRHBytes is the room that a datagram's receive needs before the data.
const GRHBytes = 40

// GRH is the global routing header before a received datagram's data, where
// its completion has WithGRH (struct ibv_grh). For RoCE v2 over IPv4 the last
// 20 of the 40 bytes are the IPv4 header instead, and the GIDs are its addresses mapped.
type GRH struct {
	TrafficClass uint8
	FlowLabel    uint32
	PayloadLen   uint16
	NextHeader   uint8
	HopLimit     uint8
	SGID, DGID   GID
	IPv4         bool
}

// ParseGRH reads the first 40 bytes of a datagram's buffer.
func ParseGRH(b []byte) (GRH, error) {
	if len(b) < GRHBytes {
		return GRH{}, fmt.Errorf("a GRH has %d bytes, not %d: %w", GRHBytes, len(b), syscall.EINVAL)
	}
	word := binary.BigEndian.Uint32(b)
	if word>>28 == 6 {
		return GRH{
			TrafficClass: uint8(word >> 20), FlowLabel: word & 0xfffff,
			PayloadLen: binary.BigEndian.Uint16(b[4:]), NextHeader: b[6], HopLimit: b[7],
			SGID: GID(b[8:24]), DGID: GID(b[24:40]),
		}, nil
	}
	ip := b[20:GRHBytes]
	if ip[0] != 0x45 {
		return GRH{}, fmt.Errorf("neither an IPv6 nor an IPv4 header: %w", syscall.EINVAL)
	}
	mapped := func(addr []byte) (g GID) {
		g[10], g[11] = 0xff, 0xff
		copy(g[12:], addr)
		return g
	}
	return GRH{
		TrafficClass: ip[1], PayloadLen: binary.BigEndian.Uint16(ip[2:]) - 20, NextHeader: ip[9], HopLimit: ip[8],
		SGID: mapped(ip[12:16]), DGID: mapped(ip[16:20]), IPv4: true,
	}, nil
}

// ReplyRoute is the way back to the sender of a datagram, found from its
// completion and, where that has WithGRH, the 40 bytes before its data.
func (d *Device) ReplyRoute(port int, c *Completion, grh []byte) (Route, error) {
	object := fmt.Sprintf("%s port %d", d.info.Name, port)
	if d.ctx == nil {
		return Route{}, &Error{Verb: "ibv_init_ah_from_wc", Object: object, Err: ErrClosed}
	}
	var header [GRHBytes]byte
	if c.Flags&WithGRH != 0 && copy(header[:], grh) < GRHBytes {
		return Route{}, &Error{Verb: "ibv_init_ah_from_wc", Object: object, Err: syscall.EINVAL,
			Detail: fmt.Sprintf("the completion has a GRH: give the %d bytes before the data", GRHBytes)}
	}
	var a C.struct_ibv_ah_attr
	if rc := C.vb_init_ah_from_wc(d.ctx, C.uint8_t(port), unsafe.Pointer(c), unsafe.Pointer(&header), &a); rc != 0 {
		return Route{}, code("ibv_init_ah_from_wc", object, int(rc), "the datagram was sent to a GID that the port does not have")
	}
	return routeFromC(&a), nil
}

// ReplyAH makes the address handle of a datagram's sender: ReplyRoute and
// CreateAH in one.
func (pd *PD) ReplyAH(port int, c *Completion, grh []byte) (*AH, error) {
	r, err := pd.dev.ReplyRoute(port, c, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(r)
}

// Handle is the struct ibv_ah, nil once the handle is closed.
func (a *AH) Handle() unsafe.Pointer { return unsafe.Pointer(a.ah) }

// Close destroys the handle. Requests that use it must have completed.
func (a *AH) Close() error {
	return a.close("ibv_destroy_ah", func() error {
		if err := code("ibv_destroy_ah", a.pd.dev.info.Name+" "+a.name(), int(C.vb_destroy_ah(a.ah)), ""); err != nil {
			return err
		}
		a.ah = nil
		return nil
	})
}
