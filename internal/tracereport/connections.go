package tracereport

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// ConnectionsSchema is the schema of its records.
const ConnectionsSchema = "peerdirect.trace.connections/1"

// Connections is what queue pairs did until a moment, and those that are alive.
type Connections struct {
	Tracing
	QPs         []ebpfprobes.QP
	Transitions []ebpfprobes.QPTransition
}

// Only leaves what is on one device.
func (r *Connections) Only(device string) {
	var pairs []ebpfprobes.QP
	for _, q := range r.QPs {
		if q.Device == device {
			pairs = append(pairs, q)
		}
	}
	var transitions []ebpfprobes.QPTransition
	for _, t := range r.Transitions {
		if t.Device == device {
			transitions = append(transitions, t)
		}
	}
	r.QPs, r.Transitions = pairs, transitions
}

// WriteText prints the queue pairs that are alive, and below what was counted.
func (r *Connections) WriteText(w io.Writer, l Layout) error {
	b := bufio.NewWriter(w)
	var tail strings.Builder
	transitions := r.Transitions
	if l.Height > 0 {
		transitions = transitions[:min(len(transitions), max(l.Height/3, 3))]
	}
	if err := writeTransitions(&tail, transitions, l.Width); err != nil {
		return err
	}
	r.writeState(&tail, l.Width)
	pairs := r.QPs
	if room := l.Height - strings.Count(tail.String(), "\n") - 2; l.Height > 0 && len(pairs) > max(room, 1) {
		pairs = pairs[:max(room, 1)]
	}
	t := table{head: []string{"DEVICE", ">QP", "TYPE", ">PID", "PROCESS", "STATE", ">CHANGES", ">AGE", ">MTU", ">TO QP", "TO GID"},
		drop: []string{">MTU", ">CHANGES", ">AGE", ">PID", "TYPE"}}
	for i := range pairs {
		q := &pairs[i]
		age := "?"
		if !q.Born.IsZero() {
			age = ageText(r.At.Sub(q.Born))
		}
		t.add(Name(q.Device), strconv.Itoa(int(q.Number)), q.Type.String(), ownerNumber(q.PID, q.Kernel), Name(q.Command), q.State.String(),
			strconv.Itoa(int(q.Changes)), age, numberText(uint64(q.MTU)), numberText(uint64(q.RemoteQPN)), gidText(q.RemoteGID))
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(b, "no queue pair is alive that was seen to change")
	} else if err := t.write(b, l.Width); err != nil {
		return err
	}
	if n := len(r.QPs) - len(pairs); n > 0 {
		fmt.Fprintf(b, "… and %d queue pairs more\n", n)
	}
	b.WriteString(tail.String())
	return b.Flush()
}

func gidText(a netip.Addr) string {
	if !a.IsValid() {
		return "?"
	}
	return a.String()
}

func writeTransitions(b *strings.Builder, list []ebpfprobes.QPTransition, width int) error {
	if len(list) == 0 {
		return nil
	}
	b.WriteByte('\n')
	t := table{head: []string{">COUNT", ">PID", "PROCESS", "DEVICE", "TYPE", "CHANGE", ">MEAN", ">MAX", "FAILED"}, drop: []string{">MEAN", "TYPE", ">PID"}}
	for i := range list {
		q := &list[i]
		failed, mean, longest := "", "", ""
		if q.Err != 0 {
			failed = errname.Of(q.Err)
		}
		if q.Change == ebpfprobes.Modified && q.Count > 0 {
			mean, longest = Duration(q.Sum/time.Duration(q.Count)), Duration(q.Longest)
		}
		t.add(count(q.Count), endedNumber(q.PID, q.Ended), Name(q.Command), Name(q.Device), q.Type.String(), changeText(q.Change, q.From, q.To), mean, longest, failed)
	}
	return t.write(b, width)
}

func changeText(c ebpfprobes.Change, from, to ebpfprobes.QPState) string {
	switch {
	case c == ebpfprobes.Created:
		return "created"
	case c == ebpfprobes.Destroyed:
		return "destroyed in " + from.String()
	case from == to:
		return "attributes in " + from.String()
	}
	return from.String() + " to " + to.String()
}

// WriteChange prints one change in a line.
func WriteChange(w io.Writer, c *ebpfprobes.QPChange) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d/%d  %s  %s  %s qp %d  %s", c.At.Local().Format("15:04:05.000000"), c.PID, c.TID, Name(c.Command),
		Name(c.QP.Device), c.QP.Type, c.QP.Number, changeText(c.Change, c.From, c.To))
	if c.To == ebpfprobes.StateRTR && c.Change == ebpfprobes.Modified && (c.QP.RemoteQPN != 0 || c.QP.RemoteGID.IsValid()) {
		fmt.Fprintf(&b, "  peer qp %s at %s, mtu %s", numberText(uint64(c.QP.RemoteQPN)), gidText(c.QP.RemoteGID), numberText(uint64(c.QP.MTU)))
	}
	if c.Change == ebpfprobes.Modified {
		fmt.Fprintf(&b, "  took %s", Duration(c.Took))
	}
	if c.Err != 0 {
		fmt.Fprintf(&b, "  failed: %s", errname.Of(c.Err))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// Panels gives nothing to draw.
func (r *Connections) Panels() []Panel { return nil }

// Metrics gives what was counted.
func (r *Connections) Metrics() []Metric {
	changes := Metric{Name: "peerdirect_qp_changes_total", Type: Counter, Labels: []string{"process", "device", "type", "change", "from", "to", "errno"},
		Help: "Changes of queue pairs; errno is none where they did not fail."}
	seconds := Metric{Name: "peerdirect_qp_change_seconds_total", Type: Counter, Labels: []string{"device", "type", "from", "to"}, Help: "How long modifications took."}
	for _, t := range r.Transitions {
		errno := "none"
		if t.Err != 0 {
			errno = errname.Of(t.Err)
		}
		changes.Samples = append(changes.Samples, Sample{Value: float64(t.Count),
			Labels: []string{label(t.Command), label(t.Device), t.Type.String(), t.Change.String(), t.From.String(), t.To.String(), errno}})
		if t.Change == ebpfprobes.Modified {
			seconds.Samples = append(seconds.Samples, Sample{Value: t.Sum.Seconds(), Labels: []string{label(t.Device), t.Type.String(), t.From.String(), t.To.String()}})
		}
	}
	pairs := Metric{Name: "peerdirect_qps", Type: Gauge, Labels: []string{"device", "type", "state"}, Help: "Queue pairs alive that were seen to change, by state."}
	for _, q := range r.QPs {
		pairs.Samples = append(pairs.Samples, Sample{Value: 1, Labels: []string{label(q.Device), q.Type.String(), q.State.String()}})
	}
	return append([]Metric{changes, seconds, pairs}, r.Tracing.metrics()...)
}
