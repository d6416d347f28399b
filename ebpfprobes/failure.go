package ebpfprobes

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/internal/errname"
)

// ErrorClass is what failed.
type ErrorClass uint8

const (
	CallError       ErrorClass = iota // a call of the uverbs interface returned an error
	CommandError                      // a device refused a command of its driver
	EventError                        // a device or a queue reported by itself
	CompletionError                   // a work request completed in error, where the kernel sees it
)

// String names the class.
func (c ErrorClass) String() string { return word(c, "call", "command", "event", "completion") }

// CommandFailure is a command that a device did not carry out.
type CommandFailure struct {
	What     string // the command as its driver calls it
	Err      syscall.Errno
	Status   uint8  // the device's, where the driver tells; 0 is not told
	Syndrome uint32 // of mlx5: what its firmware says of the cause
}

// String gives what the driver told.
func (c CommandFailure) String() string {
	s := fmt.Sprintf("%s: %s", c.What, errname.Of(c.Err))
	if c.Status != 0 || c.Syndrome != 0 {
		s += fmt.Sprintf(" (status %#x, syndrome %#x)", c.Status, c.Syndrome)
	}
	return s
}

// ErrorSort tells failures apart that are not alike.
type ErrorSort struct {
	Class  ErrorClass
	PID    int    // 0 is unknown, or the kernel's own, or see ErrorRow.Ended
	Device string // "" is unknown
	What   string // what failed: "MR: reg (write)", "efa_com_create_qp", "QP_FATAL", "WR_FLUSH_ERR"
	Err    syscall.Errno
	Vendor uint16 // of completions: the device's own code; 0 is not told
}

// Question tells whether the failure is most likely an answer: libraries ask for what a
// device or a kernel may not have, and for entries of tables that may be empty.
func (e ErrorSort) Question() bool {
	if e.Class != CallError {
		return false
	}
	switch e.Err {
	case syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.ENOTTY:
		return true
	case syscall.ENODATA:
		return strings.HasPrefix(e.What, "DEVICE: query gid entry")
	case syscall.ENOSPC: // of an answer, in what an older library gives room for
		return strings.HasPrefix(e.What, "query device")
	}
	return false
}

// ErrorRow counts failures that are alike.
type ErrorRow struct {
	ErrorSort
	Command string // the thread's name; "" is unknown
	// Ended tells of a row of processes of that name that are no more. Those of one name
	// become one when the kernel's table is half full; PID is 0 then.
	Ended       bool
	Count       uint64
	First, Last time.Time
	Number      uint32 // the last one's queue pair or port; 0 is not told
	// Cause is the command of the device that failed within the last of these calls, or
	// the command itself; nil if there is none.
	Cause *CommandFailure
}

// Failure is one failure.
type Failure struct {
	ErrorSort
	At      time.Time
	TID     int    // 0 is unknown
	Command string // the thread's name; "" is unknown
	Number  uint32
	Cause   *CommandFailure
}
