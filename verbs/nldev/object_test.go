package nldev

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Who made an object: ib_core of the kernel, a process, a thread of a process,
// and one that has ended.
var (
	byKernel  = attrs(nil).text(abi.RDMA_NLDEV_ATTR_RES_KERN_NAME, "ib_core")
	byProcess = attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_PID, 4711)
	byThread  = attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_PID, 815)

	ownKernel  = Object{Device: "rxe0", Owner: Owner{Kernel: true, Comm: "ib_core"}}
	ownProcess = Object{Device: "rxe0", Owner: Owner{PID: 4711, TID: 4711, Comm: "ib_write_bw"}}
	ownThread  = Object{Device: "rxe0", Owner: Owner{PID: 812, TID: 815, Comm: "peerdirect"}}
	ownNobody  = Object{Device: "rxe0"}
)

// by starts an entry with its owner, so that appending to one entry leaves the
// next alone.
func by(owner attrs) attrs { return owner[:len(owner):len(owner)] }

var qpTable = table(abi.RDMA_NLDEV_ATTR_RES_QP, abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY,
	by(byKernel).
		uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, 0).
		uint8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 1).
		uint8(abi.RDMA_NLDEV_ATTR_RES_STATE, 3),
	by(byThread).
		uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PDN, 2).
		uint32(abi.RDMA_NLDEV_ATTR_RES_RQPN, 0xabcdef).
		uint32(abi.RDMA_NLDEV_ATTR_RES_RQ_PSN, 77).
		uint32(abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, 78).
		uint8(abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, 0).
		uint8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 2).
		uint8(abi.RDMA_NLDEV_ATTR_RES_STATE, 3).
		nest(abi.RDMA_NLDEV_ATTR_DRIVER, attrs(nil).
			text(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "sqid").
			uint32(abi.RDMA_NLDEV_ATTR_DRIVER_U32, 5).
			text(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "bar2_offset").
			uint8(abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE, abi.RDMA_NLDEV_PRINT_TYPE_HEX).
			uint64(abi.RDMA_NLDEV_ATTR_DRIVER_U64, 0xbeef).
			text(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "mode").
			text(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "fast").
			text(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "delta").
			uint32(abi.RDMA_NLDEV_ATTR_DRIVER_S32, 0xffffffff)),
	attrs(nil).
		uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 18).
		uint32(abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, 0).
		uint8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 255).
		text(abi.RDMA_NLDEV_ATTR_RES_SUBTYPE, "SRD").
		uint8(abi.RDMA_NLDEV_ATTR_RES_STATE, 0),
)

func TestQPs(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_QP_GET: {qpTable}}.kernel)
	got, err := c.QPs(t.Context(), Filter{})
	rc := ownThread
	rc.Driver = []DriverValue{
		{Name: "sqid", Value: uint32(5)},
		{Name: "bar2_offset", Value: uint64(0xbeef), Hex: true},
		{Name: "mode", Value: "fast"},
		{Name: "delta", Value: int32(-1)},
	}
	check(t, got, err, []QP{
		{Object: ownKernel, Port: 1, LocalQPN: 1, Type: QPTypeGSI, State: QPStateRTS},
		{
			Object: rc, Port: 1, LocalQPN: 17, Type: QPTypeRC, State: QPStateRTS, PDN: 2, SQPSN: 78,
			Connected: Some(ConnectedQP{RemoteQPN: 0xabcdef, RQPSN: 77}), Migration: Some(PathMigration(0)),
		},
		{Object: ownNobody, LocalQPN: 18, Type: QPTypeDriver, Subtype: "SRD", State: QPStateReset},
	})
	for i, want := range []string{"[ib_core]", "peerdirect (812)", "unknown"} {
		if got := got[i].Owner.String(); got != want {
			t.Errorf("owner %d is %s, not %s", i, got, want)
		}
	}
	if got := rc.Driver[1].String(); got != "bar2_offset 0xbeef" {
		t.Errorf("driver's value is %s", got)
	}
}

// A process is found by its own id and by that of the thread that made the
// object.
func TestFilterByProcess(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_QP_GET: {qpTable}}.kernel)
	for _, pid := range []uint32{812, 815} {
		got, err := c.QPs(t.Context(), Filter{Device: "rxe0", PID: pid})
		if err != nil || len(got) != 1 || got[0].LocalQPN != 17 {
			t.Errorf("process %d has %v, %v", pid, got, err)
		}
	}
}

func sockaddr(ap netip.AddrPort) []byte {
	b := make([]byte, sockaddrStorage)
	b[2], b[3] = byte(ap.Port()>>8), byte(ap.Port())
	if ap.Addr().Is4() {
		copy(b, attrs(nil).uint32(0, unix.AF_INET)[attrHeader:attrHeader+2])
		copy(b[4:], ap.Addr().AsSlice())
	} else {
		copy(b, attrs(nil).uint32(0, unix.AF_INET6)[attrHeader:attrHeader+2])
		copy(b[8:], ap.Addr().AsSlice())
	}
	return b
}

var (
	here  = netip.MustParseAddrPort("192.0.2.1:18515")
	there = netip.MustParseAddrPort("[2001:db8::2]:40000")
)

var cmTable = table(abi.RDMA_NLDEV_ATTR_RES_CM_ID, abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
	by(byProcess).
		uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17).
		uint8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 2).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PS, 0x106).
		uint8(abi.RDMA_NLDEV_ATTR_RES_STATE, 5).
		bytes(abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR, sockaddr(here)).
		bytes(abi.RDMA_NLDEV_ATTR_RES_DST_ADDR, sockaddr(there)).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CM_IDN, 9),
)

