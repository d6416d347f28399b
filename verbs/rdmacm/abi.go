package rdmacm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Everything in this file mirrors include/uapi/rdma/rdma_user_cm.h; offsets are
// the same on every 64-bit and 32-bit architecture (abi_test.go asks the
// compiler). Integers are in the machine's order unless a comment says so.

var native = binary.NativeEndian

// Commands (the anonymous enum RDMA_USER_CM_CMD_*).
const (
	cmdCreateID     = 0
	cmdDestroyID    = 1
	cmdResolveRoute = 4
	cmdConnect      = 6
	cmdListen       = 7
	cmdAccept       = 8
	cmdReject       = 9
	cmdDisconnect   = 10
	cmdInitQPAttr   = 11
	cmdGetEvent     = 12
	cmdQuery        = 19
	cmdBind         = 20
	cmdResolveAddr  = 21
)

var commandNames = map[uint32]string{
	cmdCreateID:     "CREATE_ID",
	cmdDestroyID:    "DESTROY_ID",
	cmdResolveRoute: "RESOLVE_ROUTE",
	cmdConnect:      "CONNECT",
	cmdListen:       "LISTEN",
	cmdAccept:       "ACCEPT",
	cmdReject:       "REJECT",
	cmdDisconnect:   "DISCONNECT",
	cmdInitQPAttr:   "INIT_QP_ATTR",
	cmdGetEvent:     "GET_EVENT",
	cmdQuery:        "QUERY",
	cmdBind:         "BIND",
	cmdResolveAddr:  "RESOLVE_ADDR",
}

func commandName(cmd uint32) string {
	if name, ok := commandNames[cmd]; ok {
		return name
	}
	return "command " + strconv.FormatUint(uint64(cmd), 10)
}

const (
	portSpaceTCP = 0x0106 // RDMA_PS_TCP: reliable connections, ports of their own
	qpTypeRC     = 2      // enum ib_uverbs_qp_type
	queryAddr    = 0      // RDMA_USER_CM_QUERY_ADDR

	headerSize     = 8   // struct rdma_ucm_cmd_hdr
	storageSize    = 128 // struct __kernel_sockaddr_storage
	privateSize    = 256 // RDMA_MAX_PRIVATE_DATA
	connParamSize  = 272 // struct rdma_ucm_conn_param
	eventSize      = 336 // struct rdma_ucm_event_resp
	eventSizeOld   = 324 // the same without reserved and ece, as older kernels give it
	queryAddrSize  = 280 // struct rdma_ucm_query_addr_resp
	queryAddrIndex = 272 // offset of ibdev_index, which older kernels do not write
	qpAttrSize     = 144 // struct ib_uverbs_qp_attr
	sockaddrInSize = 16
	sockaddr6Size  = 28

	noIndex = ^uint32(0) // stays in the answer of a kernel that has no ibdev_index
)

// A command is one write to the file. Where the kernel answers, the command
// holds the address of the answer at offset answerAt.
type command struct {
	num      uint32
	body     []byte
	answer   []byte // filled by the kernel; nil where there is none
	answerAt int
}

// struct rdma_ucm_create_id { u64 uid; u64 response; u16 ps; u8 qp_type; u8 reserved[5]; }
func createID(uid uint64) command {
	b := make([]byte, 24)
	native.PutUint64(b[0:], uid)
	native.PutUint16(b[16:], portSpaceTCP)
	b[18] = qpTypeRC
	return command{cmdCreateID, b, make([]byte, 4), 8}
}

// struct rdma_ucm_destroy_id { u64 response; u32 id; u32 reserved; }
func destroyID(id uint32) command {
	b := make([]byte, 16)
	native.PutUint32(b[8:], id)
	return command{cmdDestroyID, b, make([]byte, 4), 0}
}

// struct rdma_ucm_bind { u32 id; u16 addr_size; u16 reserved; sockaddr_storage addr; }
func bind(id uint32, addr netip.AddrPort) (command, error) {
	b := make([]byte, 8+storageSize)
	native.PutUint32(b[0:], id)
	n, err := putSockaddr(b[8:], addr)
	native.PutUint16(b[4:], uint16(n))
	return command{num: cmdBind, body: b}, err
}

