package ebpfprobes

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// wallClock turns times of the programs' clock, CLOCK_MONOTONIC, into those of the wall.
// The wall's clock is set while a session runs, and drifts against the other: the
// difference is taken at each time. It is kept until it is off by a millisecond, so that
// one moment gets one time.
type wallClock struct {
	offset atomic.Int64 // ns; 0 is not taken yet
}

// sameOffset is how far apart two differences may be that count as one, ns.
const sameOffset = int64(time.Millisecond)

func (c *wallClock) at(ns uint64) time.Time { return time.Unix(0, int64(ns)+c.now()) }

func (c *wallClock) now() int64 {
	before := int64(monotonic())
	wall := time.Now().UnixNano()
	after := int64(monotonic())
	// A thread that had to wait in between does not know better than by that.
	return c.keep(wall-(before+after)/2, after-before)
}

// keep takes a difference that is right within doubt, and gives the one that counts.
func (c *wallClock) keep(offset, doubt int64) int64 {
	kept := c.offset.Load()
	if off := max(offset-kept, kept-offset); kept != 0 && off <= sameOffset+doubt {
		return kept
	}
	c.offset.Store(offset)
	return offset
}

func monotonic() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}
