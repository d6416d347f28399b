package device

import (
	"fmt"
	"io/fs"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// ErrClosed says that the device, its fabric or its link was closed. It is of the
// class fs.ErrClosed, as the ErrClosed of the other packages is.
var ErrClosed error = closed{}

type closed struct{}

func (closed) Error() string        { return "device closed" }
func (closed) Is(target error) bool { return target == fs.ErrClosed }

// StatusError is a control operation that the device refused, with the status
// that an admin completion carries for it.
type StatusError struct {
	Op     string // "create QP"
	Status wire.AdminStatus
	Reason string // the cause, and the remedy where there is one
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("efa device: %s: %s (%s)", e.Op, e.Reason, e.Status)
}

// Is finds a StatusError of the same status: errors.Is(err, &StatusError{Status: s}).
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && t.Status == e.Status && (t.Op == "" || t.Op == e.Op)
}

func illegal(op, format string, args ...any) error {
	return &StatusError{op, wire.AdminIllegalParameter, fmt.Sprintf(format, args...)}
}

func busy(op, format string, args ...any) error {
	return &StatusError{op, wire.AdminResourceBusy, fmt.Sprintf(format, args...)}
}

func exhausted(op, format string, args ...any) error {
	return &StatusError{op, wire.AdminResourceAllocationFailure, fmt.Sprintf(format, args...)}
}

func unsupported(op, format string, args ...any) error {
	return &StatusError{op, wire.AdminUnsupportedOpcode, fmt.Sprintf(format, args...)}
}
