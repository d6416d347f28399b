package ebpfprobes

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"syscall"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// ErrorFilter chooses what a session follows. The zero value is everything.
type ErrorFilter struct {
	PID    int  // one process, and what devices report to all; 0 is all but this one
	Events bool // send each failure, see ErrorSession.Events
}

// ErrorSession follows failures until it is closed.
type ErrorSession struct {
	session
	ended endedErrors
}

// Errors begins to follow what fails.
func Errors(f ErrorFilter) (*ErrorSession, error) {
	set := processConstants(f.PID)
	set["want_events"] = boolByte(f.Events)
	ring := ""
	if f.Events {
		ring = "events"
	}
	s := new(ErrorSession)
	if err := s.open("errors", errorPoints, objects.LoadErrors, set, ring); err != nil {
		return nil, err
	}
	if err := s.Attach(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Events gives single failures, until the context ends, which is not an error. The
// session was begun with ErrorFilter.Events.
func (s *ErrorSession) Events(ctx context.Context) iter.Seq2[Failure, error] {
	return func(yield func(Failure, error) bool) {
		for sample, err := range s.samples(ctx) {
			var e objects.ErrorsEvent
			if err == nil {
				if _, err = binary.Decode(sample, binary.NativeEndian, &e); err != nil {
					err = &Error{Op: "read", Object: "event", Err: fmt.Errorf("%d bytes: %w", len(sample), err)}
				}
			}
			if err != nil {
				yield(Failure{}, err)
				return
			}
			if !yield(Failure{
				ErrorSort: sortOf(&e.Key, &e.Command, text(e.Name[:])), At: s.at(e.At), TID: int(e.Tid),
				Command: text(e.Comm[:]), Number: e.Number, Cause: causeOf(&e.Command),
			}, nil) {
				return
			}
		}
	}
}

// Rows gives what was counted until now, the most frequent first.
func (s *ErrorSession) Rows() ([]ErrorRow, error) {
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	devices, err := s.devices()
	if err != nil {
		return nil, err
	}
	read := func() ([]ErrorRow, error) {
		return table(s.maps["failures"], func(k objects.ErrorsFailureKey, f objects.ErrorsFailure) ErrorRow {
			return s.row(&k, &f, devices)
		})
	}
	list, err := read()
	if err == nil && halfFull(s.maps["failures"], len(list)) {
		if err = s.retire(list, devices); err == nil {
			list, err = read()
		}
	}
	if err != nil {
		return nil, &Error{Op: "read", Object: "failures", Err: err}
	}
	list = append(list, s.ended.list()...)
	slices.SortFunc(list, ErrorRow.compare)
	return list, nil
}

func (s *ErrorSession) row(k *objects.ErrorsFailureKey, f *objects.ErrorsFailure, devices map[uint32]string) ErrorRow {
	return ErrorRow{
		ErrorSort: sortOf(k, &f.Command, devices[k.Device]), Command: text(f.Comm[:]), Count: f.Count,
		First: s.at(f.First), Last: s.at(f.Last), Number: f.Number, Cause: causeOf(&f.Command),
	}
}

func sortOf(k *objects.ErrorsFailureKey, c *objects.ErrorsCommand, device string) ErrorSort {
	e := ErrorSort{Class: ErrorClass(k.Class), PID: int(k.Tgid), Device: device, Err: syscall.Errno(-k.Error)}
	switch e.Class {
	case CallError:
		e.What = callName(k.Code, k.Detail, k.Flags != 0)
	case CommandError:
		e.What = commandName(c)
	case EventError:
		e.What = nameOf(eventNames, k.Code)
	case CompletionError:
		e.What, e.Vendor = nameOf(statusNames, k.Code), k.Detail
	}
	return e
}

// commandName names a command by its function, or as mlx5 does.
func commandName(c *objects.ErrorsCommand) string {
	if int(c.Code) < len(commandFunctions) {
		return commandFunctions[c.Code]
	}
	return fmt.Sprintf("mlx5 %s (%#x)", text(c.Text[:]), c.Detail)
}

func causeOf(c *objects.ErrorsCommand) *CommandFailure {
	if c.Error == 0 {
		return nil
	}
	return &CommandFailure{What: commandName(c), Err: syscall.Errno(-c.Error), Status: c.Status, Syndrome: c.Syndrome}
}