// struct rdma_ucm_resolve_addr { u32 id; u32 timeout_ms; u16 src_size; u16 dst_size;
// u32 reserved; sockaddr_storage src_addr; sockaddr_storage dst_addr; }
func resolveAddr(id uint32, src, dst netip.AddrPort, timeout time.Duration) (command, error) {
	b := make([]byte, 16+2*storageSize)
	native.PutUint32(b[0:], id)
	native.PutUint32(b[4:], milliseconds(timeout))
	if src.Addr().IsValid() {
		n, err := putSockaddr(b[16:], src)
		if err != nil {
			return command{}, err
		}
		native.PutUint16(b[8:], uint16(n))
	}
	n, err := putSockaddr(b[16+storageSize:], dst)
	native.PutUint16(b[10:], uint16(n))
	return command{num: cmdResolveAddr, body: b}, err
}

// struct rdma_ucm_resolve_route { u32 id; u32 timeout_ms; }
func resolveRoute(id uint32, timeout time.Duration) command {
	b := make([]byte, 8)
	native.PutUint32(b[0:], id)
	native.PutUint32(b[4:], milliseconds(timeout))
	return command{num: cmdResolveRoute, body: b}
}

// struct rdma_ucm_query { u64 response; u32 id; u32 option; }
func query(id uint32) command {
	b := make([]byte, 16)
	native.PutUint32(b[8:], id)
	native.PutUint32(b[12:], queryAddr)
	answer := make([]byte, queryAddrSize)
	native.PutUint32(answer[queryAddrIndex:], noIndex)
	return command{cmdQuery, b, answer, 0}
}

// struct rdma_ucm_listen { u32 id; u32 backlog; }
func listen(id, backlog uint32) command {
	b := make([]byte, 8)
	native.PutUint32(b[0:], id)
	native.PutUint32(b[4:], backlog)
	return command{num: cmdListen, body: b}
}

// struct rdma_ucm_connect { conn_param; u32 id; u32 reserved; struct rdma_ucm_ece; }
func connect(id uint32, p *Params) command {
	b := make([]byte, connParamSize+16)
	putConnParam(b, p)
	native.PutUint32(b[connParamSize:], id)
	return command{num: cmdConnect, body: b}
}

// struct rdma_ucm_accept { u64 uid; conn_param; u32 id; u32 reserved; struct rdma_ucm_ece; }
func accept(id uint32, uid uint64, p *Params) command {
	b := make([]byte, 8+connParamSize+16)
	native.PutUint64(b, uid)
	// Without parameters (valid is 0) it tells the connecting side's kernel
	// that the queue pair has reached RTS.
	if p != nil {
		putConnParam(b[8:], p)
	}
	native.PutUint32(b[8+connParamSize:], id)
	return command{num: cmdAccept, body: b}
}

// struct rdma_ucm_conn_param { u32 qp_num; u32 qkey; u8 private_data[256];
// u8 private_data_len, srq, responder_resources, initiator_depth, flow_control,
// retry_count, rnr_retry_count, valid; }
func putConnParam(b []byte, p *Params) {
	native.PutUint32(b[0:], p.QPN)
	copy(b[8:8+privateSize], p.Private)
	tail := b[8+privateSize:]
	tail[0] = uint8(len(p.Private))
	if p.SRQ {
		tail[1] = 1
	}
	tail[2] = p.ResponderResources
	tail[3] = p.InitiatorDepth
	tail[4] = 1 // end-to-end flow control
	tail[5] = retryCount
	tail[6] = retryCount
	tail[7] = 1
}

// retryCount is both the retries of the transport and those for a receiver
// that is not ready, where 7 means without end.
const retryCount = 7

// struct rdma_ucm_reject { u32 id; u8 private_data_len; u8 reason; u8 reserved[2];
// u8 private_data[256]; } — reason 0 is the consumer's own.
func reject(id uint32, private []byte) command {
	b := make([]byte, 8+privateSize)
	native.PutUint32(b[0:], id)
	b[4] = uint8(len(private))
	copy(b[8:], private)
	return command{num: cmdReject, body: b}
}

