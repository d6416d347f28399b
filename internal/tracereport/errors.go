package tracereport

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// ErrorsSchema is the schema of its records.
const ErrorsSchema = "peerdirect.trace.errors/1"

// Errors is what failed until a moment.
type Errors struct {
	Tracing
	Rows  []ebpfprobes.ErrorRow
	Asked uint64 // failures that WithoutQuestions left out
}

// WithoutQuestions leaves out what is most likely a question of a library.
func (r *Errors) WithoutQuestions() {
	var rows []ebpfprobes.ErrorRow
	for _, row := range r.Rows {
		if row.Question() {
			r.Asked += row.Count
			continue
		}
		rows = append(rows, row)
	}
	r.Rows = rows
}

// Only leaves what is on one device, or on one that is not known.
func (r *Errors) Only(device string) {
	var rows []ebpfprobes.ErrorRow
	for _, row := range r.Rows {
		if row.Device == device || row.Device == "" {
			rows = append(rows, row)
		}
	}
	r.Rows = rows
}

// WriteText prints a row for each sort of failure.
func (r *Errors) WriteText(w io.Writer, l Layout) error {
	b := bufio.NewWriter(w)
	var tail strings.Builder
	if r.Asked > 0 {
		tail.WriteString(cut(fmt.Sprintf("\nleft out: %d calls by which libraries ask what there is (--questions)", r.Asked), l.Width) + "\n")
	}
	r.writeState(&tail, l.Width)
	rows := r.Rows
	if room := l.Height - strings.Count(tail.String(), "\n") - 2; l.Height > 0 && len(rows) > max(room, 1) {
		rows = rows[:max(room, 1)]
	}
	t := table{head: []string{">COUNT", "CLASS", ">PID", "PROCESS", "DEVICE", "WHAT", "ERROR", ">LAST", "DETAIL"},
		drop: []string{">PID", ">LAST", "CLASS", "DEVICE"}}
	for i := range rows {
		row := &rows[i]
		t.add(count(row.Count), row.Class.String(), endedNumber(row.PID, row.Ended), Name(row.Command), Name(row.Device), Name(row.What),
			errorText(&row.ErrorSort), ageText(r.At.Sub(row.Last))+" ago", detail(&row.ErrorSort, row.Number, row.Cause))
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(b, "nothing has failed")
	} else if err := t.write(b, l.Width); err != nil {
		return err
	}
	if n := len(r.Rows) - len(rows); n > 0 {
		fmt.Fprintf(b, "… and %d rows more\n", n)
	}
	b.WriteString(tail.String())
	return b.Flush()
}

func errorText(e *ebpfprobes.ErrorSort) string {
	if e.Err == 0 {
		return ""
	}
	return errname.Of(e.Err)
}

// detail tells what else is known: of the last failure of a row.
func detail(e *ebpfprobes.ErrorSort, number uint32, cause *ebpfprobes.CommandFailure) string {
	var parts []string
	switch {
	case e.Class == ebpfprobes.CallError && cause != nil:
		parts = append(parts, "device's command "+Name(cause.String()))
	case cause != nil && (cause.Status != 0 || cause.Syndrome != 0):
		parts = append(parts, fmt.Sprintf("status %#x, syndrome %#x", cause.Status, cause.Syndrome))
	}
	if number != 0 && e.What == "PORT_ERR" {
		parts = append(parts, fmt.Sprintf("port %d", number))
	} else if number != 0 {
		parts = append(parts, fmt.Sprintf("qp %d", number))
	}
	if e.Vendor != 0 {
		parts = append(parts, fmt.Sprintf("vendor's code %#x", e.Vendor))
	}
	return strings.Join(parts, ", ")
}

// WriteFailure prints one failure in a line.
func WriteFailure(w io.Writer, f *ebpfprobes.Failure) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s/%s  %s  %s  %s %s", f.At.Local().Format("15:04:05.000000"), ownerNumber(f.PID, false), ownerNumber(f.TID, false),
		Name(f.Command), Name(f.Device), f.Class, Name(f.What))
	if text := errorText(&f.ErrorSort); text != "" {
		b.WriteString(": " + text)
	}
	if more := detail(&f.ErrorSort, f.Number, f.Cause); more != "" {
		b.WriteString("  " + more)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

type errorJSON struct {
	recordHead
	Class   string       `json:"class"`
	PID     *int         `json:"pid"`
	TID     *int         `json:"tid,omitempty"` // of events
	Process *string      `json:"process"`
	Device  *string      `json:"device"`
	What    string       `json:"what"`
	Errno   *string      `json:"errno"`
	Vendor  *uint16      `json:"vendor"`
	Number  *uint32      `json:"number"` // queue pair or port, of the last
	Cause   *commandJSON `json:"command"`
	Count   uint64       `json:"count"`
	First   *string      `json:"first,omitempty"` // of rows
	Last    *string      `json:"last,omitempty"`
	Ended   *bool        `json:"ended,omitempty"` // of rows: processes of that name that have ended; pid is null
}

type commandJSON struct {
	What     string  `json:"what"`
	Errno    string  `json:"errno"`
	Status   *uint8  `json:"status"`
	Syndrome *string `json:"syndrome"`
}

func (s *Stream) error(record string, at time.Time, e *ebpfprobes.ErrorSort, command string, number uint32, c *ebpfprobes.CommandFailure) errorJSON {
	j := errorJSON{recordHead: s.head(record, at), Class: e.Class.String(), PID: known(e.PID), Process: known(command), Device: known(e.Device),
		What: e.What, Errno: known(errorText(e)), Vendor: known(e.Vendor), Number: known(number), Count: 1}
	if c != nil {
		j.Cause = &commandJSON{What: c.What, Errno: errname.Of(c.Err), Status: known(c.Status)}
		if c.Syndrome != 0 {
			j.Cause.Syndrome = known(hex(uint64(c.Syndrome)))
		}
	}
	return j
}

// WriteRecords writes a "row" for each sort of failure, and how the tracing stands.
func (r *Errors) WriteRecords(s *Stream) error {
	for i := range r.Rows {
		row := &r.Rows[i]
		j := s.error("row", r.At, &row.ErrorSort, row.Command, row.Number, row.Cause)
		j.Ended = &row.Ended
		j.Count, j.First, j.Last = row.Count, known(row.First.Format(time.RFC3339Nano)), known(row.Last.Format(time.RFC3339Nano))
		if err := s.encode.Encode(j); err != nil {
			return err
		}
	}
	return s.Tracing(&r.Tracing)
}

// Failure writes one failure.
func (s *Stream) Failure(f *ebpfprobes.Failure) error {
	j := s.error("event", f.At, &f.ErrorSort, f.Command, f.Number, f.Cause)
	j.TID = known(f.TID)
	return s.encode.Encode(j)
}

// Panels gives nothing to draw.
func (r *Errors) Panels() []Panel { return nil }

// Metrics gives what was counted.
func (r *Errors) Metrics() []Metric {
	failed := Metric{Name: "peerdirect_errors_total", Type: Counter, Labels: []string{"class", "process", "device", "what", "errno"},
		Help: "What failed: calls, commands of devices, events of devices and queues, completions."}
	for i := range r.Rows {
		row := &r.Rows[i]
		errno := "none"
		if row.Err != 0 {
			errno = errname.Of(row.Err)
		}
		failed.Samples = append(failed.Samples, Sample{Value: float64(row.Count),
			Labels: []string{row.Class.String(), label(row.Command), label(row.Device), label(row.What), errno}})
	}
	return append([]Metric{failed}, r.Tracing.metrics()...)
}
