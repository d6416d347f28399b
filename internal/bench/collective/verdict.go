package collective

import (
	"fmt"
	"slices"

	"github.com/peerdirect/peerdirect/transfer/report"
)

// What a finding is about.
const (
	FindCurve        = "curve"        // where the efficiency falls, or that it does not
	FindLatency      = "latency"      // sizes that are too small for the bandwidth to matter
	FindPath         = "path"         // the detour through host memory, TCP
	FindHop          = "hop"          // one hop is slower than the others
	FindShared       = "shared"       // hops that are fast alone and slow together
	FindRegistration = "registration" // what keeping registrations is worth
	FindPlacement    = "placement"    // rails: shares, NUMA nodes, losses
)

// Finding is one part of the verdict.
type Finding struct {
	About     string `json:"about"`
	Operation string `json:"operation,omitempty"`
	Nodes     int    `json:"nodes,omitempty"`
	Bytes     uint64 `json:"bytes,omitempty"`
	Falls     bool   `json:"falls"` // something is lost here
	Text      string `json:"text"`
}

// What counts as a fall, and as a difference. Below these a run's noise speaks.
const (
	fall    = 0.8  // of the best, or of the fewest nodes' bus bandwidth
	differs = 0.1  // of the time
	uneven  = 1.25 // the most that rails' shares may differ by
	mostly  = 0.4  // of the time
	grows   = 2.0  // of the least size's time: up to there it is latency
	little  = 1 << 20
)

// verdict says where the curves of the direct path fall, by what, and what else was
// seen on the way.
func verdict(r *Report) (all []Finding) {
	v := &judge{Report: r, most: lastOf(r.Conditions.Nodes), largest: lastOf(r.Conditions.Bytes)}
	for _, op := range r.Conditions.Operations {
		all = append(all, v.latency(op)...)
		falls := append(v.fallsBySize(op), v.fallsByNodes(op)...)
		if len(falls) == 0 {
			if m := r.find(op, Direct, v.most, v.largest); m != nil {
				falls = []Finding{{About: FindCurve, Operation: op, Nodes: v.most, Bytes: v.largest, Text: fmt.Sprintf(
					"the bus bandwidth does not fall: %s at %v among %d nodes", rate(m.BusGBs), report.Bytes(v.largest), v.most)}}
			}
		}
		all = append(all, falls...)
		all = append(all, v.path(op)...)
		all = append(all, v.registration(op)...)
	}
	all = append(all, v.hops()...)
	return append(all, v.placement()...)
}

type judge struct {
	*Report
	most    int    // nodes
	largest uint64 // bytes
}

// latency finds up to which size the time is not the bytes'.
func (v *judge) latency(op string) []Finding {
	least := v.Conditions.Bytes[0]
	first := v.find(op, Direct, v.most, least)
	limit := v.latencyBound(op, v.most)
	if first == nil || limit <= least {
		return nil
	}
	return []Finding{{About: FindLatency, Operation: op, Nodes: v.most, Bytes: limit, Text: fmt.Sprintf(
		"to %v it is bound by latency: %s at %v, %s a step of the ring",
		report.Bytes(limit), duration(first.Seconds), report.Bytes(least), duration(first.Seconds/steps(op, v.most)))}}
}

func steps(op string, nodes int) float64 {
	if op == AllReduce {
		return 2 * float64(nodes-1)
	}
	return float64(nodes - 1)
}

// latencyBound is the largest size that takes little longer than the least.
func (v *judge) latencyBound(op string, nodes int) (limit uint64) {
	first := v.find(op, Direct, nodes, v.Conditions.Bytes[0])
	for _, size := range v.Conditions.Bytes {
		m := v.find(op, Direct, nodes, size)
		if first == nil || m == nil || m.Seconds > grows*first.Seconds {
			break
		}
		limit = size
	}
	return limit
}

// fallsBySize looks for a size above the best one at which the bus bandwidth is less.
func (v *judge) fallsBySize(op string) []Finding {
	var best *Measurement
	for _, size := range v.Conditions.Bytes {
		m := v.find(op, Direct, v.most, size)
		switch {
		case m == nil:
		case best == nil || m.BusGBs > best.BusGBs:
			best = m
		case m.BusGBs < fall*best.BusGBs:
			falls := "falls"
			if v.reaches(op, size, best.BusGBs) {
				falls = "dips, and rises again,"
			}
			return []Finding{{About: FindCurve, Operation: op, Nodes: v.most, Bytes: size, Falls: true, Text: fmt.Sprintf(
				"%s with size: from %s at %v to %s at %v, among %d nodes: %s",
				falls, rate(best.BusGBs), report.Bytes(best.Bytes), rate(m.BusGBs), report.Bytes(size), v.most, v.why(m, best))}}
		}
	}
	return nil
}

