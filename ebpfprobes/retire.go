package ebpfprobes

import (
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// ended holds what was counted of registrations by processes that are no more.
type ended struct {
	mu       sync.Mutex // over reading the tables too: what moves is not to be seen twice
	rows     sums[endedKey, RegistrationRow]
	failures sums[RegistrationFailure, uint64] // by failures whose Count is 0
}

type endedKey struct {
	RegistrationKey // its PID is 0
	command         string
}

// add takes a row of a process that has ended.
func (e *ended) add(row RegistrationRow) {
	row.PID = 0
	e.rows.nameless = func(k endedKey) endedKey { k.command = ""; return k }
	e.rows.add = addRegistrations
	e.rows.take(endedKey{row.RegistrationKey, row.Command}, &row)
}

func addRegistrations(sum, row *RegistrationRow) {
	sum.Failed += row.Failed
	sum.Bytes += row.Bytes
	sum.Whole.Add(&row.Whole)
	for p := range row.Phases {
		sum.Phases[p].Add(&row.Phases[p])
	}
}

func (e *ended) addFailure(f RegistrationFailure) {
	n := f.Count
	f.PID, f.Count = 0, 0
	e.failures.nameless = func(f RegistrationFailure) RegistrationFailure { f.Command = ""; return f }
	e.failures.add = func(sum, more *uint64) { *sum += *more }
	e.failures.take(f, &n)
}

// list gives copies of the rows: readers may keep them.
func (e *ended) list() (rows []RegistrationRow) {
	e.rows.each(func(key endedKey, row *RegistrationRow) {
		copied := RegistrationRow{RegistrationKey: key.RegistrationKey, Command: key.command}
		addRegistrations(&copied, row)
		rows = append(rows, copied)
	})
	return rows
}

func (e *ended) listFailures() (failures []RegistrationFailure) {
	e.failures.each(func(f RegistrationFailure, n *uint64) {
		f.Count = *n
		failures = append(failures, f)
	})
	return failures
}

// crowded tells whether the table of histograms is half full.
func (s *RegistrationSession) crowded(rows int) bool { return halfFull(s.maps["cells"], rows) }

// retire moves what was counted of processes that have ended out of the kernel's
// tables. Should a number be used again meanwhile, the new process's calls are counted
// as the old one's; none is lost.
func (s *RegistrationSession) retire(rows []RegistrationRow) error {
	gone := departedOf(rows, func(r *RegistrationRow) int { return r.PID })
	names, err := s.tableNames()
	if err != nil {
		return err
	}
	if err := moveOut(s.maps["cells"], func(key objects.RegistrationsCellKey, _ *objects.RegistrationsCell) bool { return gone[key.Tgid] },
		func(key objects.RegistrationsCellKey, cell *objects.RegistrationsCell) {
			s.ended.add(names.row(key, cell))
		}); err != nil {
		return err
	}
	if err := moveOut(s.maps["failures"], func(key objects.RegistrationsFailureKey, _ *uint64) bool { return gone[key.Tgid] },
		func(key objects.RegistrationsFailureKey, n *uint64) { s.ended.addFailure(names.failure(key, *n)) }); err != nil {
		return err
	}
	return gone.forget(s.maps["processes"])
}
