package tracereport

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// LeaksSchema is the schema of its records.
const LeaksSchema = "peerdirect.trace.leaks/1"

// Leaks is what was alive at a moment.
type Leaks struct {
	Tracing
	Rows     []ebpfprobes.LeakRow
	Window   int // intervals of a verdict
	Interval time.Duration
}

// Only leaves what is on one device.
func (r *Leaks) Only(device string) {
	var rows []ebpfprobes.LeakRow
	for _, row := range r.Rows {
		if row.Device == device {
			rows = append(rows, row)
		}
	}
	r.Rows = rows
}

// WriteText prints a row for each stack that made what is alive, and the stacks of those
// that are not steady.
func (r *Leaks) WriteText(w io.Writer, l Layout) error {
	b := bufio.NewWriter(w)
	var tail strings.Builder
	r.writeStacks(&tail, l)
	if n := r.unsearched(); n > 0 {
		tail.WriteString(cut(fmt.Sprintf("\nwho holds %d dma-bufs is not known yet: not all processes have been looked through", n), l.Width) + "\n")
	}
	r.writeState(&tail, l.Width)
	rows := r.Rows
	if room := l.Height - strings.Count(tail.String(), "\n") - 2; l.Height > 0 && len(rows) > max(room, 1) {
		rows = rows[:max(room, 1)]
	}
	t := table{head: []string{"VERDICT", ">PID", "PROCESS", "DEVICE", "WHAT", ">ALIVE", ">BYTES", ">NEW", ">SURVIVED", ">ENDED", ">GROWN", ">OLDEST", "MADE BY"},
		drop: []string{">ENDED", ">NEW", ">BYTES", ">GROWN", ">SURVIVED", ">PID", "DEVICE"}}
	for i := range rows {
		row := &rows[i]
		t.add(row.Verdict.String(), ownerNumber(row.PID, row.Kernel), Name(row.Command), deviceOf(row), row.Resource.String(),
			count(row.Alive), Bytes(row.Bytes), count(row.Born), count(row.Survivors), count(row.Ended),
			strconv.FormatInt(row.Grown, 10), ageText(r.At.Sub(row.Oldest)), madeBy(row))
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(b, "nothing is alive that was made since the trace began")
	} else if err := t.write(b, l.Width); err != nil {
		return err
	}
	if n := len(r.Rows) - len(rows); n > 0 {
		fmt.Fprintf(b, "… and %d rows more\n", n)
	}
	b.WriteString(tail.String())
	return b.Flush()
}

func (r *Leaks) unsearched() (n uint64) {
	for i := range r.Rows {
		n += r.Rows[i].Unsearched
	}
	return n
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func ageText(d time.Duration) string { return max(d, 0).Round(time.Second).String() }

// ownerNumber is a process, or the kernel; "?" is not known.
func ownerNumber(pid int, kernel bool) string {
	switch {
	case kernel:
		return "kernel"
	case pid == 0:
		return "?"
	}
	return strconv.Itoa(pid)
}

// endedNumber is the number of a process, or "ended": those that have ended are one row.
func endedNumber(pid int, ended bool) string {
	if ended {
		return "ended"
	}
	return ownerNumber(pid, false)
}

// deviceOf is the exporter of a dma-buf, which is on no device.
func deviceOf(row *ebpfprobes.LeakRow) string {
	if row.Resource == ebpfprobes.DMABuffer {
		return Name(row.Exporter)
	}
	return Name(row.Device)
}

// writeStacks tells of each row that is not steady, in full; on a terminal of the first.
func (r *Leaks) writeStacks(b *strings.Builder, l Layout) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Verdict == ebpfprobes.Steady || l.Height > 0 && i > 0 {
			continue
		}
		b.WriteByte('\n')
		b.WriteString(cut(fmt.Sprintf("%s: %s", row.Verdict, r.why(row)), l.Width) + "\n")
		for n, f := range row.KernelStack {
			if l.Height > 0 && n == max(l.Height/3, 3) {
				break
			}
			b.WriteString(cut(fmt.Sprintf("    kernel #%-2d %s", n, Name(f.String())), l.Width) + "\n")
		}
		for n, f := range row.Stack {
			if l.Height > 0 && n == max(l.Height/3, 3) {
				break
			}
			b.WriteString(cut(fmt.Sprintf("    #%-2d %s", n, Name(f.String())), l.Width) + "\n")
		}
		if row.StackNote != "" {
			b.WriteString(cut("    "+row.StackNote, l.Width) + "\n")
		}
	}
}

