package nldev

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

func check[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("wanted -, got +:\n%s", diff)
	}
}

func TestDevices(t *testing.T) {
	unknown := rxe0[:len(rxe0):len(rxe0)].uint32(9999, 1).nest(9998, attrs(nil).text(1, "from the future"))
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {unknown, mlx}}.kernel)
	got, err := c.Devices(t.Context())
	check(t, got, err, []Device{{
		Index: 0, Name: "rxe0", Ports: 1, NodeType: NodeCA, Protocol: "roce",
		NodeGUID: 0x505400fffe123456, SysImageGUID: 0x505400fffe123457,
		Caps:               1<<21 | 1<<1 | 1<<40,
		AdaptiveModeration: Some(false), NamedByUser: Some(true),
	}, {
		Index: 3, Name: "smi0", Ports: 2, Protocol: "ib", Firmware: "28.43.1014", Type: DeviceSMI, Parent: "mlx5_0",
	}})
	if got := got[0].NodeGUID.String(); got != "5054:00ff:fe12:3456" {
		t.Errorf("GUID is %s", got)
	}
	if got := got[0].Caps.String(); got != "BAD_PKEY_CNTR,MEM_MGT_EXTENSIONS,ATOMIC_WRITE" {
		t.Errorf("caps are %s", got)
	}
}

func TestNoDevices(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: nil}.kernel)
	devices, err := c.Devices(t.Context())
	check(t, devices, err, nil)
	qps, err := c.QPs(t.Context(), Filter{})
	check(t, qps, err, nil)
}

func TestLinks(t *testing.T) {
	ports := map[uint32]map[uint32]attrs{
		0: {1: handleOf(0, "rxe0").
			uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_STATE, 4).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 5).
			uint32(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, 2).
			text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth0")},
		3: {2: handleOf(3, "smi0").
			uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 2).
			uint64(abi.RDMA_NLDEV_ATTR_CAP_FLAGS, 1<<1|1<<42).
			uint64(abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX, 0xfe80000000000000).
			uint32(abi.RDMA_NLDEV_ATTR_LID, 13).
			uint32(abi.RDMA_NLDEV_ATTR_SM_LID, 49).
			uint8(abi.RDMA_NLDEV_ATTR_LMC, 0).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_STATE, 2).
			uint8(abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 4)},
	}
	// Port 1 of the second device is broken: its driver does not answer.
	c, _ := connect(t, func(request message) [][]message {
		if command(request) == abi.RDMA_NLDEV_CMD_GET {
			return answer(request, 0, rxe0, mlx)
		}
		device, port := asked(t, request, abi.RDMA_NLDEV_ATTR_DEV_INDEX), asked(t, request, abi.RDMA_NLDEV_ATTR_PORT_INDEX)
		if body, ok := ports[device][port]; ok {
			return answer(request, 0, body)
		}
		return refuse(request, unix.EIO, "")
	})
	got, err := c.Links(t.Context(), "")
	if want := "nldev: smi0: list links: input/output error"; err == nil || err.Error() != want {
		t.Errorf("error is %v, not %s", err, want)
	}
	check(t, got, nil, []Link{{
		Device: "rxe0", Port: 1, State: PortActive, PhysState: PhysLinkUp, Netdev: "eth0", NetdevIndex: 2,
	}, {
		Device: "smi0", DeviceIndex: 3, Port: 2, State: PortInit, PhysState: PhysTraining,
		IB: Some(IBLink{LID: 13, SMLID: 49, SubnetPrefix: 0xfe80000000000000, Caps: 1<<1 | 1<<42}),
	}})
	if got[0].Name() != "rxe0/1" || got[0].State.String() != "ACTIVE" || got[1].IB.V.Caps.String() != "SM,LINK_SPEED_NDR" {
		t.Errorf("words: %s %s %s", got[0].Name(), got[0].State, got[1].IB.V.Caps)
	}
}

// asked gives a 32-bit attribute of a request.
func asked(t *testing.T, request message, kind uint16) uint32 {
	t.Helper()
	r := attrReader{rest: request.body}
	for r.next() {
		if r.kind == kind {
			return r.uint32()
		}
	}
	t.Errorf("request %d lacks attribute %d: %v", command(request), kind, r.err)
	return 0
}

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
}

var summaryBody = table(abi.RDMA_NLDEV_ATTR_RES_SUMMARY, abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY,
	attrs(nil).text(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, "pd").uint64(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, 1),
	attrs(nil).text(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, "qp").uint64(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, 3).uint64(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX, 1048560),
)

