package ebpfprobes

import (
	"errors"
	"maps"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// ended holds what was counted of processes that are no more. The kernel's tables have
// room for so many processes, and a session may run for weeks: when they are half full,
// rows of such processes move here, where those of one name become one.
type ended struct {
	mu       sync.Mutex // over reading the tables too: what moves is not to be seen twice
	rows     map[endedKey]*RegistrationRow
	failures map[RegistrationFailure]uint64 // by failures whose Count is 0
}

type endedKey struct {
	RegistrationKey // its PID is 0
	command         string
}

// mostEnded bounds the rows: names beyond it become unknown.
const mostEnded = 4096

// add takes a row of a process that has ended.
func (e *ended) add(row RegistrationRow) {
	row.PID = 0
	key := endedKey{row.RegistrationKey, row.Command}
	sum := e.rows[key]
	if sum == nil && len(e.rows) >= mostEnded {
		key.command = ""
		sum = e.rows[key]
	}
	if sum == nil {
		if e.rows == nil {
			e.rows = make(map[endedKey]*RegistrationRow)
		}
		sum = &RegistrationRow{RegistrationKey: key.RegistrationKey, Command: key.command}
		e.rows[key] = sum
	}
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
	if _, ok := e.failures[f]; !ok && len(e.failures) >= mostEnded {
		f.Command = ""
	}
	if e.failures == nil {
		e.failures = make(map[RegistrationFailure]uint64)
	}
	e.failures[f] += n
}

// list gives copies of the rows: readers may keep them.
func (e *ended) list() (rows []RegistrationRow) {
	for row := range maps.Values(e.rows) {
		copied := RegistrationRow{RegistrationKey: row.RegistrationKey, Command: row.Command, Failed: row.Failed, Bytes: row.Bytes}
		copied.Whole.Add(&row.Whole)
		for p := range row.Phases {
			copied.Phases[p].Add(&row.Phases[p])
		}
		rows = append(rows, copied)
	}
	return rows
}

func (e *ended) listFailures() (failures []RegistrationFailure) {
	for f, n := range e.failures {
		f.Count = n
		failures = append(failures, f)
	}
	return failures
}

// crowded tells whether the table of histograms is half full.
func (s *RegistrationSession) crowded(rows int) bool {
	return rows > int(s.maps["cells"].MaxEntries())/2
}

// retire moves what was counted of processes that have ended out of the kernel's
// tables. Should a number be used again meanwhile, the new process's calls are counted
// as the old one's; none is lost.
func (s *RegistrationSession) retire(rows []RegistrationRow) error {
	gone := make(map[uint32]bool)
	for i := range rows {
		pid := uint32(rows[i].PID)
		if _, known := gone[pid]; !known {
			gone[pid] = errors.Is(unix.Kill(int(pid), 0), syscall.ESRCH)
		}
	}
	names, err := s.tableNames()
	if err != nil {
		return err
	}
	if err := moveOut(s.maps["cells"], func(key objects.RegistrationsCellKey) bool { return gone[key.Tgid] },
		func(key objects.RegistrationsCellKey, cell *objects.RegistrationsCell) {
			s.ended.add(names.row(key, cell))
		}); err != nil {
		return err
	}
	if err := moveOut(s.maps["failures"], func(key objects.RegistrationsFailureKey) bool { return gone[key.Tgid] },
		func(key objects.RegistrationsFailureKey, n *uint64) { s.ended.addFailure(names.failure(key, *n)) }); err != nil {
		return err
	}
	for pid, is := range gone {
		if !is {
			continue
		}
		if err := s.maps["processes"].Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return &Error{Op: "write", Object: "processes", Err: err}
		}
	}
	return nil
}

// moveOut takes entries out of a table. The kernel reads and deletes each in one step.
func moveOut[K, V any](m *ebpf.Map, wanted func(K) bool, take func(K, *V)) error {
	var (
		key   K
		value V
		keys  []K
	)
	all := m.Iterate()
	for all.Next(&key, &value) {
		if wanted(key) {
			keys = append(keys, key)
		}
	}
	if err := all.Err(); err != nil {
		return &Error{Op: "read", Object: m.String(), Err: err}
	}
	for _, key := range keys {
		switch err := m.LookupAndDelete(&key, &value); {
		case errors.Is(err, ebpf.ErrKeyNotExist):
		case err != nil:
			return &Error{Op: "read", Object: m.String(), Err: err}
		default:
			take(key, &value)
		}
	}
	return nil
}
