package nldev

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

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
