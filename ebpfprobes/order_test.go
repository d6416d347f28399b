package ebpfprobes

import (
	"slices"
	"testing"
	"time"
)

// checkOrder holds rows to a total order: those that differ in one thing only are told
// apart, and the more frequent comes first.
func checkOrder[T any](t *testing.T, compare func(a, b T) int, rows ...T) {
	t.Helper()
	for i := range rows {
		for j := range rows {
			c, back := compare(rows[i], rows[j]), compare(rows[j], rows[i])
			if c != -back || (c == 0) != (i == j) {
				t.Errorf("%+v and %+v: %d, turned round %d", rows[i], rows[j], c, back)
			}
		}
	}
	// The last one is the most frequent.
	if first := slices.MinFunc(rows, compare); compare(first, rows[len(rows)-1]) != 0 {
		t.Errorf("%+v is the first", first)
	}
}

func TestOrders(t *testing.T) {
	checkOrder(t, RegistrationFailure.compare, RegistrationFailure{}, RegistrationFailure{PID: 1}, RegistrationFailure{Command: "a"},
		RegistrationFailure{Device: "a"}, RegistrationFailure{Operation: 1}, RegistrationFailure{Kind: 1}, RegistrationFailure{Err: 1},
		RegistrationFailure{Cause: 1}, RegistrationFailure{CausePhase: 1}, RegistrationFailure{Count: 1, PID: 9})
	checkOrder(t, CompletionFailure.compare, CompletionFailure{}, CompletionFailure{PID: 1}, CompletionFailure{Command: "a"},
		CompletionFailure{Device: "a"}, CompletionFailure{Queue: 1}, CompletionFailure{QP: 1}, CompletionFailure{Status: 1},
		CompletionFailure{Opcode: 1}, CompletionFailure{Count: 1, PID: 9})
	checkOrder(t, QPTransition.compare, QPTransition{}, QPTransition{PID: 1}, QPTransition{Command: "a"}, QPTransition{Device: "a"},
		QPTransition{Type: 1}, QPTransition{Change: 1}, QPTransition{From: 1}, QPTransition{To: 1}, QPTransition{Err: 1},
		QPTransition{Count: 1, PID: 9, Sum: time.Second})
	sorted := func(s ErrorSort) ErrorRow { return ErrorRow{ErrorSort: s} }
	checkOrder(t, ErrorRow.compare, ErrorRow{}, sorted(ErrorSort{Class: 1}), sorted(ErrorSort{PID: 1}), sorted(ErrorSort{Device: "a"}),
		sorted(ErrorSort{What: "a"}), sorted(ErrorSort{Err: 1}), sorted(ErrorSort{Vendor: 1}), ErrorRow{Command: "a"},
		ErrorRow{ErrorSort: ErrorSort{Class: 1}, Count: 1})
}