func TestSummary(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_GET: {summaryBody}}.kernel)
	got, err := c.Summary(t.Context(), "rxe0")
	check(t, got, err, []Summary{{Device: "rxe0", Counts: []Count{{Kind: "pd", N: 1}, {Kind: "qp", N: 3, Max: 1048560}}}})
	if got[0].Of("qp") != 3 || got[0].Of("mr") != 0 {
		t.Errorf("%d queue pairs, %d regions", got[0].Of("qp"), got[0].Of("mr"))
	}
}

func hwcounter(name string, value uint64) attrs {
	return attrs(nil).text(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name).uint64(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value)
}

var countersBody = table(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY,
	hwcounter("sent_pkts", 10), hwcounter("rcvd_pkts", 1<<40)).uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1)

var qpCounterTable = table(abi.RDMA_NLDEV_ATTR_STAT_COUNTER, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY,
	by(byThread).
		uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
		uint32(abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, 6).
		uint32(abi.RDMA_NLDEV_ATTR_STAT_MODE, abi.RDMA_COUNTER_MODE_AUTO).
		uint8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 2).
		nest(abi.RDMA_NLDEV_ATTR_RES_QP, attrs(nil).
			nest(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17))).
		nest(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, attrs(nil).
			nest(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, hwcounter("rx_write_requests", 4))),
)

var mrCounterTable = table(abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY,
	attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_RES_MRN, 5).
		nest(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, attrs(nil).
			nest(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, hwcounter("page_faults", 12))),
)

func TestCounters(t *testing.T) {
	c, _ := connect(t, func(request message) [][]message {
		switch command(request) {
		case abi.RDMA_NLDEV_CMD_GET:
			return answer(request, 0, rxe0)
		case abi.RDMA_NLDEV_CMD_STAT_GET_STATUS:
			return answer(request, 0, table(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY,
				attrs(nil).text(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "sent_pkts").uint32(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 0),
				attrs(nil).text(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "cc_rx").uint32(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 1).
					uint8(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, 0)))
		}
		if request.flags&unix.NLM_F_DUMP == 0 {
			for r := (attrReader{rest: request.body}); r.next(); {
				if r.kind == abi.RDMA_NLDEV_ATTR_STAT_RES {
					return answer(request, 0, handleOf(0, "rxe0").
						uint32(abi.RDMA_NLDEV_ATTR_STAT_MODE, abi.RDMA_COUNTER_MODE_AUTO).
						uint32(abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, 3).
						uint8(abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, 1))
				}
			}
			return answer(request, 0, countersBody)
		}
		if asked(t, request, abi.RDMA_NLDEV_ATTR_STAT_RES) == abi.RDMA_NLDEV_ATTR_RES_MR {
			return answer(request, 0, mrCounterTable)
		}
		return answer(request, 0, qpCounterTable)
	})
	counters, err := c.Counters(t.Context(), "rxe0", 1)
	check(t, counters, err, []Counter{{"sent_pkts", 10}, {"rcvd_pkts", 1 << 40}})
	statuses, err := c.CounterStatuses(t.Context(), "rxe0", 1)
	check(t, statuses, err, []CounterStatus{{Name: "sent_pkts"}, {Name: "cc_rx", Index: 1, Enabled: Some(false)}})
	binding, err := c.CounterBinding(t.Context(), "rxe0", 1)
	check(t, binding, err, CounterBinding{Mode: CounterModeAuto, By: CounterByQPType | CounterByPID, Optional: Some(true)})
	if got := binding.Mode.String() + " " + binding.By.String(); got != "auto type,pid" {
		t.Errorf("words: %s", got)
	}
	bound, err := c.QPCounters(t.Context(), Filter{Device: "rxe0", Port: 1})
	check(t, bound, err, []QPCounter{{
		Object: ownThread, Port: 1, ID: 6, Mode: CounterModeAuto, QPType: Some(QPTypeRC), QPs: []uint32{17},
		Counters: []Counter{{"rx_write_requests", 4}},
	}})
	faults, err := c.MRCounters(t.Context(), Filter{})
	check(t, faults, err, []MRCounters{{Object: ownNobody, MRN: 5, Counters: []Counter{{"page_faults", 12}}}})
}

