package ebpfprobes

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

func counted(pid int, command string, calls uint32) RegistrationRow {
	h := Histogram{Count: uint64(calls), Sum: time.Duration(calls) * 100, Longest: 100, Slots: make([]uint64, 64)}
	h.Slots[40] = uint64(calls)
	row := RegistrationRow{RegistrationKey: RegistrationKey{PID: pid, Device: "rxe0", Size: 4096}, Command: command,
		Failed: 1, Bytes: uint64(calls) * 4096, Whole: h}
	row.Phases[Pin].Add(&h)
	return row
}

// TestEnded sums processes of one name, and loses no call where there are too many
// names to keep.
func TestEnded(t *testing.T) {
	var e ended
	e.add(counted(7, "a", 3))
	first := e.list()
	e.add(counted(8, "a", 4))
	e.add(counted(9, "b", 5))
	if len(first) != 1 || first[0].Whole.Count != 3 || first[0].Whole.Slots[40] != 3 {
		t.Errorf("what was given before has changed: %+v", first)
	}
	for _, row := range e.list() {
		want := map[string]uint64{"a": 7, "b": 5}[row.Command]
		if row.PID != 0 || row.Whole.Count != want || row.Phases[Pin].Count != want || row.Bytes != want*4096 || row.Size != 4096 {
			t.Errorf("%+v", row)
		}
	}
	for i := range mostEnded {
		e.add(counted(100+i, fmt.Sprint("c", i), 1))
		e.addFailure(RegistrationFailure{PID: i, Command: fmt.Sprint("c", i), Err: syscall.ENOMEM, Count: 2})
		e.addFailure(RegistrationFailure{PID: i, Command: "same", Err: syscall.ENOMEM, Count: 1})
	}
	var calls, failed uint64
	for _, row := range e.list() {
		calls += row.Whole.Count
		failed += row.Failed
	}
	if calls != 12+mostEnded || failed != 3+mostEnded || len(e.list()) > mostEnded+1 {
		t.Errorf("%d calls, %d failed, %d rows", calls, failed, len(e.list()))
	}
	var failures, same uint64
	for _, f := range e.listFailures() {
		failures += f.Count
		if f.Command == "same" {
			same += f.Count
		}
	}
	if failures != 3*mostEnded || same != mostEnded || len(e.failures.rows) > mostEnded+1 {
		t.Errorf("%d failures, %d of one, %d rows", failures, same, len(e.failures.rows))
	}
}