func TestCMIDs(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_CM_ID_GET: {cmTable}}.kernel)
	got, err := c.CMIDs(t.Context(), Filter{})
	check(t, got, err, []CMID{{
		Object: ownProcess, Port: 1, ID: 9, State: 5, PortSpace: 0x106, LocalQPN: 17, QPType: QPTypeRC,
		Source: here, Destination: there,
	}})
	if got[0].State.String() != "CONNECT" || got[0].PortSpace.String() != "TCP" {
		t.Errorf("words: %s %s", got[0].State, got[0].PortSpace)
	}
}

var cqTable = table(abi.RDMA_NLDEV_ATTR_RES_CQ, abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
	by(byKernel).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CQE, 1023).
		uint64(abi.RDMA_NLDEV_ATTR_RES_USECNT, 2).
		uint8(abi.RDMA_NLDEV_ATTR_RES_POLL_CTX, 1).
		uint8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CQN, 0),
	by(byProcess).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CQE, 255).
		uint64(abi.RDMA_NLDEV_ATTR_RES_USECNT, 1).
		uint8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 0).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CQN, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CTXN, 4),
)

func TestCQs(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_CQ_GET: {cqTable}}.kernel)
	got, err := c.CQs(t.Context(), Filter{})
	check(t, got, err, []CQ{
		{Object: ownKernel, CQE: 1023, Users: 2, PollContext: Some(PollContext(1)), AdaptiveModeration: Some(true)},
		{Object: ownProcess, CQN: 1, CQE: 255, Users: 1, CtxN: 4, AdaptiveModeration: Some(false)},
	})
}

// The first region as a reader with CAP_NET_ADMIN sees it, the second as one
// without.
var mrTable = table(abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY,
	by(byProcess).
		uint32(abi.RDMA_NLDEV_ATTR_RES_RKEY, 0x1ff).
		uint32(abi.RDMA_NLDEV_ATTR_RES_LKEY, 0).
		uint64(abi.RDMA_NLDEV_ATTR_RES_IOVA, 0x7f0000000000).
		uint64(abi.RDMA_NLDEV_ATTR_RES_MRLEN, 1<<30).
		uint32(abi.RDMA_NLDEV_ATTR_RES_MRN, 5).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PDN, 2),
	by(byProcess).
		uint64(abi.RDMA_NLDEV_ATTR_RES_MRLEN, 4096).
		uint32(abi.RDMA_NLDEV_ATTR_RES_MRN, 6).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PDN, 2),
)

func TestMRs(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_MR_GET: {mrTable}}.kernel)
	got, err := c.MRs(t.Context(), Filter{})
	check(t, got, err, []MR{
		{
			Object: ownProcess, MRN: 5, Length: 1 << 30, PDN: 2,
			LKey: Some[uint32](0), RKey: Some[uint32](0x1ff), IOVA: Some[uint64](0x7f0000000000),
		},
		{Object: ownProcess, MRN: 6, Length: 4096, PDN: 2},
	})
}

var pdTable = table(abi.RDMA_NLDEV_ATTR_RES_PD, abi.RDMA_NLDEV_ATTR_RES_PD_ENTRY,
	by(byKernel).
		uint32(abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, 0x19a).
		uint32(abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY, 0x100).
		uint64(abi.RDMA_NLDEV_ATTR_RES_USECNT, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PDN, 0),
	by(byProcess).
		uint64(abi.RDMA_NLDEV_ATTR_RES_USECNT, 3).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PDN, 2).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CTXN, 4),
)

func TestPDs(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_PD_GET: {pdTable}}.kernel)
	got, err := c.PDs(t.Context(), Filter{})
	check(t, got, err, []PD{
		{Object: ownKernel, Users: 1, LocalDMALKey: Some[uint32](0x19a), UnsafeGlobalRKey: Some[uint32](0x100)},
		{Object: ownProcess, PDN: 2, Users: 3, CtxN: 4},
	})
}

// The second entry is a context of the kernel's own.
var ctxTable = table(abi.RDMA_NLDEV_ATTR_RES_CTX, abi.RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
	by(byProcess).uint32(abi.RDMA_NLDEV_ATTR_RES_CTXN, 4),
	nil,
)

func TestContexts(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_CTX_GET: {ctxTable}}.kernel)
	got, err := c.Contexts(t.Context(), Filter{})
	check(t, got, err, []Context{{Object: ownProcess, CtxN: 4}})
}

var srqTable = table(abi.RDMA_NLDEV_ATTR_RES_SRQ, abi.RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
	by(byProcess).
		uint32(abi.RDMA_NLDEV_ATTR_RES_SRQN, 7).
		uint8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 1).
		uint32(abi.RDMA_NLDEV_ATTR_RES_PDN, 2).
		uint32(abi.RDMA_NLDEV_ATTR_RES_CQN, 1).
		nest(abi.RDMA_NLDEV_ATTR_RES_QP, attrs(nil).
			nest(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17)).
			nest(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, attrs(nil).
				uint32(abi.RDMA_NLDEV_ATTR_MIN_RANGE, 20).
				uint32(abi.RDMA_NLDEV_ATTR_MAX_RANGE, 29))),
)

func TestSRQs(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_SRQ_GET: {srqTable}}.kernel)
	got, err := c.SRQs(t.Context(), Filter{})
	check(t, got, err, []SRQ{{Object: ownProcess, SRQN: 7, Type: 1, PDN: 2, CQN: 1, QPs: []QPNRange{{17, 17}, {20, 29}}}})
	if words := fmt.Sprint(got[0].QPs); words != "[17 20-29]" {
		t.Errorf("words: %s", words)
	}
}
