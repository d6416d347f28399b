package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// Meanings of counters.
const (
	meansLink   = "the link makes errors: cable, module or connector"
	meansLoss   = "packets are lost or late, and sent again: congestion, a lossy path, or a peer that is gone"
	meansDrop   = "packets are dropped for want of room: the receiver or the host is too slow"
	meansReady  = "the receiver had no buffer posted: the program is too slow, not the network"
	meansAccess = "a request was refused: a wrong key, address, length or right in a program"
	meansFault  = "the device or its commands failed"
)

// troubles are counters that stay where all is well, as InfiniBand's ports, mlx5,
// bnxt_re, irdma, efa, ionic and rxe name them. Those that also rise when queue pairs
// are taken down (flushed: req_cqe_error, resp_cqe_error), by waiting alone
// (port_xmit_wait), or by the question whether a driver takes dma-bufs (reg_mr_err) are
// not among them.
var troubles = map[string]string{
	"symbol_error": meansLink, "link_error_recovery": meansLink, "link_downed": meansLink, "port_rcv_errors": meansLink,
	"port_rcv_remote_physical_errors": meansLink, "local_link_integrity_errors": meansLink, "rx_icrc_encapsulated": meansLink,
	"port_xmit_discards": meansDrop, "excessive_buffer_overrun_errors": meansDrop, "VL15_dropped": meansDrop, "rx_drops": meansDrop,
	"port_rcv_switch_relay_errors": meansDrop,
	"port_xmit_constraint_errors":  meansAccess, "port_rcv_constraint_errors": meansAccess,

	"packet_seq_err": meansLoss, "out_of_sequence": meansLoss, "local_ack_timeout_err": meansLoss, "implied_nak_seq_err": meansLoss,
	"roce_adp_retrans": meansLoss, "roce_adp_retrans_to": meansLoss, "roce_slow_restart": meansLoss,
	"out_of_buffer": meansReady, "rnr_nak_retry_err": meansReady,
	"req_remote_access_errors": meansAccess, "resp_remote_access_errors": meansAccess, "req_remote_invalid_request": meansAccess,
	"resp_local_length_error": meansAccess, "req_transport_retries_exceeded": meansLoss, "req_rnr_retries_exceeded": meansReady,

	"to_retransmits": meansLoss, "seq_err_naks_rcvd": meansLoss, "max_retry_exceeded": meansLoss, "missing_resp": meansLoss,
	"oos_drop_count": meansLoss, "rnr_naks_rcvd": meansReady, "unrecoverable_err": meansFault, "bad_resp_err": meansAccess,
	"remote_access_err": meansAccess, "remote_invalid_req_err": meansAccess, "remote_op_err": meansAccess, "local_protection_err": meansAccess,
	"rx_roce_errors": meansLink, "tx_roce_errors": meansFault, "rx_roce_discards": meansDrop, "tx_roce_discards": meansDrop, "rx_out_of_buffer": meansReady,

	"tcpRetransSegs": meansLoss, "tcpInProtoErrors": meansLink, "ip4InDiscards": meansDrop, "ip6InDiscards": meansDrop,

	"tx_rdma_ack_timeout": meansLoss, "tx_rdma_retx_pkts": meansLoss, "req_rx_pkt_seq_err": meansLoss, "req_tx_retry_excd_err": meansLoss,
	"resp_rx_outouf_seq": meansLoss, "resp_rx_outof_buf": meansReady, "req_rx_rmt_acc_err": meansAccess, "rx_rdma_mtu_discard_pkts": meansDrop,

	"retrans_timeout_events": meansLoss, "unresponsive_remote_events": meansLoss, "impaired_remote_conn_events": meansLoss,
	"rdma_read_wr_err": meansAccess, "rdma_write_wr_err": meansAccess, "cmds_err": meansFault, "no_completion_cmds": meansFault, "alloc_pd_err": meansFault, "create_qp_err": meansFault,
	"create_cq_err": meansFault, "create_ah_err": meansFault, "alloc_ucontext_err": meansFault, "mmap_err": meansFault,

	"out_of_seq_request": meansLoss, "rcvd_seq_err": meansLoss, "retry_exceeded_err": meansLoss, "completer_retry_err": meansLoss,
	"rcvd_rnr_err": meansReady, "retry_rnr_exceeded_err": meansReady, "send_err": meansFault,
}

