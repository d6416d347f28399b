package ebpfprobes

import (
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// endedErrors holds the failures of processes that are no more.
type endedErrors struct {
	mu   sync.Mutex // over reading the table too: what moves is not to be seen twice
	rows sums[endedError, ErrorRow]
}

type endedError struct {
	ErrorSort // its PID is 0
	command   string
}

func (e *endedErrors) add(row ErrorRow) {
	row.PID, row.Ended = 0, true
	e.rows.nameless = func(k endedError) endedError { k.command = ""; return k }
	e.rows.add = addErrors
	e.rows.take(endedError{row.ErrorSort, row.Command}, &row)
}

// addErrors keeps the last failure's details.
func addErrors(sum, row *ErrorRow) {
	sum.ErrorSort, sum.Ended = row.ErrorSort, true
	sum.Count += row.Count
	if sum.First.IsZero() || row.First.Before(sum.First) {
		sum.First = row.First
	}
	if !row.Last.Before(sum.Last) {
		sum.Last, sum.Number, sum.Cause = row.Last, row.Number, row.Cause
	}
}

func (e *endedErrors) list() (rows []ErrorRow) {
	e.rows.each(func(key endedError, row *ErrorRow) {
		copied := *row
		copied.Command = key.command
		rows = append(rows, copied)
	})
	return rows
}

// retire moves the failures of processes that have ended out of the kernel's table.
func (s *ErrorSession) retire(rows []ErrorRow, devices map[uint32]string) error {
	gone := departedOf(rows, func(r *ErrorRow) int { return r.PID })
	return moveOut(s.maps["failures"], func(k objects.ErrorsFailureKey, _ *objects.ErrorsFailure) bool { return gone[k.Tgid] },
		func(k objects.ErrorsFailureKey, f *objects.ErrorsFailure) { s.ended.add(s.row(&k, f, devices)) })
}
