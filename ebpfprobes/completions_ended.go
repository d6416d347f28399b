package ebpfprobes

import (
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// endedCompletions holds what was counted of processes that are no more, and of queues
// that were given up to make room.
type endedCompletions struct {
	mu       sync.Mutex // over reading the tables too: what moves is not to be seen twice
	rows     sums[endedCompletion, CompletionRow]
	failures sums[CompletionFailure, uint64]       // by failures whose Count is 0
	seen     map[objects.CompletionsCellKey]uint64 // how much was in each row when there was no room
}

type endedCompletion struct {
	CompletionKey // of no queue
	command       string
}

// add takes a row that has left the kernel's table. It has no queue any more.
func (e *endedCompletions) add(row CompletionRow) {
	row.Queue, row.Number = 0, -1
	e.rows.nameless = func(k endedCompletion) endedCompletion { k.PID, k.command = 0, ""; return k }
	e.rows.add = addCompletions
	e.rows.take(endedCompletion{row.CompletionKey, row.Command}, &row)
}

func addCompletions(sum, row *CompletionRow) {
	sum.Times.Add(&row.Times)
	sum.Failed += row.Failed
	sum.Bytes += row.Bytes
	sum.Untimed += row.Untimed
	sum.Repeated += row.Repeated
}

func (e *endedCompletions) addFailure(f CompletionFailure) {
	n := f.Count
	f.PID, f.Queue, f.QP, f.Count = 0, 0, 0, 0
	e.failures.nameless = func(f CompletionFailure) CompletionFailure { f.Command = ""; return f }
	e.failures.add = func(sum, more *uint64) { *sum += *more }
	e.failures.take(f, &n)
}

// list gives copies of the rows: readers may keep them.
func (e *endedCompletions) list() (rows []CompletionRow) {
	e.rows.each(func(key endedCompletion, row *CompletionRow) {
		copied := CompletionRow{CompletionKey: key.CompletionKey, Command: key.command}
		addCompletions(&copied, row)
		rows = append(rows, copied)
	})
	return rows
}

func (e *endedCompletions) listFailures() (failures []CompletionFailure) {
	e.failures.each(func(f CompletionFailure, n *uint64) {
		f.Count = *n
		failures = append(failures, f)
	})
	return failures
}

// bury makes the rows of a process that has ended those of its name.
func (e *endedCompletions) bury(gone departed) {
	for key, row := range e.rows.rows {
		if !gone[uint32(key.PID)] {
			continue
		}
		delete(e.rows.rows, key)
		key.PID = 0
		e.rows.take(key, row)
	}
}

// retire makes room in the kernel's tables: for what was counted of processes that have
// ended, and if the table is half full without them, for the rows that have not changed
// since it was so before.
func (s *CompletionSession) retire(rows []CompletionRow) error {
	rows = append(s.ended.list(), rows...) // of queues that were given up: their process may have ended since
	gone := departedOf(rows, func(r *CompletionRow) int { return r.PID })
	names, err := s.tableNames()
	if err != nil {
		return err
	}
	left, seen := 0, make(map[objects.CompletionsCellKey]uint64)
	if err := moveOut(s.maps["cells"], func(k objects.CompletionsCellKey, c *objects.CompletionsCell) bool {
		if gone[k.Tgid] {
			return true
		}
		seen[k] = c.Count + c.Untimed + c.Repeated
		left++
		return false
	}, func(k objects.CompletionsCellKey, c *objects.CompletionsCell) {
		row := s.row(&k, c, names)
		row.PID = 0
		s.ended.add(row)
	}); err != nil {
		return err
	}
	if halfFull(s.maps["cells"], left) {
		before := s.ended.seen
		if err := moveOut(s.maps["cells"], func(k objects.CompletionsCellKey, c *objects.CompletionsCell) bool {
			n, known := before[k]
			return known && n == c.Count+c.Untimed+c.Repeated
		}, func(k objects.CompletionsCellKey, c *objects.CompletionsCell) { s.ended.add(s.row(&k, c, names)) }); err != nil {
			return err
		}
		s.ended.seen = seen
	}
	s.ended.bury(gone)
	if err := moveOut(s.maps["failures"], func(k objects.CompletionsFailureKey, _ *uint64) bool { return gone[k.Tgid] },
		func(k objects.CompletionsFailureKey, n *uint64) { s.ended.addFailure(s.failure(&k, *n, names)) }); err != nil {
		return err
	}
	return gone.forget(s.maps["processes"])
}