// between is how long a look at counters lasts where nobody watches.
const between = 300 * time.Millisecond

// checkCounters tells of counters of trouble that are not zero, and which rise while
// it looks.
func checkCounters(ctx context.Context, s *System) (found []Finding) {
	devices := s.rdmaDevices(ctx)
	before := map[string]map[string]uint64{}
	for _, d := range devices {
		before[d.Name] = s.counters(d)
	}
	if s.Live && slices.ContainsFunc(devices, func(d *inventory.Device) bool { return len(before[d.Name]) > 0 }) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(between):
		}
	}
	for _, d := range devices {
		now := before[d.Name]
		if s.Live {
			now = s.counters(d)
		}
		found = append(found, s.judgeCounters(d, before[d.Name], now)...)
	}
	return alike(found)
}

// counters reads a device's counters of trouble; nil is none.
func (s *System) counters(d *inventory.Device) map[string]uint64 {
	folders := []string{classFolder(d.Name) + "/hw_counters"}
	for _, p := range d.Ports {
		port := fmt.Sprintf("%s/ports/%d/", classFolder(d.Name), p.Number)
		folders = append(folders, port+"counters", port+"hw_counters")
	}
	var all map[string]uint64
	for _, folder := range folders {
		entries, err := fs.ReadDir(s.Root, folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if troubles[e.Name()] == "" {
				continue
			}
			text, err := s.text(folder + "/" + e.Name())
			if err != nil {
				continue // "N/A (no PMA)" has none either
			}
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				if all == nil {
					all = map[string]uint64{}
				}
				all[strings.TrimPrefix(folder, classFolder(d.Name)+"/")+"/"+e.Name()] = n
			}
		}
	}
	return all
}

func (s *System) judgeCounters(d *inventory.Device, before, now map[string]uint64) (found []Finding) {
	f := Finding{Subject: d.Name, Counters: now}
	if len(now) == 0 {
		if software(d) {
			return nil // siw counts nothing
		}
		f.Verdict, f.Summary = Unknown, "no error counter can be read"
		f.missing, f.Evidence = !s.Live, []string{fmt.Sprintf("/%s/ports: no counter of errors in counters or hw_counters", classFolder(d.Name))}
		return []Finding{f}
	}
	verdict, what := OK, map[string]bool{}
	for _, name := range sorted(now) {
		n := now[name]
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("/%s/%s: %d", classFolder(d.Name), name, n)
		if was, read := before[name]; read && n > was {
			text += fmt.Sprintf(", %d more than %v before", n-was, between)
			if verdict < Warn {
				verdict, what = Warn, map[string]bool{}
			}
			what[meaning(name)] = true
		} else if verdict < Warn {
			verdict = Note
			what[meaning(name)] = true
		}
		f.Evidence = append(f.Evidence, text)
	}
	f.Verdict = verdict
	switch verdict {
	case OK:
		f.Summary = "no error counter has counted (" + count(len(now), "counter") + ")"
	case Note:
		f.Summary = "errors were counted since the driver was loaded: " + figures(now, nil)
		f.Remedy = strings.Join(sorted(what), "; ") + ". Look whether they rise under load: peerdirect doctor --watch"
	case Warn:
		f.Summary = "error counters rise: " + figures(now, before)
		f.Remedy = strings.Join(sorted(what), "; ")
	}
	return []Finding{f}
}

// figures names the counters that are not zero or, against a reading before, those
// that rose.
func figures(now, before map[string]uint64) string {
	const most = 6
	var parts []string
	for _, name := range sorted(now) {
		if n := now[name]; n > 0 && before == nil {
			parts = append(parts, fmt.Sprintf("%s %d", path.Base(name), n))
		} else if was, read := before[name]; read && n > was {
			parts = append(parts, fmt.Sprintf("%s by %d to %d", path.Base(name), n-was, n))
		}
	}
	if more := len(parts) - most; more > 0 {
		parts = append(parts[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

func meaning(name string) string { return troubles[path.Base(name)] }

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
