package ebpfprobes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// Rows gives what was counted until now, by key in order. It may be called while calls
// are counted: a row's parts then differ by those in between.
func (s *RegistrationSession) Rows() ([]RegistrationRow, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	list, err := s.rows()
	if err == nil && s.crowded(len(list)) {
		if err = s.retire(list); err == nil {
			list, err = s.rows()
		}
	}
	if err != nil {
		return nil, err
	}
	list = append(list, s.ended.list()...)
	slices.SortFunc(list, func(a, b RegistrationRow) int {
		return cmp.Or(a.RegistrationKey.compare(b.RegistrationKey), strings.Compare(a.Command, b.Command))
	})
	return list, nil
}

// rows reads those of the kernel's table.
func (s *RegistrationSession) rows() (list []RegistrationRow, err error) {
	names, err := s.tableNames()
	if err != nil {
		return nil, err
	}
	var (
		key  objects.RegistrationsCellKey
		cell objects.RegistrationsCell
	)
	all := s.maps["cells"].Iterate()
	for all.Next(&key, &cell) {
		list = append(list, names.row(key, &cell))
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "histograms", Err: err}
	}
	return list, nameLate(&s.session, list, func(r *RegistrationRow) (int, *string) { return r.PID, &r.Command })
}

// tableNames are the names of what the tables have by number.
type tableNames struct{ devices, commands map[uint32]string }

func (s *session) tableNames() (n tableNames, err error) {
	if n.devices, err = s.devices(); err == nil {
		n.commands, err = s.names("processes")
	}
	return n, err
}

func (n tableNames) row(key objects.RegistrationsCellKey, cell *objects.RegistrationsCell) RegistrationRow {
	row := RegistrationRow{
		RegistrationKey: RegistrationKey{
			PID: int(key.Tgid), Device: n.devices[key.Device],
			Operation: Operation(key.Operation), Kind: Kind(key.Kind),
		},
		Command: n.commands[key.Tgid], Failed: cell.Failed, Bytes: cell.Bytes,
		Whole: histogram(cell, Phases),
	}
	if key.Size > 0 {
		row.Size = 1 << key.Size
	}
	for p := range row.Phases {
		row.Phases[p] = histogram(cell, Phase(p))
	}
	row.Phases[Tracing].Count = row.Whole.Count // no call is without it
	return row
}

func (n tableNames) failure(key objects.RegistrationsFailureKey, count uint64) RegistrationFailure {
	return RegistrationFailure{
		PID: int(key.Tgid), Command: n.commands[key.Tgid], Device: n.devices[key.Device],
		Operation: Operation(key.Operation), Kind: Kind(key.Kind),
		Err: syscall.Errno(-key.Error), Cause: syscall.Errno(-key.Cause), CausePhase: Phase(key.CausePhase),
		Count: count,
	}
}

// histogram takes one phase of a cell, or the whole call at Phases.
func histogram(cell *objects.RegistrationsCell, p Phase) Histogram {
	h := Histogram{Sum: time.Duration(cell.Sum[p]), Longest: time.Duration(cell.Longest[p])}
	at := p
	switch p {
	case Tracing: // has no slots: each costs each call
		return h
	case Phases:
		at = Tracing
	}
	slots := make([]uint64, len(cell.Slots[at]))
	for i, n := range cell.Slots[at] {
		slots[i] = uint64(cell.Above[at][i])<<32 | uint64(n)
	}
	countSlots(&h, slots)
	return h
}

func (k RegistrationKey) compare(o RegistrationKey) int {
	switch {
	case k.PID != o.PID:
		return k.PID - o.PID
	case k.Device != o.Device:
		return strings.Compare(k.Device, o.Device)
	case k.Operation != o.Operation:
		return int(k.Operation) - int(o.Operation)
	case k.Kind != o.Kind:
		return int(k.Kind) - int(o.Kind)
	case k.Size < o.Size:
		return -1
	case k.Size > o.Size:
		return 1
	}
	return 0
}

func (s *session) names(table string) (map[uint32]string, error) {
	names := make(map[uint32]string)
	var (
		key  uint32
		name objects.RegistrationsName
	)
	all := s.maps[table].Iterate()
	for all.Next(&key, &name) {
		names[key] = text(name.Text[:])
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: table, Err: err}
	}
	return names, nil
}

// text is a C string that another process may have chosen: what cannot be printed is
// left to whoever prints it.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// Failures gives what failed until now, the most frequent first.
func (s *RegistrationSession) Failures() ([]RegistrationFailure, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	names, err := s.tableNames()
	if err != nil {
		return nil, err
	}
	list := s.ended.listFailures()
	var (
		key objects.RegistrationsFailureKey
		n   uint64
	)
	all := s.maps["failures"].Iterate()
	for all.Next(&key, &n) {
		list = append(list, names.failure(key, n))
	}
	if err := all.Err(); err != nil {
		return nil, &Error{Op: "read", Object: "failures", Err: err}
	}
	slices.SortFunc(list, RegistrationFailure.compare)
	return list, nil
}

// Losses tells what was not seen or kept.
func (s *session) Losses() (Losses, error) {
	var l Losses
	for c, to := range map[objects.RegistrationsCounter]*uint64{
		objects.RegistrationsCounterLOST_FLIGHTS: &l.Flights,
		objects.RegistrationsCounterLOST_CELLS:   &l.Cells,
		objects.RegistrationsCounterLOST_EVENTS:  &l.Events,
		objects.RegistrationsCounterLOST_REGIONS: &l.Regions,
		objects.RegistrationsCounterLOST_NAMES:   &l.Names,
	} {
		n, err := s.counter(uint32(c))
		if err != nil {
			return l, err
		}
		*to = n
	}
	l.Runs, l.Untold = s.runsMissed()
	return l, nil
}

// Events gives single calls as they end, until the context does, which ends it without
// an error. The session was begun with Filter.Events.
func (s *RegistrationSession) Events(ctx context.Context) iter.Seq2[Registration, error] {
	return func(yield func(Registration, error) bool) {
		for sample, err := range s.samples(ctx) {
			var r Registration
			if err == nil {
				r, err = s.registration(sample)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s *RegistrationSession) registration(sample []byte) (Registration, error) {
	var withStack objects.RegistrationsEventStack
	e := &withStack.Event
	var into any = e
	if len(sample) >= binary.Size(&withStack) {
		into = &withStack
	}
	if _, err := binary.Decode(sample, binary.NativeEndian, into); err != nil {
		return Registration{}, &Error{Op: "read", Object: "event", Err: fmt.Errorf("%d bytes: %w", len(sample), err)}
	}
	r := Registration{
		At:  s.at(e.At),
		PID: int(e.Tgid), TID: int(e.Tid), Command: text(e.Comm[:]), Device: text(e.Name[:]),
		Operation: Operation(e.Operation), Kind: Kind(e.Kind),
		Length: e.Length, IOVA: e.Iova, LKey: e.Lkey, RKey: e.Rkey,
		Took: time.Duration(e.Took),
		Err:  syscall.Errno(-e.Error), Cause: syscall.Errno(-e.Cause), CausePhase: Phase(e.CausePhase),
		Exporter: text(e.Exporter[:]), Inode: e.Inode, BufferSize: e.BufferSize,
	}
	for i, ns := range e.Spent {
		r.Spent[i] = time.Duration(ns)
	}
	if into != any(e) {
		r.Stack = s.frames.of(r.PID, &withStack.Snapshot)
	}
	return r, nil
}
