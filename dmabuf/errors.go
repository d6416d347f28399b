package dmabuf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// Classes of errors, for errors.Is: the standard library's own, as everywhere
// in this module.
var (
	ErrUnsupported = errors.ErrUnsupported
	ErrPermission  = fs.ErrPermission
	ErrClosed      = fs.ErrClosed
	ErrNoDevice    = error(syscall.ENODEV)
)

// ErrRange: bytes outside the memory or the buffer.
var ErrRange = errors.New("outside the buffer")

// Error is an operation of an exporter that failed.
type Error struct {
	Op       string // "UDMABUF_CREATE", "cuMemGetHandleForAddressRange", "open /dev/kfd"
	Exporter string // "udmabuf", "cuda:0"
	Err      error  // the errno, a library's own status, or a class
	Detail   string // cause and remedy, where known
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Exporter != "" {
		fmt.Fprintf(&b, "%s: ", e.Exporter)
	}
	b.WriteString(e.Op)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", errname.Text(e.Err))
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }
