package ebpfprobes

import (
	"syscall"
	"testing"
)

func TestCallName(t *testing.T) {
	for _, c := range []struct {
		object, method uint16
		write          bool
		want           string
	}{
		{notTold, 9, true, "reg mr (write)"},
		{notTold, 9, false, "reg mr (ioctl)"},
		{notTold, 26, true, "modify qp (write)"},
		{notTold, 40, true, "open qp (write)"},
		{notTold, 50, true, "create flow (write)"},
		{notTold, 57, true, "modify cq (write)"},
		{notTold, 45, true, "command 45 (write)"},
		{notTold, notTold, true, "? (write)"},
		{0, 3, false, "DEVICE: get context (ioctl)"},
		{7, 4, false, "MR: reg dmabuf (ioctl)"},
		{7, 5, false, "MR: reg (ioctl)"},
		{16, 0, false, "ASYNC_EVENT: alloc (ioctl)"},
		{7, 9, false, "MR: method 9 (ioctl)"},
		{7, 0x1002, false, "MR: driver's method 2 (ioctl)"},
		{99, 1, false, "object 99: method 1 (ioctl)"},
		{0x1003, 0x1001, false, "driver's object 3: method 1 (ioctl)"},
	} {
		if got := callName(c.object, c.method, c.write); got != c.want {
			t.Errorf("%#x %#x: %q, want %q", c.object, c.method, got, c.want)
		}
	}
}

func TestQuestion(t *testing.T) {
	for _, c := range []struct {
		sort ErrorSort
		want bool
	}{
		{ErrorSort{Class: CallError, What: "DEVICE: query gid entry (ioctl)", Err: syscall.ENODATA}, true},
		{ErrorSort{Class: CallError, What: "query device (ioctl)", Err: syscall.ENOSPC}, true},
		{ErrorSort{Class: CallError, What: "MR: reg dmabuf (ioctl)", Err: syscall.EOPNOTSUPP}, true},
		{ErrorSort{Class: CallError, What: "reg mr (write)", Err: syscall.ENOSPC}, false},
		{ErrorSort{Class: CallError, What: "reg mr (write)", Err: syscall.ENOMEM}, false},
		{ErrorSort{Class: CommandError, What: "efa_com_create_qp", Err: syscall.EOPNOTSUPP}, false},
	} {
		if got := c.sort.Question(); got != c.want {
			t.Errorf("%+v: %v", c.sort, got)
		}
	}
}
