package ebpfprobes

import (
	"cmp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// mostOrphans is how many regions of processes that have ended stay in the kernel's table.
const mostOrphans = 1 << 16

// Rows gives what was counted until now, by key in order, as RegistrationSession.Rows.
func (s *SyscallSession) Rows() ([]RegistrationRow, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	if err := s.tidy(); err != nil {
		return nil, err
	}
	names, err := s.names("processes")
	if err != nil {
		return nil, err
	}
	// Contexts of one process on one device are one row.
	rows := make(map[endedKey]*RegistrationRow)
	var (
		key  objects.SyscallsCellKey
		cell objects.SyscallsCell
	)
	all := s.maps["cells"].Iterate()
	for all.Next(&key, &cell) {
		row, v := s.row(names, &key, &cell)
		if v != shown {
			continue
		}
		k := endedKey{row.RegistrationKey, row.Command}
		if rows[k] == nil {
			rows[k] = &RegistrationRow{RegistrationKey: row.RegistrationKey, Command: row.Command}
		}
		addRegistrations(rows[k], &row)
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "histograms", Err: err}
	}
	list := s.ended.list()
	for _, row := range rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b RegistrationRow) int {
		return cmp.Or(a.RegistrationKey.compare(b.RegistrationKey), strings.Compare(a.Command, b.Command))
	})
	return list, nil
}

func (s *SyscallSession) row(names map[uint32]string, key *objects.SyscallsCellKey, cell *objects.SyscallsCell) (RegistrationRow, membership) {
	device, v := s.descriptors.of(key.Context, key.Sure != 0)
	row := RegistrationRow{
		RegistrationKey: RegistrationKey{PID: int(key.Tgid), Device: device, Operation: Operation(key.Operation), Kind: Kind(key.Kind)},
		Command:         names[key.Tgid], Failed: cell.Failed, Bytes: cell.Bytes,
		Whole: Histogram{Sum: time.Duration(cell.Sum), Longest: time.Duration(cell.Longest)},
	}
	if key.Size > 0 {
		row.Size = 1 << key.Size
	}
	countSlots(&row.Whole, cell.Slots[:])
	row.Phases[Uverbs].Add(&row.Whole)
	return row, v
}

// Failures gives what failed until now, the most frequent first.
func (s *SyscallSession) Failures() ([]RegistrationFailure, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	names, err := s.names("processes")
	if err != nil {
		return nil, err
	}
	counts := make(map[RegistrationFailure]uint64)
	var (
		key objects.SyscallsFailureKey
		n   uint64
	)
	all := s.maps["failures"].Iterate()
	for all.Next(&key, &n) {
		if f, v := s.failure(names, &key); v == shown {
			counts[f] += n
		}
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "failures", Err: err}
	}
	list := s.ended.listFailures()
	for f, n := range counts {
		f.Count = n
		list = append(list, f)
	}
	slices.SortFunc(list, RegistrationFailure.compare)
	return list, nil
}

func (s *SyscallSession) failure(names map[uint32]string, key *objects.SyscallsFailureKey) (RegistrationFailure, membership) {
	device, v := s.descriptors.of(key.Context, key.Sure != 0)
	return RegistrationFailure{
		PID: int(key.Tgid), Command: names[key.Tgid], Device: device, Operation: Operation(key.Operation), Kind: Kind(key.Kind),
		Err: syscall.Errno(-key.Error), CausePhase: UnknownPhase,
	}, v
}

// tidy looks at descriptors whose sighting was not sent, and takes what belongs to
// processes that have ended out of the kernel's tables when one of these fills.
func (s *SyscallSession) tidy() error {
	contexts, orphans, cells := 0, uint64(0), 0
	gone := make(departed)
	var (
		d objects.SyscallsDescriptor
		c objects.SyscallsContext
	)
	all := s.maps["contexts"].Iterate()
	for all.Next(&d, &c) {
		contexts++
		s.descriptors.see(c.Id, int(d.Tgid), int(d.Fd))
		if gone.ask(d.Tgid) && c.Live > 0 {
			orphans += c.Live
		}
	}
	if err := all.Err(); err != nil {
		return &Error{Op: "read", Object: "contexts", Err: err}
	}
	var (
		key  objects.SyscallsCellKey
		cell objects.SyscallsCell
	)
	for all = s.maps["cells"].Iterate(); all.Next(&key, &cell); {
		cells++
		gone.ask(key.Tgid)
	}
	if err := all.Err(); err != nil {
		return &Error{Op: "read", Object: "histograms", Err: err}
	}
	if !halfFull(s.maps["contexts"], contexts) && !halfFull(s.maps["cells"], cells) && orphans < mostOrphans {
		return nil
	}
	return s.retire(gone)
}

// retire moves what was counted of processes that have ended out of the kernel's tables,
// and drops their descriptors and regions.
func (s *SyscallSession) retire(gone departed) error {
	names, err := s.names("processes")
	if err != nil {
		return err
	}
	if err := moveOut(s.maps["cells"], func(key objects.SyscallsCellKey, _ *objects.SyscallsCell) bool { return gone[key.Tgid] },
		func(key objects.SyscallsCellKey, cell *objects.SyscallsCell) {
			switch row, v := s.row(names, &key, cell); v {
			case shown:
				s.ended.add(row)
			case unconfirmed:
				s.departed += cell.Count
			}
		}); err != nil {
		return err
	}
	if err := moveOut(s.maps["failures"], func(key objects.SyscallsFailureKey, _ *uint64) bool { return gone[key.Tgid] },
		func(key objects.SyscallsFailureKey, n *uint64) {
			if f, v := s.failure(names, &key); v == shown {
				f.Count = *n
				s.ended.addFailure(f)
			}
		}); err != nil {
		return err
	}
	dead := make(map[uint64]bool)
	if err := moveOut(s.maps["contexts"], func(d objects.SyscallsDescriptor, _ *objects.SyscallsContext) bool { return gone[d.Tgid] },
		func(_ objects.SyscallsDescriptor, c *objects.SyscallsContext) { dead[c.Id] = true }); err != nil {
		return err
	}
	if err := moveOut(s.maps["regions"], func(k objects.SyscallsRegionKey, _ *objects.SyscallsRegion) bool { return dead[k.Context] },
		func(objects.SyscallsRegionKey, *objects.SyscallsRegion) {}); err != nil {
		return err
	}
	for id := range dead {
		s.descriptors.forget(id)
	}
	return gone.forget(s.maps["processes"])
}
