package tracereport

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// CompletionsSchema is the schema of its records.
const CompletionsSchema = "peerdirect.trace.completions/1"

// Completions is how long completions waited until a moment.
type Completions struct {
	Tracing
	Rows     []ebpfprobes.CompletionRow
	Failures []ebpfprobes.CompletionFailure
	Sampling *ebpfprobes.Sampling // nil: queues that are polled are not followed
}

// Only leaves what is on one device.
func (r *Completions) Only(device string) {
	var rows []ebpfprobes.CompletionRow
	for _, row := range r.Rows {
		if row.Device == device {
			rows = append(rows, row)
		}
	}
	var failures []ebpfprobes.CompletionFailure
	for _, f := range r.Failures {
		if f.Device == device {
			failures = append(failures, f)
		}
	}
	r.Rows, r.Failures = rows, failures
}

// WriteText prints a row for each process, queue, sort of wait, opcode and class of
// lengths; below it what failed, how much of the time polled queues were followed, and
// how the tracing stands.
func (r *Completions) WriteText(w io.Writer, l Layout) error {
	b := bufio.NewWriter(w)
	var tail strings.Builder
	few := 0
	if l.Height > 0 {
		few = max(l.Height/10, 1)
	}
	r.writeFailures(&tail, l.Width, few)
	r.writeFollowed(&tail, l.Width, few)
	state := r.Tracing
	state.Probes, _ = r.probes()
	state.writeState(&tail, l.Width)
	rows, left := order(len(r.Rows), l.Height, tail.String(), func(i int) time.Duration { return r.Rows[i].Times.Sum })
	t := table{head: []string{">PID", "PROCESS", "DEVICE", "WAIT", "OPCODE", ">SIZE", ">COUNT", ">P50", ">P90", ">P99", ">MAX", ">FAILED", ">UNTIMED", "QUEUE"},
		drop: []string{">P90", ">MAX", ">SIZE", ">FAILED", ">UNTIMED", ">PID"}}
	for _, i := range rows {
		row := &r.Rows[i]
		h := &row.Times
		cells := []string{endedNumber(row.PID, row.PID == 0), Name(row.Command), Name(row.Device), row.Wait.String(), "-", "-", count(h.Count), "?", "?", "?", "?", "-", "-", queueText(row)}
		if h.Count > 0 {
			cells[7], cells[8], cells[9], cells[10] = Duration(h.Quantile(.5)), Duration(h.Quantile(.9)), Duration(h.Quantile(.99)), Duration(h.Longest)
		}
		if row.Wait.FromPosting() {
			cells[4], cells[5], cells[11] = opcodeText(row.Opcode), sizeClass(row.Size), count(row.Failed)
		}
		if row.Wait == ebpfprobes.Polled {
			cells[12] = count(row.Untimed)
		}
		t.add(cells...)
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(b, "no completion was seen")
	} else if err := t.write(b, l.Width); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(b, "… and %d rows more, which waited less in all\n", left)
	}
	if l.Log2 {
		for _, i := range rows {
			if row := &r.Rows[i]; row.Times.Count > 0 {
				fmt.Fprintf(b, "\n%s (%s), %s, queue %s, %s:\n", Name(row.Command), endedNumber(row.PID, row.PID == 0), Name(row.Device), queueText(row), waitText(row))
				writeLog2(b, &row.Times)
			}
		}
	}
	b.WriteString(tail.String())
	return b.Flush()
}

// queueText is the kernel's number of a queue; of one that is polled, the program's
// address of it. Marks are of a device, whatever queues it has.
func queueText(row *ebpfprobes.CompletionRow) string {
	if row.Wait == ebpfprobes.Marked {
		return "-"
	}
	if row.Number < 0 && row.Queue == 0 {
		return "several"
	}
	if row.Number < 0 {
		return hex(row.Queue)
	}
	return fmt.Sprint(row.Number)
}

// addressText is the program's address of a queue; marks do not tell it.
func addressText(queue uint64) string {
	if queue == 0 {
		return "-"
	}
	return hex(queue)
}

func opcodeText(o ebpfprobes.Opcode) string {
	if o == ebpfprobes.OpcodeUnknown {
		return "?"
	}
	return o.String()
}

func waitText(row *ebpfprobes.CompletionRow) string {
	if !row.Wait.FromPosting() {
		return row.Wait.String()
	}
	return fmt.Sprintf("%s %s %s", row.Wait, opcodeText(row.Opcode), sizeClass(row.Size))
}

// writeFailures prints what completed in error, the most frequent first; all of it if
// most is 0.
func (r *Completions) writeFailures(b *strings.Builder, width, most int) {
	if len(r.Failures) == 0 {
		return
	}
	b.WriteString("\nfailed:\n")
	for i, f := range r.Failures {
		if most > 0 && i == most {
			fmt.Fprintf(b, "  … and %d ways to fail more\n", len(r.Failures)-most)
			return
		}
		b.WriteString(cut(fmt.Sprintf("  %d × %s: %s (%s), %s, %s, queue pair %s, queue %s", f.Count, f.Status, Name(f.Command), ownerNumber(f.PID, false),
			Name(f.Device), opcodeText(f.Opcode), numberText(uint64(f.QP)), addressText(f.Queue)), width) + "\n")
	}
}

// polledRole begins the roles of probes in libraries.
const polledRole = "polled queues"

// probes parts those in the kernel from those in libraries.
func (r *Completions) probes() (events, polled []ebpfprobes.Probe) {
	for _, p := range r.Probes {
		if strings.HasPrefix(p.Role, polledRole) {
			polled = append(polled, p)
		} else {
			events = append(events, p)
		}
	}
	return events, polled
}

// notFollowed tells what of the polled queues cannot be followed, and why.
func (r *Completions) notFollowed() []string {
	lines := []string{}
	_, polled := r.probes()
	for _, p := range polled {
		if p.Usable != ebpfprobes.No {
			continue
		}
		where := p.Function
		if p.Module != "" {
			where = p.Module + ": " + where
		}
		if line := fmt.Sprintf("%s: %s: %s", p.Role, where, p.Why); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// writeFollowed tells how much of the time polled queues were followed, and what was not;
// most bounds the lines of that, if it is not 0.
func (r *Completions) writeFollowed(b *strings.Builder, width, most int) {
	line := func(format string, a ...any) { b.WriteString(cut(fmt.Sprintf(format, a...), width) + "\n") }
	if s := r.Sampling; s != nil {
		b.WriteByte('\n')
		line("polled queues: followed for %s of %s, in %d windows; %d work requests posted in them, of which %d complete silently",
			Duration(s.Followed), Duration(r.Traced.Round(time.Millisecond)), s.Windows, s.Posts, s.Unsignaled)
		var repeated uint64
		for i := range r.Rows {
			repeated += r.Rows[i].Repeated
		}
		if repeated > 0 {
			line("not timed: %d work requests whose id another had in flight, and that other", repeated)
		}
		for i, why := range r.notFollowed() {
			if most > 0 && i == most {
				break
			}
			line("not followed: %s", Name(why))
		}
	}
	if events, _ := r.probes(); r.Attached && ebpfprobes.Lacking(events) != nil {
		if r.Sampling == nil {
			b.WriteByte('\n')
		}
		line("not followed: completion events ('peerdirect trace probes --purpose completions' tells why)")
	}
}
