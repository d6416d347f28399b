package tracereport

import "github.com/peerdirect/peerdirect/ebpfprobes"

type completionJSON struct {
	recordHead
	PID      *int           `json:"pid"`
	Process  *string        `json:"process"`
	Device   *string        `json:"device"`
	Queue    *string        `json:"queue"`  // the program's address of it; null of marks, and of several
	Number   *int64         `json:"number"` // the kernel's of it; null from posting
	Wait     string         `json:"wait"`
	Opcode   *string        `json:"opcode"`
	Size     *uint64        `json:"size"`  // lengths from this to below its double, bytes
	Times    *histogramJSON `json:"times"` // null: none was timed
	Failed   *uint64        `json:"failed"`
	Bytes    *uint64        `json:"bytes"` // of the completions that tell their length
	Untimed  *uint64        `json:"untimed"`
	Repeated *uint64        `json:"repeated"`
	Ended    bool           `json:"ended"` // processes of that name that have ended; pid is null
}

// completion makes a row's record. What events do not tell is null.
func (s *Stream) completion(r *Completions, row *ebpfprobes.CompletionRow) completionJSON {
	j := completionJSON{recordHead: s.head("row", r.At), PID: known(row.PID), Process: known(row.Command), Device: known(row.Device),
		Queue: queueJSON(row.Queue), Wait: row.Wait.String(), Opcode: opcodeJSON(row.Opcode), Size: known(row.Size), Ended: row.PID == 0}
	if row.Number >= 0 {
		j.Number = &row.Number
	}
	if row.Times.Count > 0 {
		times := histogramOf(&row.Times)
		j.Times = &times
	}
	if row.Wait.FromPosting() {
		j.Failed, j.Bytes = &row.Failed, known(row.Bytes)
	}
	if row.Wait == ebpfprobes.Polled {
		j.Untimed, j.Repeated = &row.Untimed, &row.Repeated
	}
	return j
}

func queueJSON(queue uint64) *string {
	if queue == 0 {
		return nil
	}
	return known(hex(queue))
}

func opcodeJSON(o ebpfprobes.Opcode) *string {
	if o == ebpfprobes.OpcodeUnknown {
		return nil
	}
	return known(o.String())
}

type completionFailureJSON struct {
	recordHead
	PID     *int    `json:"pid"`
	Process *string `json:"process"`
	Device  *string `json:"device"`
	Queue   *string `json:"queue"`
	QP      *uint32 `json:"qp"`
	Status  string  `json:"status"`
	Opcode  *string `json:"opcode"`
	Count   uint64  `json:"count"`
}

type samplingJSON struct {
	recordHead
	Windows     uint64   `json:"windows"` // that are over
	Followed    int64    `json:"followed_ns"`
	Posts       uint64   `json:"posts"`
	Unsignaled  uint64   `json:"unsignaled"`
	NotFollowed []string `json:"not_followed"` // functions, and why
	Opening     int64    `json:"opening_ns"`   // how long attaching took, all windows together
	Closing     int64    `json:"closing_ns"`   // and detaching
}

// WriteRecords writes a "row" for each row, a "failure" for each way to complete in error,
// a "sampling" if polled queues are followed, and how the tracing stands.
func (r *Completions) WriteRecords(s *Stream) error {
	for i := range r.Rows {
		if err := s.encode.Encode(s.completion(r, &r.Rows[i])); err != nil {
			return err
		}
	}
	for _, f := range r.Failures {
		if err := s.encode.Encode(completionFailureJSON{s.head("failure", r.At), known(f.PID), known(f.Command), known(f.Device), queueJSON(f.Queue),
			known(f.QP), f.Status.String(), opcodeJSON(f.Opcode), f.Count}); err != nil {
			return err
		}
	}
	if n := r.Sampling; n != nil {
		if err := s.encode.Encode(samplingJSON{s.head("sampling", r.At), n.Windows, n.Followed.Nanoseconds(), n.Posts, n.Unsignaled, r.notFollowed(),
			n.Opening.Nanoseconds(), n.Closing.Nanoseconds()}); err != nil {
			return err
		}
	}
	return s.Tracing(&r.Tracing)
}
