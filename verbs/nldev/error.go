package nldev

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// The classes of errors that callers tell apart, for errors.Is.
var (
	// ErrNoDevice: there is no such device, or this kernel has no RDMA at all.
	ErrNoDevice error = syscall.ENODEV
	// ErrPermission: CAP_NET_ADMIN is missing.
	ErrPermission = fs.ErrPermission
	// ErrUnsupported: this kernel or this device does not do that.
	ErrUnsupported = errors.ErrUnsupported
	// ErrClosed: the Client or Monitor was closed.
	ErrClosed = os.ErrClosed
)

// Error is the error of every operation of this package; Links may join several.
// It unwraps to Errno and to Err, whichever are set.
type Error struct {
	Op     string        // what was asked for, say "list queue pairs"
	Device string        // "" where no single device was concerned
	Errno  syscall.Errno // the kernel's answer, or the nearest to it; 0 where it gave none
	Err    error         // what else went wrong: a context's end, a malformed message
	Reason string        // the cause in words, the kernel's own where it gave any
	Remedy string        // what to do about it
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("nldev: ")
	if e.Device != "" {
		b.WriteString(e.Device + ": ")
	}
	b.WriteString(e.Op)
	switch {
	case e.Errno != 0:
		b.WriteString(": " + errname.Text(e.Errno))
	case e.Err != nil:
		b.WriteString(": " + e.Err.Error())
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

func (e *Error) Unwrap() []error {
	var wrapped []error
	if e.Errno != 0 {
		wrapped = append(wrapped, e.Errno)
	}
	if e.Err != nil {
		wrapped = append(wrapped, e.Err)
	}
	return wrapped
}

// remedy is what to do about an errno whatever the operation was.
func remedy(errno syscall.Errno) string {
	switch errno {
	case syscall.EPERM, syscall.EACCES:
		return "this needs CAP_NET_ADMIN: run it as root"
	case syscall.ETIMEDOUT:
		return "the kernel is busy with RDMA devices: see dmesg"
	case syscall.ENOBUFS:
		return "notifications were lost: list the devices anew"
	}
	return ""
}
