package errname

import (
	"context"
	"errors"
	"os"
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
		{os.NewSyscallError("connect", syscall.ECONNREFUSED), "", "connection refused (ECONNREFUSED)"},
		{context.DeadlineExceeded, "", "the deadline has passed"},
	} {
		if got := Text(c.err); got != c.text {
			t.Errorf("%v: %q, want %q", c.err, got, c.text)
		}
		if e, ok := c.err.(syscall.Errno); ok && Of(e) != c.name {
			t.Errorf("%d: %q, want %q", int(e), Of(e), c.name)
		}
	}
}

func TestSentence(t *testing.T) {
	for want, got := range map[string]string{
		"ibv_reg_mr": Sentence("ibv_reg_mr", "", nil, ""),
		"ibv_reg_mr on rxe0 pd 3: cannot allocate memory (ENOMEM): memlock": Sentence("ibv_reg_mr", "rxe0 pd 3", syscall.ENOMEM, "memlock"),
		"post: queue full": Sentence("post", "", nil, "queue full"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