// struct rdma_ucm_disconnect { u32 id; }
func disconnect(id uint32) command {
	b := make([]byte, 4)
	native.PutUint32(b, id)
	return command{num: cmdDisconnect, body: b}
}

// struct rdma_ucm_init_qp_attr { u64 response; u32 id; u32 qp_state; }
func initQPAttr(id uint32, state QPState) command {
	b := make([]byte, 16)
	native.PutUint32(b[8:], id)
	native.PutUint32(b[12:], uint32(state))
	return command{cmdInitQPAttr, b, make([]byte, qpAttrSize), 0}
}

// struct rdma_ucm_get_event { u64 response; }
func getEvent(answer []byte) command {
	return command{cmdGetEvent, make([]byte, 8), answer, 0}
}

func milliseconds(d time.Duration) uint32 {
	return uint32(min(max(d.Milliseconds(), 1), int64(time.Hour/time.Millisecond)))
}

// putSockaddr writes a struct sockaddr_in or sockaddr_in6 and gives its size,
// which the kernel compares with the one it derives from the family.
func putSockaddr(b []byte, ap netip.AddrPort) (int, error) {
	addr := ap.Addr().Unmap()
	switch {
	case addr.Is4():
		native.PutUint16(b[0:], unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], ap.Port())
		a := addr.As4()
		copy(b[4:], a[:])
		return sockaddrInSize, nil
	case addr.Is6():
		scope, err := scopeID(addr.Zone())
		if err != nil {
			return 0, err
		}
		native.PutUint16(b[0:], unix.AF_INET6)
		binary.BigEndian.PutUint16(b[2:], ap.Port())
		a := addr.As16()
		copy(b[8:], a[:])
		native.PutUint32(b[24:], scope)
		return sockaddr6Size, nil
	}
	return 0, errors.New("no IP address given")
}

func scopeID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("zone %q: %w", zone, err)
	}
	return uint32(ifi.Index), nil
}

// sockaddr reads what putSockaddr writes; anything else is the zero AddrPort.
func sockaddr(b []byte) netip.AddrPort {
	if len(b) < sockaddr6Size {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch native.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case unix.AF_INET6:
		addr := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := native.Uint32(b[24:]); scope != 0 && !addr.Is4In6() {
			addr = addr.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return netip.AddrPortFrom(addr, port)
	}
	return netip.AddrPort{}
}

// struct rdma_ucm_query_addr_resp { be64 node_guid; u8 port_num; u8 reserved;
// be16 pkey; u16 src_size; u16 dst_size; sockaddr_storage src_addr, dst_addr;
// u32 ibdev_index; u32 reserved1; }
func decodeQueryAddr(b []byte) (dev Device, local, remote netip.AddrPort) {
	dev = Device{NodeGUID: [8]byte(b[0:8]), Port: int(b[8]), Index: -1}
	// Ports start at 1: port 0 means that no device is bound yet.
	if index := native.Uint32(b[queryAddrIndex:]); dev.Port != 0 && index != noIndex {
		dev.Index = int(index)
	}
	return dev, sockaddr(b[16:]), sockaddr(b[16+storageSize:])
}

// struct rdma_ucm_event_resp { u64 uid; u32 id; u32 event; u32 status;
// union { conn_param; ud_param; } param; u32 reserved; struct rdma_ucm_ece; }
func decodeEvent(b []byte) (rawEvent, error) {
	if len(b) < eventSizeOld {
		return rawEvent{}, fmt.Errorf("event of %d bytes, want %d", len(b), eventSizeOld)
	}
	const param, tail = 20, 20 + 8 + privateSize
	n := int(b[tail])
	return rawEvent{
		uid: native.Uint64(b[0:]),
		id:  native.Uint32(b[8:]),
		Event: Event{
			Type:               EventType(native.Uint32(b[12:])),
			Status:             int32(native.Uint32(b[16:])),
			QPN:                native.Uint32(b[param:]),
			Private:            append([]byte(nil), b[param+8:param+8+n]...),
			ResponderResources: b[tail+2],
			InitiatorDepth:     b[tail+3],
		},
	}, nil
}
