package errname

import (
	"errors"
	"syscall"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		err        error
		name, text string
	}{
		{syscall.ENOMEM, "ENOMEM", "cannot allocate memory (ENOMEM)"},
		{syscall.EAGAIN, "EAGAIN", "resource temporarily unavailable (EAGAIN)"},
		{syscall.EOPNOTSUPP, "EOPNOTSUPP", "operation not supported (EOPNOTSUPP)"},
		{syscall.Errno(524), "ENOTSUPP", "not supported (ENOTSUPP, kernel-internal error 524)"},
		{syscall.Errno(512), "ERESTARTSYS", "errno 512"},
		{syscall.Errno(4000), "errno 4000", "errno 4000"},
		{syscall.Errno(0), "0", "errno 0"},
		{errors.New("broken"), "", "broken"},
	} {
		if got := Text(c.err); got != c.text {
			t.Errorf("%v: %q, want %q", c.err, got, c.text)
		}
		if e, ok := c.err.(syscall.Errno); ok && Of(e) != c.name {
			t.Errorf("%d: %q, want %q", int(e), Of(e), c.name)
		}
	}
}
