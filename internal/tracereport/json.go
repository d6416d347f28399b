package tracereport

import (
	"encoding/json"
	"io"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// Schemas of the records. Within a version members are added, never changed.
const (
	RegistrationsSchema = "peerdirect.trace.registrations/1"
	ProbesSchema        = "peerdirect.trace.probes/1"
)

// Stream writes records, one a line, each with its schema, what it is ("record") and
// when it was made ("at"). What is not known is null; times are ns.
type Stream struct {
	schema string
	encode *json.Encoder
}

// NewStream makes a stream of one schema.
func NewStream(w io.Writer, schema string) *Stream {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &Stream{schema, e}
}

type recordHead struct {
	Schema string    `json:"schema"`
	Record string    `json:"record"`
	At     time.Time `json:"at"`
}

func (s *Stream) head(record string, at time.Time) recordHead {
	return recordHead{s.schema, record, at}
}

// Begin tells what is traced, and by which probes.
func (s *Stream) Begin(at time.Time, pid int, device string, probes []ebpfprobes.Probe) error {
	return s.encode.Encode(struct {
		recordHead
		PID    *int        `json:"pid"`    // null is all
		Device *string     `json:"device"` // null is all
		Probes []probeJSON `json:"probes"`
	}{s.head("begin", at), known(pid), known(device), probesJSON(probes)})
}

// Notice tells what happened to the tracing: detached, attached, shed, …
func (s *Stream) Notice(at time.Time, event, text string) error {
	return s.encode.Encode(struct {
		recordHead
		Event string `json:"event"`
		Text  string `json:"text"`
	}{s.head("notice", at), event, text})
}

// known makes the zero value null.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

type probeJSON struct {
	Purpose  string           `json:"purpose"`
	Role     string           `json:"role"`
	Function string           `json:"function"`
	Module   *string          `json:"module"` // null is the kernel itself, or not found
	By       *ebpfprobes.By   `json:"by"`
	Usable   ebpfprobes.State `json:"usable"`
	Why      *string          `json:"why"` // of a no or unknown
	Needed   bool             `json:"needed"`
}

func probesJSON(probes []ebpfprobes.Probe) []probeJSON {
	list := make([]probeJSON, 0, len(probes))
	for _, p := range probes {
		list = append(list, probeJSON{p.Purpose, p.Role, p.Function, known(p.Module), known(p.By), p.Usable, known(p.Why), p.Needed})
	}
	return list
}

type histogramJSON struct {
	Count uint64      `json:"count"`
	Sum   int64       `json:"sum_ns"`
	Mean  int64       `json:"mean_ns"`
	P50   *int64      `json:"p50_ns"` // null of what is not counted by slots
	P90   *int64      `json:"p90_ns"`
	P99   *int64      `json:"p99_ns"`
	Max   int64       `json:"max_ns"`
	Slots [][3]uint64 `json:"slots"` // from ns, to below ns, count
}

func histogramOf(h *ebpfprobes.Histogram) histogramJSON {
	j := histogramJSON{Count: h.Count, Sum: h.Sum.Nanoseconds(), Mean: h.Mean().Nanoseconds(),
		Max: h.Longest.Nanoseconds(), Slots: [][3]uint64{}}
	if h.Slots != nil {
		quantile := func(q float64) *int64 { return new(h.Quantile(q).Nanoseconds()) }
		j.P50, j.P90, j.P99 = quantile(.5), quantile(.9), quantile(.99)
	}
	for i, n := range h.Slots {
		if n > 0 {
			low, high := ebpfprobes.SlotRange(i)
			j.Slots = append(j.Slots, [3]uint64{uint64(low), uint64(high), uint64(n)})
		}
	}
	return j
}

// WriteRecords writes what was counted: a "row" for each row, a "failure" for each way
// to fail, then how the tracing stands, as "tracing".
func (r *Registrations) WriteRecords(s *Stream) error {
	for i := range r.Rows {
		if err := s.encode.Encode(s.row(r, i)); err != nil {
			return err
		}
	}
	for _, f := range r.Failures {
		if err := s.encode.Encode(s.failure(r.At, f)); err != nil {
			return err
		}
	}
	return s.Tracing(&r.Tracing)
}

type rowJSON struct {
	recordHead
	PID       *int                     `json:"pid"` // null: processes of that name that have ended
	Process   *string                  `json:"process"`
	Device    *string                  `json:"device"`
	Operation string                   `json:"operation"`
	Kind      *string                  `json:"kind"`
	Size      *uint64                  `json:"size"` // lengths from this to below its double, bytes
	Failed    uint64                   `json:"failed"`
	Bytes     uint64                   `json:"bytes"`
	Rate      *float64                 `json:"rate"` // calls a second; null: processes that have ended
	Whole     histogramJSON            `json:"whole"`
	Phases    map[string]histogramJSON `json:"phases"`
	Ended     bool                     `json:"ended"` // pid is null
}

func (s *Stream) row(r *Registrations, i int) rowJSON {
	row := &r.Rows[i]
	j := rowJSON{recordHead: s.head("row", r.At), PID: known(row.PID), Process: known(row.Command), Device: known(row.Device),
		Operation: row.Operation.String(), Kind: kindJSON(row.Kind), Size: known(row.Size),
		Failed: row.Failed, Bytes: row.Bytes, Rate: r.rate(i), Whole: histogramOf(&row.Whole), Phases: make(map[string]histogramJSON), Ended: row.PID == 0}
	for p := range ebpfprobes.Phases {
		if row.Phases[p].Count > 0 {
			j.Phases[p.String()] = histogramOf(&row.Phases[p])
		}
	}
	return j
}

func kindJSON(k ebpfprobes.Kind) *string {
	if k == ebpfprobes.KindUnknown {
		return nil
	}
	return known(k.String())
}

type failureJSON struct {
	recordHead
	PID       *int    `json:"pid"`
	Process   *string `json:"process"`
	Device    *string `json:"device"`
	Operation string  `json:"operation"`
	Kind      *string `json:"kind"`
	Count     uint64  `json:"count"`
	Errno     string  `json:"errno"`
	Cause     *string `json:"cause"` // what failed first
	Phase     *string `json:"phase"` // and where
	Hint      *string `json:"hint"`
}

func (s *Stream) failure(at time.Time, f ebpfprobes.RegistrationFailure) failureJSON {
	cause := f.Cause
	if cause == 0 {
		cause = f.Err
	}
	j := failureJSON{s.head("failure", at), known(f.PID), known(f.Command), known(f.Device), f.Operation.String(), kindJSON(f.Kind), f.Count,
		errname.Of(f.Err), nil, nil, known(Hint(f.Operation, f.Kind, f.Err, f.Cause, f.CausePhase))}
	if f.CausePhase != ebpfprobes.UnknownPhase {
		j.Cause, j.Phase = known(errname.Of(cause)), known(f.CausePhase.String())
	}
	return j
}

// Tracing writes how the tracing stands.
func (s *Stream) Tracing(t *Tracing) error {
	lost := make(map[string]uint64)
	for _, l := range losses(t.Losses) {
		lost[l.name] = l.count
	}
	return s.encode.Encode(struct {
		recordHead
		Traced   float64           `json:"traced_s"` // how long programs were attached
		Attached bool              `json:"attached"`
		Lost     map[string]uint64 `json:"lost"`
		Overhead *overheadJSON     `json:"overhead"`
		Untold   uint64            `json:"untold"` // attached return probes of which the kernel does not tell what they missed
	}{s.head("tracing", t.At), t.Traced.Seconds(), t.Attached, lost, overheadOf(t), t.Losses.Untold})
}

type overheadJSON struct {
	Share  float64     `json:"share"` // of the time of all CPUs
	Last   float64     `json:"last_share"`
	Budget *float64    `json:"budget"`
	Began  time.Time   `json:"measured_at"`
	Over   int64       `json:"measured_ns"`
	CPUs   int         `json:"cpus"`
	Probes []probeCost `json:"probes"`
}

type probeCost struct {
	Role     string `json:"role"`
	Function string `json:"function"`
	Hits     uint64 `json:"hits"`
	Ran      int64  `json:"ran_ns"` // in the programs: measured
	Way      int64  `json:"way_ns"` // into and out of them: a fixed cost a hit
}

func overheadOf(t *Tracing) *overheadJSON {
	o := t.Overhead
	if o == nil {
		return nil
	}
	j := &overheadJSON{o.Share(), t.LastShare, known(t.Budget), o.Began, o.Over.Nanoseconds(), o.CPUs, []probeCost{}}
	for _, c := range o.Probes {
		if c.Hits > 0 {
			j.Probes = append(j.Probes, probeCost{c.Probe.Role, c.Probe.Function, c.Hits, c.Ran.Nanoseconds(), c.Way.Nanoseconds()})
		}
	}
	return j
}
