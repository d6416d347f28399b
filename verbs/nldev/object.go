package nldev

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// The numbers that objects refer to each other by (PDN, CQN, CtxN …) are the
// kernel's own, unique for the kind and device; only a queue pair's is what the
// device and libibverbs use. They are 0 where the kernel gives none, which it
// does for the objects of kernel modules.

// QP is a queue pair.
type QP struct {
	Object
	Port      uint32 // 0 before the queue pair has one
	LocalQPN  uint32 // 24 bits
	Type      QPType
	Subtype   string // of a driver's own type. Not in Linux 6.1, in 6.12
	State     QPState
	PDN       uint32
	SQPSN     uint32             // the next packet sequence number to send
	Connected Opt[ConnectedQP]   // of RC and UC
	Migration Opt[PathMigration] // of RC, UC and XRC
}

// ConnectedQP is what only a connected queue pair has.
type ConnectedQP struct {
	RemoteQPN uint32
	RQPSN     uint32 // the packet sequence number expected next
}

func (q *QP) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
		q.Port = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_LQPN:
		q.LocalQPN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_TYPE:
		q.Type = QPType(r.uint8())
	case abi.RDMA_NLDEV_ATTR_RES_SUBTYPE:
		q.Subtype = r.text()
	case abi.RDMA_NLDEV_ATTR_RES_STATE:
		q.State = QPState(r.uint8())
	case abi.RDMA_NLDEV_ATTR_RES_PDN:
		q.PDN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_SQ_PSN:
		q.SQPSN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_RQPN:
		q.Connected.OK, q.Connected.V.RemoteQPN = true, r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_RQ_PSN:
		q.Connected.OK, q.Connected.V.RQPSN = true, r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE:
		q.Migration = Some(PathMigration(r.uint8()))
	}
}

// QPs lists queue pairs. A driver that fails to query one ends the list with its
// error.
func (c *Client) QPs(ctx context.Context, f Filter) ([]QP, error) {
	return list[QP](ctx, c, kind{
		name: "queue pairs", command: abi.RDMA_NLDEV_CMD_RES_QP_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_QP, entry: abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_LQPN,
		perPort: true, invalid: "this kernel does not list queue pairs, or this driver does not query them",
	}, f)
}

// CMID is a connection identifier of the RDMA connection manager.
type CMID struct {
	Object
	Port      uint32 // 0 before it is bound to one
	ID        uint32
	State     CMState
	PortSpace PortSpace
	LocalQPN  uint32 // 0 if there is none
	QPType    QPType // of LocalQPN
	// Source and Destination are the zero AddrPort where there is none, or where
	// the address is not an IP address.
	Source      netip.AddrPort
	Destination netip.AddrPort
}

func (m *CMID) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
		m.Port = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_CM_IDN:
		m.ID = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_STATE:
		m.State = CMState(r.uint8())
	case abi.RDMA_NLDEV_ATTR_RES_PS:
		m.PortSpace = PortSpace(r.uint32())
	case abi.RDMA_NLDEV_ATTR_RES_LQPN:
		m.LocalQPN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_TYPE:
		m.QPType = QPType(r.uint8())
	case abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR:
		m.Source = r.address()
	case abi.RDMA_NLDEV_ATTR_RES_DST_ADDR:
		m.Destination = r.address()
	}
}

// CMIDs lists connection identifiers.
func (c *Client) CMIDs(ctx context.Context, f Filter) ([]CMID, error) {
	return list[CMID](ctx, c, kind{
		name: "connection ids", command: abi.RDMA_NLDEV_CMD_RES_CM_ID_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_CM_ID, entry: abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CM_IDN,
		perPort: true,
	}, f)
}

// CQ is a completion queue.
type CQ struct {
	Object
	CQN   uint32
	CQE   uint32 // entries that it holds at most
	Users uint64 // queue pairs and shared receive queues that complete into it
	CtxN  uint32
	// PollContext is where a kernel module's queue is polled.
	PollContext        Opt[PollContext]
	AdaptiveModeration Opt[bool]
}

func (q *CQ) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_RES_CQN:
		q.CQN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_CQE:
		q.CQE = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_USECNT:
		q.Users = r.uint64()
	case abi.RDMA_NLDEV_ATTR_RES_CTXN:
		q.CtxN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_POLL_CTX:
		q.PollContext = Some(PollContext(r.uint8()))
	case abi.RDMA_NLDEV_ATTR_DEV_DIM:
		q.AdaptiveModeration = Some(r.bool())
	}
}

// CQs lists completion queues.
func (c *Client) CQs(ctx context.Context, f Filter) ([]CQ, error) {
	return list[CQ](ctx, c, kind{
		name: "completion queues", command: abi.RDMA_NLDEV_CMD_RES_CQ_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_CQ, entry: abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CQN,
	}, f)
}

// MR is a memory region.
type MR struct {
	Object
	MRN    uint32
	Length uint64 // bytes
	PDN    uint32
	// LKey and RKey are for readers with CAP_NET_ADMIN.
	LKey Opt[uint32]
	RKey Opt[uint32]
	// IOVA is the region's address as the device sees it. The number is reserved
	// for it, but Linux 7.3 still sends none.
	IOVA Opt[uint64]
}

