// Package errname names error numbers as the manual pages do.
package errname

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// NotSupported is the kernel's own ENOTSUPP, which has no name in user space but
// escapes to it: drivers and exporters answer it.
const NotSupported = syscall.Errno(524)

// names are of numbers that have none in user space (include/linux/errno.h), and of one
// that has two.
var names = map[syscall.Errno]string{
	0:   "0",
	512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 517: "EPROBE_DEFER",
	NotSupported:       "ENOTSUPP",
	syscall.EOPNOTSUPP: "EOPNOTSUPP", // and ENOTSUP
}

// Of gives a number's name, as "ENOMEM"; "errno 4000" of one that has none.
func Of(e syscall.Errno) string {
	if name := names[e]; name != "" {
		return name
	}
	if name := unix.ErrnoName(e); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(e))
}

// Text is an error's text, and the name of a number besides: "cannot allocate memory
// (ENOMEM)", also where package os names the system call that gave it.
func Text(err error) string {
	if call, ok := err.(*os.SyscallError); ok {
		err = call.Err
	}
	e, ok := err.(syscall.Errno)
	switch {
	case err == context.DeadlineExceeded:
		return "the deadline has passed"
	case !ok:
		return err.Error()
	case e == NotSupported:
		return "not supported (ENOTSUPP, kernel-internal error 524)"
	case unix.ErrnoName(e) == "":
		return e.Error()
	}
	return fmt.Sprintf("%s (%s)", e.Error(), Of(e))
}

// Sentence is what an operation's error says: "OP on OBJECT: TEXT: DETAIL", of which
// only the first need be there.
func Sentence(op, object string, err error, detail string) string {
	if object != "" {
		op += " on " + object
	}
	if err != nil {
		op += ": " + Text(err)
	}
	if detail != "" {
		op += ": " + detail
	}
	return op
}
