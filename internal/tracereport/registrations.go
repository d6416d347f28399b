package tracereport

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// Layout bounds a text to a terminal; zeros are no bounds.
type Layout struct {
	Width, Height int
	Log2          bool // a histogram below the table for each of its rows
}

// WriteText prints the table: a row for each process, device, operation, kind and class
// of lengths; below it what failed, what was lost and what tracing costs.
func (r *Registrations) WriteText(w io.Writer, l Layout) error {
	b := bufio.NewWriter(w)
	var tail strings.Builder
	failures := 0
	if l.Height > 0 {
		failures = max(l.Height/10, 1)
	}
	r.writeFailures(&tail, l.Width, failures)
	r.writeState(&tail, l.Width)
	rows, left := order(len(r.Rows), l.Height, tail.String(), func(i int) time.Duration { return r.Rows[i].Whole.Sum })
	t := table{head: []string{">PID", "PROCESS", "DEVICE", "OPERATION", "KIND", ">SIZE", ">COUNT", ">RATE/s", ">FAILED",
		">P50", ">P90", ">P99", ">MAX", "WHERE THE TIME GOES"}, drop: []string{">RATE/s", ">P90", "KIND", ">MAX", ">FAILED", ">PID"}}
	for _, i := range rows {
		row := &r.Rows[i]
		h := &row.Whole
		t.add(processNumber(row.PID), Name(row.Command), Name(row.Device), row.Operation.String(), kindText(row.Kind),
			sizeClass(row.Size), strconv.FormatUint(h.Count, 10), rateText(r.rate(i)), strconv.FormatUint(row.Failed, 10),
			Duration(h.Quantile(.5)), Duration(h.Quantile(.9)), Duration(h.Quantile(.99)), Duration(h.Longest), shares(row))
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(b, "no call was seen")
	} else if err := t.write(b, l.Width); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(b, "… and %d rows more, which took less time\n", left)
	}
	if l.Log2 {
		for _, i := range rows {
			row := &r.Rows[i]
			fmt.Fprintf(b, "\n%s (%s), %s, %s %s, %s:\n", Name(row.Command), processNumber(row.PID), Name(row.Device), row.Operation, kindText(row.Kind), sizeClass(row.Size))
			writeLog2(b, &row.Whole)
		}
	}
	b.WriteString(tail.String())
	return b.Flush()
}

// order gives as many of so many rows as a terminal of so many lines has room for above
// a tail, as they came: those that took the most time, one at least. Height 0 has room
// for all.
func order(all, height int, tail string, took func(i int) time.Duration) (rows []int, left int) {
	for i := range all {
		rows = append(rows, i)
	}
	room := max(height-strings.Count(tail, "\n")-2, 2)
	if height == 0 || all <= room {
		return rows, 0
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(took(b), took(a)) })
	left = all - (room - 1)
	rows = rows[:room-1]
	slices.Sort(rows)
	return rows, left
}

// processNumber is a process, or those that have ended.
func processNumber(pid int) string {
	if pid == 0 {
		return "ended"
	}
	return strconv.Itoa(pid)
}

func kindText(k ebpfprobes.Kind) string {
	if k == ebpfprobes.KindUnknown {
		return "?"
	}
	return k.String()
}

// shares lists the phases by their part of the time, the largest first; what is below a
// half percent is left out.
func shares(row *ebpfprobes.RegistrationRow) string {
	if row.Whole.Sum <= 0 {
		return ""
	}
	var phases []ebpfprobes.Phase
	for p := range ebpfprobes.Phases {
		if row.Phases[p].Sum > 0 {
			phases = append(phases, p)
		}
	}
	slices.SortStableFunc(phases, func(a, b ebpfprobes.Phase) int {
		return int(row.Phases[b].Sum - row.Phases[a].Sum)
	})
	var parts []string
	for _, p := range phases {
		if part := float64(row.Phases[p].Sum) / float64(row.Whole.Sum); part >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.0f%%", p, 100*part))
		}
	}
	return strings.Join(parts, " ")
}

// writeState tells of the tracing itself.
func (t *Tracing) writeState(b *strings.Builder, width int) {
	before := b.Len()
	line := func(format string, a ...any) {
		if b.Len() == before {
			b.WriteByte('\n')
		}
		b.WriteString(cut(fmt.Sprintf(format, a...), width) + "\n")
	}
	if t.Losses.Any() {
		line("lost: %s", lossesText(t.Losses))
	}
	if n := t.Losses.Untold; n > 0 {
		line("not known: what %d return probes missed (by kprobe; Linux tells from 6.7 on)", n)
	}
	if !t.Attached {
		line("detached: nothing is traced")
	} else if unseen := unseenRoles(t.Probes); len(unseen) > 0 {
		line("not told apart: %s ('peerdirect trace probes' tells why)", strings.Join(unseen, ", "))
	}
	switch {
	case t.Overhead != nil:
		line("overhead: %s of the time of %s, measured for %s%s", Percent(t.Overhead.Share()), cpus(t.Overhead.CPUs),
			Duration(t.Overhead.Over.Round(time.Millisecond)), budgetText(t.Budget))
	case t.Unmeasured != "":
		line("overhead: not measured: %s", t.Unmeasured)
	}
}

func budgetText(budget float64) string {
	if budget <= 0 {
		return ""
	}
	return "; at most " + strconv.FormatFloat(100*budget, 'g', 3, 64) + "%"
}

// unseenRoles are those that no probe plays. Roles of drivers that are not loaded are
// not missed; a needed role that is missing ends a session.
func unseenRoles(probes []ebpfprobes.Probe) (roles []string) {
	for _, p := range probes {
		if p.Needed || strings.HasSuffix(p.Why, " is not loaded") || slices.Contains(roles, p.Role) || slices.ContainsFunc(probes, func(q ebpfprobes.Probe) bool {
			return q.Role == p.Role && q.Usable == ebpfprobes.Yes
		}) {
			continue
		}
		roles = append(roles, p.Role)
	}
	return roles
}

// loss is a kind of loss, as JSON and Prometheus name it, and in words.
type loss struct {
	name, text string
	count      uint64
}

func losses(l ebpfprobes.Losses) []loss {
	return []loss{
		{"flights", "not followed, too many at once or not readable", l.Flights},
		{"cells", "not counted, the table of histograms is full", l.Cells},
		{"events", "events not shown, the reader was too slow", l.Events},
		{"regions", "live regions not kept, their table is full", l.Regions},
		{"names", "names not kept", l.Names},
		{"unconfirmed", "write()s that may be registrations, of processes that ended before it could be looked up", l.Unconfirmed},
		{"stacks", "stacks of the kernel not kept, their place was another's", l.Stacks},
		{"runs", "runs that the kernel left out", l.Runs},
	}
}

func lossesText(l ebpfprobes.Losses) string {
	var parts []string
	for _, x := range losses(l) {
		if x.count > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", x.text, x.count))
		}
	}
	return strings.Join(parts, "; ")
}
