package ncclxml

import (
	"errors"
	"fmt"
)

// ErrFormat: the file is no topology of NCCL.
var ErrFormat = errors.New("not a topology of NCCL, whose root element is <system>")

// Error is a part of a file that could not be understood.
type Error struct {
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("NCCL topology, line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// mostErrors are told each for itself; a file of another kind has one a line.
const mostErrors = 20

// fail notes what is wrong with the element at hand.
func (r *reader) fail(format string, args ...any) {
	if len(r.errs) == mostErrors {
		r.more++
		return
	}
	line, _ := r.xml.InputPos()
	r.errs = append(r.errs, &Error{Line: line, Err: fmt.Errorf(format, args...)})
}

// err joins what was noted.
func (r *reader) err() error {
	errs := r.errs
	if r.more > 0 {
		errs = append(errs, fmt.Errorf("NCCL topology: %d more like these", r.more))
	}
	return errors.Join(errs...)
}

// clip keeps a strange text from filling the screen.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
