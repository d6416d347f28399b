package tracereport

import (
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

type qpJSON struct {
	Device    *string `json:"device"`
	Number    uint32  `json:"number"`
	Type      string  `json:"type"`
	PID       *int    `json:"pid"`
	Process   *string `json:"process"`
	Kernel    bool    `json:"kernel"`
	State     *string `json:"state"`
	Born      *string `json:"born"` // null: before the trace
	Changes   uint32  `json:"changes"`
	RemoteQP  *uint32 `json:"remote_qp"`
	RemoteGID *string `json:"remote_gid"`
	MTU       *int    `json:"mtu"`
	Port      *uint8  `json:"port"`
}

func qpOf(q *ebpfprobes.QP) qpJSON {
	j := qpJSON{known(q.Device), q.Number, q.Type.String(), known(q.PID), known(q.Command), q.Kernel, stateJSON(q.State), nil,
		q.Changes, known(q.RemoteQPN), nil, known(q.MTU), known(q.Port)}
	if !q.Born.IsZero() {
		j.Born = known(q.Born.Format(time.RFC3339Nano))
	}
	if q.RemoteGID.IsValid() {
		j.RemoteGID = known(q.RemoteGID.String())
	}
	return j
}

func stateJSON(s ebpfprobes.QPState) *string {
	if s == ebpfprobes.StateUnknown {
		return nil
	}
	return known(s.String())
}

type transitionJSON struct {
	recordHead
	PID     *int    `json:"pid"`
	Process *string `json:"process"`
	Device  *string `json:"device"`
	Type    string  `json:"type"`
	Change  string  `json:"change"`
	From    *string `json:"from"`
	To      *string `json:"to"`
	Errno   *string `json:"errno"` // null: they did not fail
	Count   uint64  `json:"count"`
	Sum     int64   `json:"sum_ns"`
	Max     int64   `json:"max_ns"`
	Ended   bool    `json:"ended"` // processes of that name that have ended; pid is null
}

// WriteRecords writes a "qp" for each that is alive, a "row" for each sort of change, and
// how the tracing stands.
func (r *Connections) WriteRecords(s *Stream) error {
	for i := range r.QPs {
		if err := s.encode.Encode(struct {
			recordHead
			qpJSON
		}{s.head("qp", r.At), qpOf(&r.QPs[i])}); err != nil {
			return err
		}
	}
	for _, t := range r.Transitions {
		if err := s.encode.Encode(transitionJSON{s.head("row", r.At), known(t.PID), known(t.Command), known(t.Device), t.Type.String(),
			t.Change.String(), stateJSON(t.From), stateJSON(t.To), errnoJSON(t), t.Count, t.Sum.Nanoseconds(), t.Longest.Nanoseconds(), t.Ended}); err != nil {
			return err
		}
	}
	return s.Tracing(&r.Tracing)
}

func errnoJSON(t ebpfprobes.QPTransition) *string {
	if t.Err == 0 {
		return nil
	}
	return known(errname.Of(t.Err))
}

// Change writes one change.
func (s *Stream) Change(c *ebpfprobes.QPChange) error {
	j := struct {
		recordHead
		PID     int     `json:"pid"`
		TID     int     `json:"tid"`
		Process *string `json:"process"`
		Change  string  `json:"change"`
		From    *string `json:"from"`
		To      *string `json:"to"`
		Mask    string  `json:"mask"` // enum ib_qp_attr_mask
		Took    int64   `json:"took_ns"`
		Errno   *string `json:"errno"`
		QP      qpJSON  `json:"qp"`
	}{s.head("event", c.At), c.PID, c.TID, known(c.Command), c.Change.String(), stateJSON(c.From), stateJSON(c.To),
		hex(uint64(c.Mask)), c.Took.Nanoseconds(), nil, qpOf(&c.QP)}
	if c.Err != 0 {
		j.Errno = known(errname.Of(c.Err))
	}
	return s.encode.Encode(j)
}