func (m *MR) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_RES_MRN:
		m.MRN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_MRLEN:
		m.Length = r.uint64()
	case abi.RDMA_NLDEV_ATTR_RES_PDN:
		m.PDN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_LKEY:
		m.LKey = Some(r.uint32())
	case abi.RDMA_NLDEV_ATTR_RES_RKEY:
		m.RKey = Some(r.uint32())
	case abi.RDMA_NLDEV_ATTR_RES_IOVA:
		m.IOVA = Some(r.uint64())
	}
}

// MRs lists memory regions.
func (c *Client) MRs(ctx context.Context, f Filter) ([]MR, error) {
	return list[MR](ctx, c, kind{
		name: "memory regions", command: abi.RDMA_NLDEV_CMD_RES_MR_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_MR, entry: abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_MRN,
	}, f)
}

// PD is a protection domain.
type PD struct {
	Object
	PDN   uint32
	Users uint64 // objects in the domain
	CtxN  uint32
	// LocalDMALKey and UnsafeGlobalRKey are for readers with CAP_NET_ADMIN. The
	// first is 0 on a user's domain; the second is there only where a kernel
	// module asked for a key to all of memory.
	LocalDMALKey     Opt[uint32]
	UnsafeGlobalRKey Opt[uint32]
}

func (p *PD) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_RES_PDN:
		p.PDN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_USECNT:
		p.Users = r.uint64()
	case abi.RDMA_NLDEV_ATTR_RES_CTXN:
		p.CtxN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY:
		p.LocalDMALKey = Some(r.uint32())
	case abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY:
		p.UnsafeGlobalRKey = Some(r.uint32())
	}
}

// PDs lists protection domains.
func (c *Client) PDs(ctx context.Context, f Filter) ([]PD, error) {
	return list[PD](ctx, c, kind{
		name: "protection domains", command: abi.RDMA_NLDEV_CMD_RES_PD_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_PD, entry: abi.RDMA_NLDEV_ATTR_RES_PD_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_PDN,
	}, f)
}

// Context is a process's open device.
type Context struct {
	Object
	CtxN uint32
}

func (x *Context) decodeAttr(r *attrReader) {
	if r.kind == abi.RDMA_NLDEV_ATTR_RES_CTXN {
		x.CtxN = r.uint32()
	}
}

// Contexts lists the contexts of user processes.
func (c *Client) Contexts(ctx context.Context, f Filter) ([]Context, error) {
	return list[Context](ctx, c, kind{
		name: "contexts", command: abi.RDMA_NLDEV_CMD_RES_CTX_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_CTX, entry: abi.RDMA_NLDEV_ATTR_RES_CTX_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CTXN,
	}, f)
}

// SRQ is a shared receive queue.
type SRQ struct {
	Object
	SRQN uint32
	Type SRQType
	PDN  uint32
	CQN  uint32     // of the types XRC and TM
	QPs  []QPNRange // the queue pairs that share it
}

// QPNRange is a run of queue pair numbers, both ends included.
type QPNRange struct{ First, Last uint32 }

// String is one number, or 20-29.
func (r QPNRange) String() string {
	if r.First == r.Last {
		return strconv.FormatUint(uint64(r.First), 10)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

func (q *SRQ) decodeAttr(r *attrReader) {
	switch r.kind {
	case abi.RDMA_NLDEV_ATTR_RES_SRQN:
		q.SRQN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_TYPE:
		q.Type = SRQType(r.uint8())
	case abi.RDMA_NLDEV_ATTR_RES_PDN:
		q.PDN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_CQN:
		q.CQN = r.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_QP:
		r.each(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, func(r *attrReader) {
			var run QPNRange
			for r.next() {
				switch r.kind {
				case abi.RDMA_NLDEV_ATTR_RES_LQPN:
					run.First = r.uint32()
					run.Last = run.First
				case abi.RDMA_NLDEV_ATTR_MIN_RANGE:
					run.First = r.uint32()
				case abi.RDMA_NLDEV_ATTR_MAX_RANGE:
					run.Last = r.uint32()
				}
			}
			q.QPs = append(q.QPs, run)
		})
	}
}

// SRQs lists shared receive queues.
func (c *Client) SRQs(ctx context.Context, f Filter) ([]SRQ, error) {
	return list[SRQ](ctx, c, kind{
		name: "shared receive queues", command: abi.RDMA_NLDEV_CMD_RES_SRQ_GET,
		table: abi.RDMA_NLDEV_ATTR_RES_SRQ, entry: abi.RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_SRQN,
	}, f)
}

// sockaddrStorage is the size of struct __kernel_sockaddr_storage.
const sockaddrStorage = 128

// address reads a struct __kernel_sockaddr_storage: the family in host byte
// order, then struct sockaddr_in or sockaddr_in6 in network byte order.
func (r *attrReader) address() netip.AddrPort {
	b := r.fixed(sockaddrStorage)
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)
	}
	return netip.AddrPort{}
}
