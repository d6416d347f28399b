package ebpfprobes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

// Rows gives what was counted until now, by key in order. It may be called while
// completions are counted: a row's parts then differ by those in between.
func (s *CompletionSession) Rows() ([]CompletionRow, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	list, err := s.rows()
	if err == nil && halfFull(s.maps["cells"], len(list)) {
		if err = s.retire(list); err == nil {
			list, err = s.rows()
		}
	}
	if err != nil {
		return nil, err
	}
	list = append(list, s.ended.list()...)
	slices.SortFunc(list, func(a, b CompletionRow) int {
		return cmp.Or(a.compare(b.CompletionKey), strings.Compare(a.Command, b.Command))
	})
	return list, nil
}

// rows reads those of the kernel's table.
func (s *CompletionSession) rows() (list []CompletionRow, err error) {
	names, err := s.tableNames()
	if err != nil {
		return nil, err
	}
	var (
		key  objects.CompletionsCellKey
		cell objects.CompletionsCell
	)
	all := s.maps["cells"].Iterate()
	for all.Next(&key, &cell) {
		list = append(list, s.row(&key, &cell, names))
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "histograms", Err: err}
	}
	return list, nameLate(&s.session, list, func(r *CompletionRow) (int, *string) { return r.PID, &r.Command })
}

func (s *CompletionSession) row(key *objects.CompletionsCellKey, cell *objects.CompletionsCell, names tableNames) CompletionRow {
	row := CompletionRow{
		CompletionKey: CompletionKey{
			PID: int(key.Tgid), Queue: key.Queue, Number: int64(key.Number),
			Wait: Wait(key.Wait), Opcode: Opcode(key.Opcode),
		},
		Command: names.commands[key.Tgid],
		Times:   Histogram{Sum: time.Duration(cell.Sum), Longest: time.Duration(cell.Longest)},
		Failed:  cell.Failed, Bytes: cell.Bytes, Untimed: cell.Untimed, Repeated: cell.Repeated,
	}
	switch row.Wait {
	case Polled:
		row.Device, row.Number = s.polledDevice(key.Context), -1
	case Marked:
		row.Device, row.Number = s.marked.device(key.Context), -1
	default:
		row.Device = names.devices[key.Device]
	}
	if key.Size > 0 {
		row.Size = 1 << key.Size
	}
	countSlots(&row.Times, cell.Slots[:])
	return row
}

func (k CompletionKey) compare(o CompletionKey) int {
	return cmp.Or(
		cmp.Compare(k.PID, o.PID), cmp.Compare(k.Device, o.Device), cmp.Compare(k.Queue, o.Queue), cmp.Compare(k.Number, o.Number),
		cmp.Compare(k.Wait, o.Wait), cmp.Compare(k.Opcode, o.Opcode), cmp.Compare(k.Size, o.Size),
	)
}

// polledDevice names the device of a process's context, which it reads there if need be.
func (s *CompletionSession) polledDevice(context uint64) string {
	p := s.polled
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, ok := p.devices[context]; ok {
		return name
	}
	name, err := provider.DeviceName(p.pid, context)
	if err != nil {
		return ""
	}
	p.devices[context] = name
	return name
}

// Failures gives the completions in error until now, the most frequent first. Only
// polled queues tell them, while a window is open.
func (s *CompletionSession) Failures() ([]CompletionFailure, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	names, err := s.tableNames()
	if err != nil {
		return nil, err
	}
	list := s.ended.listFailures()
	var (
		key objects.CompletionsFailureKey
		n   uint64
	)
	all := s.maps["failures"].Iterate()
	for all.Next(&key, &n) {
		list = append(list, s.failure(&key, n, names))
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "failures", Err: err}
	}
	slices.SortFunc(list, CompletionFailure.compare)
	return list, nil
}

func (s *CompletionSession) failure(key *objects.CompletionsFailureKey, n uint64, names tableNames) CompletionFailure {
	device := s.polledDevice
	if key.Queue == 0 {
		device = s.marked.device
	}
	return CompletionFailure{
		PID: int(key.Tgid), Command: names.commands[key.Tgid], Device: device(key.Context), Queue: key.Queue, QP: key.Qp,
		Status: Status(key.Status), Opcode: Opcode(key.Opcode), Count: n,
	}
}

// Losses tells what was not seen or kept. Flights are events and work requests that were
// not followed; Events and Regions there are none of.
func (s *CompletionSession) Losses() (Losses, error) {
	var l Losses
	for c, to := range map[objects.RegistrationsCounter]*uint64{
		objects.RegistrationsCounterLOST_FLIGHTS: &l.Flights,
		objects.RegistrationsCounterLOST_CELLS:   &l.Cells,
		objects.RegistrationsCounterLOST_NAMES:   &l.Names,
	} {
		n, err := s.counter(uint32(c))
		if err != nil {
			return l, err
		}
		*to = n
	}
	l.Runs, l.Untold = s.runsMissed()
	if n, err := s.marked.program.Stats(); err == nil {
		l.Runs += n.RecursionMisses
	}
	return l, nil
}

// Sampling tells how much of the time polled queues were followed until now.
func (s *CompletionSession) Sampling() (Sampling, error) {
	if s.polled == nil {
		return Sampling{}, nil
	}
	s.polled.mu.Lock()
	now := s.polled.sampling
	s.polled.mu.Unlock()
	for name, to := range map[string]*uint64{"posts": &now.Posts, "unsignaled": &now.Unsignaled} {
		if err := s.variables[name].Get(to); err != nil {
			return now, &Error{Op: "read", Object: name, Err: err}
		}
	}
	return now, nil
}