// reaches tells whether a larger size has a bus bandwidth again.
func (v *judge) reaches(op string, above uint64, gbs float64) bool {
	return slices.ContainsFunc(v.Conditions.Bytes, func(size uint64) bool {
		m := v.find(op, Direct, v.most, size)
		return size > above && m != nil && m.BusGBs >= fall*gbs
	})
}

// fallsByNodes looks for the number of nodes from which on efficiency is low, at the
// largest size; and whether smaller sizes that are not latency's fall sooner.
func (v *judge) fallsByNodes(op string) []Finding {
	for _, nodes := range v.Conditions.Nodes[1:] {
		m, base := v.find(op, Direct, nodes, v.largest), v.find(op, Direct, v.Conditions.Nodes[0], v.largest)
		if m == nil || base == nil || m.Efficiency >= fall {
			continue
		}
		return []Finding{{About: FindCurve, Operation: op, Nodes: nodes, Bytes: v.largest, Falls: true, Text: fmt.Sprintf(
			"falls with nodes: %s efficient among %d, %s where %d had %s, at %v: %s",
			percent(m.Efficiency), nodes, rate(m.BusGBs), base.Nodes, rate(base.BusGBs), report.Bytes(v.largest), v.why(m, base))}}
	}
	// The largest size is well; so only steps that are more can be what smaller ones lose.
	for _, size := range slices.Backward(v.Conditions.Bytes) {
		if m := v.find(op, Direct, v.most, size); m != nil && m.Efficiency < fall {
			return []Finding{{About: FindCurve, Operation: op, Nodes: v.most, Bytes: size, Text: fmt.Sprintf(
				"%s at %v among %d nodes, %s efficient; below %s of %d nodes' to %v: there are more steps, with less in each",
				rate(v.find(op, Direct, v.most, v.largest).BusGBs), report.Bytes(v.largest), v.most,
				percent(v.find(op, Direct, v.most, v.largest).Efficiency), percent(fall), v.Conditions.Nodes[0], report.Bytes(size))}}
		}
	}
	return nil
}

// why finds what a fall comes of: what takes most of the time, and if that is waiting,
// the hop that is waited for, or what the hops share.
func (v *judge) why(m, before *Measurement) string {
	switch {
	case m.Bytes <= v.latencyBound(m.Operation, m.Nodes):
		return "latency: more steps, and little in each"
	case m.Copy >= mostly*m.Seconds:
		return fmt.Sprintf("the path: copying to and from the memory is %s of the time", percent(m.Copy/m.Seconds))
	case m.Sum >= mostly*m.Seconds:
		return fmt.Sprintf("the CPU: adding is %s of the time", percent(m.Sum/m.Seconds))
	}
	if slow, others := v.slowHop(); slow != nil && m.Nodes == v.most {
		return fmt.Sprintf("the hop from node %d to node %d, which alone moves %s, others %s", slow.From, slow.To, rate(slow.GBs), rate(others))
	}
	if node, text := v.unequal(); node >= 0 && m.Nodes == v.most {
		return "placement: " + text
	}
	alone := v.aloneRate()
	tcp, tcpBefore := v.find(m.Operation, TCP, m.Nodes, m.Bytes), v.find(m.Operation, TCP, before.Nodes, before.Bytes)
	also := ""
	if tcp != nil && tcpBefore != nil && tcp.BusGBs < fall*tcpBefore.BusGBs {
		also = "; TCP falls as well"
	}
	switch {
	case v.Conditions.Embedded:
		return fmt.Sprintf("the machine: %d nodes and their software NICs share %d CPUs%s", m.Nodes, v.Conditions.CPUs[0], also)
	case alone > 0 && m.BusGBs < fall*alone:
		return fmt.Sprintf("what the hops share: one alone moves %s%s", rate(alone), also)
	case also != "":
		return "what RDMA and TCP share: TCP falls as well"
	}
	return "nothing that was measured tells"
}
