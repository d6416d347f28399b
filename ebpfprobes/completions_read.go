package ebpfprobes

import (
	"cmp"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

// Rows gives what was counted until now, by key in order. It may be called while
// completions are counted: a row's parts then differ by those in between.
func (s *CompletionSession) Rows() ([]CompletionRow, error) {
	devices, err := s.names("devices")
	if err != nil {
		return nil, err
	}
	commands, err := s.names("processes")
	if err != nil {
		return nil, err
	}
	var (
		list []CompletionRow
		key  objects.CompletionsCellKey
		cell objects.CompletionsCell
	)
	all := s.maps["cells"].Iterate()
	for all.Next(&key, &cell) {
		row := CompletionRow{
			CompletionKey: CompletionKey{
				PID: int(key.Tgid), Queue: key.Queue, Number: int64(key.Number),
				Wait: Wait(key.Wait), Opcode: Opcode(key.Opcode),
			},
			Command: commands[key.Tgid],
			Times:   Histogram{Sum: time.Duration(cell.Sum), Longest: time.Duration(cell.Longest)},
			Failed:  cell.Failed, Bytes: cell.Bytes, Untimed: cell.Untimed, Repeated: cell.Repeated,
		}
		if row.Wait == Polled {
			row.Device, row.Number = s.polledDevice(key.Context), -1
		} else {
			row.Device = devices[key.Device]
		}
		if key.Size > 0 {
			row.Size = 1 << key.Size
		}
		row.Times.count(cell.Slots[:])
		list = append(list, row)
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "histograms", Err: err}
	}
	slices.SortFunc(list, func(a, b CompletionRow) int { return a.compare(b.CompletionKey) })
	return list, nil
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
	commands, err := s.names("processes")
	if err != nil {
		return nil, err
	}
	var (
		list []CompletionFailure
		key  objects.CompletionsFailureKey
		n    uint64
	)
	all := s.maps["failures"].Iterate()
	for all.Next(&key, &n) {
		list = append(list, CompletionFailure{
			PID: int(key.Tgid), Command: commands[key.Tgid], Device: s.polledDevice(key.Context), Queue: key.Queue, QP: key.Qp,
			Status: Status(key.Status), Opcode: Opcode(key.Opcode), Count: n,
		})
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "failures", Err: err}
	}
	slices.SortFunc(list, func(a, b CompletionFailure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.PID, b.PID), cmp.Compare(a.QP, b.QP), cmp.Compare(a.Status, b.Status))
	})
	return list, nil
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
	l.Runs = s.runsMissed()
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
