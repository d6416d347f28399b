package tracereport

import (
	"strconv"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// hex is a number that JSON's readers would round: a string, as 0x7f00.
func hex(v uint64) string { return "0x" + strconv.FormatUint(v, 16) }

// Event writes one call.
func (s *Stream) Event(e *ebpfprobes.Registration, frames []string) error {
	spent := make(map[string]int64)
	for p, d := range e.Spent {
		if d > 0 {
			spent[ebpfprobes.Phase(p).String()] = d.Nanoseconds()
		}
	}
	j := struct {
		recordHead
		PID       int              `json:"pid"`
		TID       int              `json:"tid"`
		Process   *string          `json:"process"`
		Device    *string          `json:"device"`
		Operation string           `json:"operation"`
		Kind      *string          `json:"kind"`
		Length    *uint64          `json:"length"` // null: deregistered by system calls alone, and not seen when it was registered
		IOVA      string           `json:"iova"`
		LKey      uint32           `json:"lkey"`
		RKey      uint32           `json:"rkey"`
		Took      int64            `json:"took_ns"`
		Spent     map[string]int64 `json:"phases_ns"`
		Errno     *string          `json:"errno"` // null: it did not fail
		Cause     *string          `json:"cause"`
		Phase     *string          `json:"phase"`
		Hint      *string          `json:"hint"`
		Buffer    *bufferJSON      `json:"dma_buf"`
		Stack     []string         `json:"stack"`
	}{recordHead: s.head("event", e.At), PID: e.PID, TID: e.TID, Process: known(e.Command), Device: known(e.Device),
		Operation: e.Operation.String(), Kind: kindJSON(e.Kind), Length: &e.Length, IOVA: hex(e.IOVA), LKey: e.LKey, RKey: e.RKey,
		Took: e.Took.Nanoseconds(), Spent: spent, Stack: frames}
	if e.Err != 0 {
		f := s.failure(e.At, ebpfprobes.RegistrationFailure{Operation: e.Operation, Kind: e.Kind, Err: e.Err, Cause: e.Cause, CausePhase: e.CausePhase})
		j.Errno, j.Cause, j.Phase, j.Hint = &f.Errno, f.Cause, f.Phase, f.Hint
	}
	if lengthUnknown(e) {
		j.Length = nil
	}
	if e.Kind == ebpfprobes.DMABuf {
		j.Buffer = &bufferJSON{known(e.Exporter), known(e.Inode), known(e.BufferSize)}
	}
	return s.encode.Encode(j)
}

type bufferJSON struct {
	Exporter *string `json:"exporter"`
	Inode    *uint64 `json:"inode"`
	Size     *uint64 `json:"size"`
}
