package collective

import (
	"fmt"

	"github.com/peerdirect/peerdirect/transfer/report"
)

// path compares the direct path with the others.
func (v *judge) path(op string) (all []Finding) {
	direct := v.find(op, Direct, v.most, v.largest)
	for _, other := range []string{Staged, TCP} {
		m := v.find(op, other, v.most, v.largest)
		if direct == nil || m == nil {
			continue
		}
		f := Finding{About: FindPath, Operation: op, Nodes: v.most, Bytes: v.largest}
		more := m.Seconds/direct.Seconds - 1
		what := other
		if other == Staged {
			what = fmt.Sprintf("%s (copying is %s of its time)", other, percent(m.Copy/m.Seconds))
		}
		switch at := report.Bytes(v.largest); {
		case more >= differs:
			f.Text = fmt.Sprintf("%s takes %s the time of direct at %v%s", what, times(1+more), at, v.from(op, other))
		case more <= -differs && v.largest <= v.latencyBound(op, v.most):
			f.Text = fmt.Sprintf("%s takes %s of direct's time at %v, which is bound by latency: take a larger size", what, percent(1+more), at)
		case more <= -differs:
			f.Falls = true
			f.Text = fmt.Sprintf("%s takes only %s of direct's time at %v: the direct path is the slower one here", what, percent(1+more), at)
		default:
			f.Text = fmt.Sprintf("%s takes as long as direct at %v: what limits both is not the path", what, at)
		}
		all = append(all, f)
	}
	return all
}

// from tells from which size on direct is the faster one, where it is not at all.
func (v *judge) from(op, other string) string {
	size := v.largest
	for i := len(v.Conditions.Bytes) - 1; i >= 0; i-- {
		d, m := v.find(op, Direct, v.most, v.Conditions.Bytes[i]), v.find(op, other, v.most, v.Conditions.Bytes[i])
		if d == nil || m == nil || m.Seconds < d.Seconds {
			return fmt.Sprintf("; from %v on direct is the faster one", report.Bytes(size))
		}
		size = v.Conditions.Bytes[i]
	}
	return ""
}

// registration looks from which size on registering each time costs little.
func (v *judge) registration(op string) []Finding {
	var from uint64
	var worst, last float64
	for _, size := range v.Conditions.Bytes {
		direct, m := v.find(op, Direct, v.most, size), v.find(op, Registered, v.most, size)
		if direct == nil || m == nil {
			return nil
		}
		last = m.Seconds/direct.Seconds - 1
		if worst = max(worst, last); last >= differs {
			from = 0
		} else if from == 0 {
			from = size
		}
	}
	m := v.find(op, Registered, v.most, v.largest)
	f := Finding{About: FindRegistration, Operation: op, Nodes: v.most, Bytes: v.largest}
	calls := fmt.Sprintf("at %v the calls take %s of %s", report.Bytes(v.largest), duration(m.Register), duration(m.Seconds))
	switch {
	case worst < differs:
		f.Text = "registering for each operation costs less than noise; " + calls
	case from > 0:
		f.Bytes = from
		f.Text = fmt.Sprintf("registering, and telling the neighbours, for each operation makes it up to %s as long; from %v on less than %s; %s", times(1+worst), report.Bytes(from), percent(differs), calls)
	default:
		f.Falls = true
		f.Text = fmt.Sprintf("registering, and telling the neighbours, for each operation makes it up to %s as long, and still %s at %v: register once, or behind a cache; %s",
			times(1+worst), times(1+last), report.Bytes(v.largest), calls)
	}
	return []Finding{f}
}