var frmrTable = table(abi.RDMA_NLDEV_ATTR_FRMR_POOLS, abi.RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY,
	attrs(nil).
		nest(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY, attrs(nil).
			uint8(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS, 1).
			uint32(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS, 7).
			uint64(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY, 11).
			uint64(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS, 512).
			uint64(abi.RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY, 2)).
		uint32(abi.RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES, 8).
		uint64(abi.RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE, 100).
		uint64(abi.RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE, 90).
		uint32(abi.RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES, 4),
)

func TestFRMRPools(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET: {frmrTable}}.kernel)
	got, err := c.FRMRPools(t.Context(), Filter{DriverDetails: true})
	check(t, got, err, []FRMRPool{{
		Device: "rxe0", Key: FRMRKey{ATS: true, AccessFlags: 7, VendorKey: 11, KernelVendorKey: 2, DMABlocks: 512},
		Queued: 8, InUse: 90, MaxInUse: 100, Pinned: 4,
	}})
}

func TestSystem(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_SYS_GET: {attrs(nil).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, 0).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1).
		uint8(abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1)}}.kernel)
	got, err := c.System(t.Context())
	check(t, got, err, System{SharedNamespaces: true, CopyOnFork: true, Monitor: true})
}

// What changes something sends exactly what the kernel's handlers look for.
func TestRequests(t *testing.T) {
	index := attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 0)
	with := func() attrs { return index[:len(index):len(index)] }
	for name, test := range map[string]struct {
		do      func(*Client) error
		command uint16
		want    attrs
	}{
		"AddLink": {
			func(c *Client) error { return c.AddLink(t.Context(), "rxe1", "rxe", "eth0") },
			abi.RDMA_NLDEV_CMD_NEWLINK,
			attrs(nil).text(abi.RDMA_NLDEV_ATTR_DEV_NAME, "rxe1").text(abi.RDMA_NLDEV_ATTR_LINK_TYPE, "rxe").text(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth0"),
		},
		"DelLink": {
			func(c *Client) error { return c.DelLink(t.Context(), "rxe0") },
			abi.RDMA_NLDEV_CMD_DELLINK, with(),
		},
		"RenameDevice": {
			func(c *Client) error { return c.RenameDevice(t.Context(), "rxe0", "left") },
			abi.RDMA_NLDEV_CMD_SET, with().text(abi.RDMA_NLDEV_ATTR_DEV_NAME, "left"),
		},
		"SetNamespace": {
			func(c *Client) error { return c.SetNamespace(t.Context(), "rxe0", 5) },
			abi.RDMA_NLDEV_CMD_SET, with().uint32(abi.RDMA_NLDEV_NET_NS_FD, 5),
		},
		"SetAdaptiveModeration": {
			func(c *Client) error { return c.SetAdaptiveModeration(t.Context(), "rxe0", true) },
			abi.RDMA_NLDEV_CMD_SET, with().uint8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 1),
		},
		"SetSharedNamespaces": {
			func(c *Client) error { return c.SetSharedNamespaces(t.Context(), false) },
			abi.RDMA_NLDEV_CMD_SYS_SET, attrs(nil).uint8(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0),
		},
		"SetPrivilegedQKey": {
			func(c *Client) error { return c.SetPrivilegedQKey(t.Context(), true) },
			abi.RDMA_NLDEV_CMD_SYS_SET, attrs(nil).uint8(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, 1),
		},
		"QPs": {
			func(c *Client) error {
				_, err := c.QPs(t.Context(), Filter{Device: "rxe0", Port: 1, DriverDetails: true})
				return err
			},
			abi.RDMA_NLDEV_CMD_RES_QP_GET, with().uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).uint8(abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, 1),
		},
		"MRs": {
			func(c *Client) error {
				_, err := c.MRs(t.Context(), Filter{Device: "rxe0", Port: 1})
				return err
			},
			abi.RDMA_NLDEV_CMD_RES_MR_GET, with(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			c, _ := connect(t, func(request message) [][]message {
				if command(request) == abi.RDMA_NLDEV_CMD_GET {
					return answer(request, 0, rxe0)
				}
				seen++
				if request.kind != 5<<10|test.command || request.flags&unix.NLM_F_REQUEST == 0 {
					t.Errorf("kind %#x, flags %#x", request.kind, request.flags)
				}
				if diff := cmp.Diff([]byte(test.want), request.body); diff != "" {
					t.Errorf("wanted -, got +:\n%s", diff)
				}
				return answer(request, 0)
			})
			if err := test.do(c); err != nil || seen != 1 {
				t.Errorf("%v after %d requests", err, seen)
			}
		})
	}
}
