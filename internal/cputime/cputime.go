// Package cputime is a clock for tests of how much work something is: that of the
// processors that this process has used, which runs no faster on a busy machine.
package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is how long this process's threads have run so far, in user mode and in the
// kernel. What the test runs at the same time is in it.
func Now() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err) // there is no way to fail with these arguments
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Since is how long they have run since.
func Since(start time.Duration) time.Duration { return Now() - start }
