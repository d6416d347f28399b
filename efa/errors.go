package efa

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// Classes of errors, for errors.Is: the standard library's own, and so the same
// as those of package verbs.
var (
	ErrUnsupported = errors.ErrUnsupported
	ErrPermission  = fs.ErrPermission
	ErrClosed      = fs.ErrClosed
	ErrNoDevice    = error(syscall.ENODEV)
	ErrBusy        = error(syscall.EBUSY)
)

// Errors of this package's own checks, found by errors.Is.
var (
	// ErrQueueFull: more requests than the queue has room for.
	ErrQueueFull = errors.New("queue full")
	// ErrRange: a slice outside its memory region, an empty one where bytes
	// are needed, or more bytes than a request may move.
	ErrRange = errors.New("outside the limits")
	// ErrState: the endpoint does not take requests in its state.
	ErrState = errors.New("endpoint in error state")
	// ErrFlushed: a request that was not carried out because its endpoint
	// had failed or was closed.
	ErrFlushed = errors.New("flushed")
)

// Error is an operation on a device that failed.
type Error struct {
	Op     string // "efadv_create_cq", "create SRD endpoint", "post"
	Object string // what it was done to, as "efa_0 srd 3"
	Err    error  // errno, class, or the device's own answer
	Detail string // cause and remedy, where known
}

func (e *Error) Error() string { return errname.Sentence(e.Op, e.Object, e.Err, e.Detail) }

func (e *Error) Unwrap() error { return e.Err }

// failed makes an Error. A call that failed without telling why is EIO rather
// than a success.
func failed(op, object string, err error, detail string) error {
	if err == nil || err == syscall.Errno(0) {
		err = syscall.EIO
		if detail == "" {
			detail = "the driver or its library gave no error number"
		}
	}
	return &Error{Op: op, Object: object, Err: err, Detail: detail}
}

// PostError is a batch of which only the first Posted requests were taken.
type PostError struct {
	Posted int
	Err    error
}

func (e *PostError) Error() string { return fmt.Sprintf("%v (%d posted before it)", e.Err, e.Posted) }

func (e *PostError) Unwrap() error { return e.Err }

const errInvalid = syscall.EINVAL

func tooDeep(depth, most int) string {
	return fmt.Sprintf("a depth of %d, the device's limit is %d completions", depth, most)
}
