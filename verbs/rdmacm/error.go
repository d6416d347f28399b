package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// Classes of errors, for errors.Is. A refused connection is
// syscall.ECONNREFUSED, one that is never answered syscall.ETIMEDOUT.
var (
	ErrUnsupported = errors.ErrUnsupported
	ErrPermission  = fs.ErrPermission
	ErrClosed      = fs.ErrClosed
	ErrNoDevice    = error(syscall.ENODEV)
)

// Error is an operation of the connection manager that failed.
type Error struct {
	Op      string         // "dial", "listen", or the kernel's command
	Addr    netip.AddrPort // the remote address of a dial, the local one of a listener
	Err     error          // an errno, a context's error, or a class
	Event   *Event         // the event that ended it, where one did
	Detail  string         // cause and remedy
	Private []byte         // what a peer that refused had to say
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("rdmacm: " + e.Op)
	if e.Addr.IsValid() {
		b.WriteString(" " + e.Addr.String())
	}
	if e.Event != nil {
		fmt.Fprintf(&b, ": %v", e.Event.Type)
		if e.Event.Status != 0 {
			fmt.Fprintf(&b, " (status %d)", e.Event.Status)
		}
	}
	if e.Err != nil {
		b.WriteString(": " + errText(e.Err))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

func errText(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer before the deadline"
	}
	return errname.Text(err)
}

// eventError is the error of an operation that an event ended.
func eventError(op string, addr netip.AddrPort, ev Event) error {
	detail, err := ev.failure()
	return &Error{Op: op, Addr: addr, Err: err, Event: &ev, Detail: detail, Private: ev.Private}
}

// commandError says of a refused command what is known of the cause.
func commandError(op string, addr netip.AddrPort, err error) error {
	var wrapped *Error
	if errors.As(err, &wrapped) {
		return err
	}
	e := &Error{Op: op, Addr: addr, Err: err}
	switch {
	case errors.Is(err, syscall.EACCES):
		e.Detail = "the kernel refuses a descriptor that was opened under other credentials, or the process may not use it"
	case op == "dial" && (errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL)):
		e.Detail = fmt.Sprintf("TCP has every local port that was tried, %d of them; see: ss -tan, sysctl net.ipv4.ip_local_port_range", portAttempts)
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENODEV):
		e.Detail = "no RDMA device has that address; see: rdma link, ip addr"
	case errors.Is(err, syscall.EADDRINUSE):
		e.Detail = "another listener has that port; choose another"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Detail = "nobody listens there"
	case errors.Is(err, syscall.ENOSYS):
		e.Detail = "the kernel or the device's driver does not know the command"
	}
	return e
}
