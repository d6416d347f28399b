package verbs

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// Classes of errors, for errors.Is. They are the standard library's own, so
// that an errno matches them by itself and packages need not know each other.
var (
	ErrUnsupported = errors.ErrUnsupported
	ErrPermission  = fs.ErrPermission
	ErrClosed      = fs.ErrClosed
	ErrNoDevice    = error(syscall.ENODEV)
	ErrBusy        = error(syscall.EBUSY)
)

// Errors of this package's own checks, found by errors.Is.
var (
	// ErrQueueFull: more requests than the queue was created for.
	ErrQueueFull = errors.New("queue full")
	// ErrRange: a slice that lies outside its memory region.
	ErrRange = errors.New("outside the memory region")
)

// Error is a verb that failed.
type Error struct {
	Verb   string // function of libibverbs, as "ibv_reg_mr"
	Object string // what it was called on, as "rxe0 pd 3"
	Err    error  // the errno, or a class where no kernel was asked
	Detail string // cause and remedy, where known
}

func (e *Error) Error() string { return errname.Sentence(e.Verb, e.Object, e.Err, e.Detail) }

func (e *Error) Unwrap() error { return e.Err }

// failed makes an Error of the errno that came with a verb. A verb that failed
// without one is reported as EIO rather than as a success.
func failed(verb, object string, err error, detail string) error {
	if err == nil || err == syscall.Errno(0) {
		err = syscall.EIO
		if detail == "" {
			detail = "the driver or its library gave no error number"
		}
	}
	return &Error{Verb: verb, Object: object, Err: err, Detail: detail}
}

// code does the same for verbs that give the error number as their result.
func code(verb, object string, rc int, detail string) error {
	if rc == 0 {
		return nil
	}
	return failed(verb, object, syscall.Errno(rc), detail)
}