// why says what a verdict rests on.
func (r *Leaks) why(row *ebpfprobes.LeakRow) string {
	what := fmt.Sprintf("%d %s of %s (%s)", row.Alive, row.Resource, Name(row.Command), ownerNumber(row.PID, row.Kernel))
	switch row.Verdict {
	case ebpfprobes.Leaking:
		return fmt.Sprintf("%s: %d more than %s ago, and none of the old ones ended", what, row.Grown, time.Duration(r.Window)*r.Interval)
	case ebpfprobes.Growing:
		return fmt.Sprintf("%s: %d more than %s ago, and never fewer", what, row.Grown, time.Duration(r.Window)*r.Interval)
	case ebpfprobes.Abandoned:
		if row.Resource == ebpfprobes.DMABuffer {
			return fmt.Sprintf("%s, which has ended: %d are held by no process", what, row.Unheld)
		}
		return what + ", which has ended: another process still holds the device's descriptor"
	}
	return what
}

// madeBy gives the innermost functions of the program's own, behind what every
// registration passes.
func madeBy(row *ebpfprobes.LeakRow) string {
	if row.Kernel {
		return "the kernel"
	}
	var names []string
	for _, f := range row.Stack {
		if len(names) == 0 && passedByAll(f.File) {
			continue
		}
		name := f.Function
		if name == "" {
			name = ebpfprobes.Frame{Address: f.Address, Offset: f.Offset, File: f.File}.String()
		}
		if names = append(names, Name(name)); len(names) == 3 {
			break
		}
	}
	if len(names) == 0 {
		return "?"
	}
	return strings.Join(names, " < ")
}

// passedByAll tells the libraries between a program and the kernel.
func passedByAll(file string) bool {
	base := path.Base(file)
	return file == "" || strings.HasPrefix(base, "libc.so") || strings.HasPrefix(base, "libibverbs") ||
		strings.HasPrefix(base, "ld-linux") || strings.Contains(base, "-rdmav") ||
		strings.HasPrefix(base, "libmlx5") || strings.HasPrefix(base, "libefa")
}

type leakJSON struct {
	recordHead
	Verdict   string   `json:"verdict"`
	PID       *int     `json:"pid"`
	Process   *string  `json:"process"`
	Kernel    bool     `json:"kernel"` // the kernel's own
	Device    *string  `json:"device"`
	What      string   `json:"what"`
	Exporter  *string  `json:"exporter"` // of dma-bufs
	Alive     uint64   `json:"alive"`
	Bytes     uint64   `json:"bytes"`
	Born      uint64   `json:"born"`
	Survivors uint64   `json:"survivors"`
	Ended     uint64   `json:"ended"`
	Grown     int64    `json:"grown"`
	Oldest    string   `json:"oldest"`
	Gone      bool     `json:"process_gone"`
	Unheld    uint64   `json:"unheld"` // dma-bufs that no process holds
	Stack     []string `json:"stack"`
	Note      *string  `json:"stack_note"`
	InKernel  []string `json:"kernel_stack"` // null: not asked for
	// Unsearched dma-bufs are those of which it is not known yet whether a process holds them.
	Unsearched uint64 `json:"unsearched"`
}

// WriteRecords writes a "row" for each row, and how the tracing stands.
func (r *Leaks) WriteRecords(s *Stream) error {
	for i := range r.Rows {
		row := &r.Rows[i]
		stack := append([]string{}, frameNames(row.Stack)...)
		if err := s.encode.Encode(leakJSON{s.head("row", r.At), row.Verdict.String(), known(row.PID), known(row.Command), row.Kernel,
			known(row.Device), row.Resource.String(), known(row.Exporter), row.Alive, row.Bytes, row.Born, row.Survivors, row.Ended, row.Grown,
			row.Oldest.Format(time.RFC3339Nano), row.Gone, row.Unheld, stack, known(row.StackNote), frameNames(row.KernelStack), row.Unsearched}); err != nil {
			return err
		}
	}
	return s.Tracing(&r.Tracing)
}

func frameNames(frames []ebpfprobes.Frame) (names []string) {
	for _, f := range frames {
		names = append(names, f.String())
	}
	return names
}

// Panels gives nothing to draw.
func (r *Leaks) Panels() []Panel { return nil }

// Metrics gives what is alive.
func (r *Leaks) Metrics() []Metric {
	alive := Metric{Name: "peerdirect_objects", Type: Gauge, Labels: []string{"process", "device", "what", "verdict"},
		Help: "Objects alive that were made since the trace began."}
	bytes := Metric{Name: "peerdirect_object_bytes", Type: Gauge, Labels: alive.Labels, Help: "Their lengths, of regions and dma-bufs."}
	for i := range r.Rows {
		row := &r.Rows[i]
		labels := []string{label(row.Command), label(row.Device), row.Resource.String(), row.Verdict.String()}
		alive.Samples = append(alive.Samples, Sample{Labels: labels, Value: float64(row.Alive)})
		bytes.Samples = append(bytes.Samples, Sample{Labels: labels, Value: float64(row.Bytes)})
	}
	return append([]Metric{alive, bytes}, r.Tracing.metrics()...)
}
