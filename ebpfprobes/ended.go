package ebpfprobes

import (
	"errors"
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The kernel's tables have room for so many rows, and a session may run for weeks: when
// one is half full, rows of processes that are no more move out of it, where those of one
// name become one. What was counted stays so, and never becomes less.

// mostEnded bounds the rows of processes that have ended: names beyond it become unknown.
const mostEnded = 4096

// sums adds up rows that are alike in K, with at most mostEnded names.
type sums[K comparable, R any] struct {
	rows     map[K]*R
	nameless func(K) K          // the same without the process's name
	add      func(sum, more *R) // the first sum is R's zero value
}

// take takes a row of a process that has ended.
func (s *sums[K, R]) take(key K, row *R) {
	if s.rows == nil {
		s.rows = make(map[K]*R)
	}
	sum := s.rows[key]
	if sum == nil && len(s.rows) >= mostEnded {
		key = s.nameless(key)
		sum = s.rows[key]
	}
	if sum == nil {
		sum = new(R)
		s.rows[key] = sum
	}
	s.add(sum, row)
}

// each gives the rows. A sum must not be kept: it grows.
func (s *sums[K, R]) each(give func(K, *R)) {
	for key, sum := range s.rows {
		give(key, sum)
	}
}

// halfFull tells whether a table of the kernel with so many rows is.
func halfFull(m *ebpf.Map, rows int) bool { return rows > int(m.MaxEntries())/2 }

// departed tells of processes whether they have ended. All are asked for before a table
// and the names are looked through: then all rows of one that has ended are there, and its
// name is.
type departed map[uint32]bool

func departedOf[R any](rows []R, pid func(*R) int) departed {
	gone := make(departed)
	for i := range rows {
		gone.ask(uint32(pid(&rows[i])))
	}
	return gone
}

// ask asks the kernel, of each process once. 0 is none: what belongs to it stays.
func (d departed) ask(pid uint32) bool {
	gone, known := d[pid]
	if !known {
		gone = pid != 0 && errors.Is(unix.Kill(int(pid), 0), syscall.ESRCH)
		d[pid] = gone
	}
	return gone
}

// forget takes their names out of the kernel's table.
func (d departed) forget(processes *ebpf.Map) error {
	for pid, gone := range d {
		if !gone {
			continue
		}
		if err := processes.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return &Error{Op: "write", Object: "processes", Err: err}
		}
	}
	return nil
}

// nameLate names the rows of processes that came after the names were read.
func nameLate[R any](s *session, rows []R, of func(*R) (pid int, command *string)) error {
	var names map[uint32]string
	for i := range rows {
		pid, command := of(&rows[i])
		if *command != "" || pid == 0 {
			continue
		}
		if names == nil {
			var err error
			if names, err = s.names("processes"); err != nil {
				return err
			}
		}
		*command = names[uint32(pid)]
	}
	return nil
}

// moveOut takes entries out of a table. The kernel reads and deletes each in one step.
func moveOut[K, V any](m *ebpf.Map, wanted func(K, *V) bool, take func(K, *V)) error {
	var (
		key   K
		value V
		keys  []K
	)
	all := m.Iterate()
	for all.Next(&key, &value) {
		if wanted(key, &value) {
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
