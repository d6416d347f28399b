package mrcache

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// Classes of errors, for errors.Is.
var (
	ErrClosed  = fs.ErrClosed
	ErrInvalid = error(syscall.EINVAL)
	// ErrBudget: the range does not fit beside what is in use, by the cache's
	// own budget or by the device's limits.
	ErrBudget = errors.New("over the budget")
	// ErrBusy: transfers still refer to registrations.
	ErrBusy = error(syscall.EBUSY)
	// ErrStale: the memory is another allocation's by now, or is taken away as
	// fast as it is registered.
	ErrStale = errors.New("the allocation has changed")
)

// Error is an operation of the cache that failed.
type Error struct {
	Op      string // "register", "invalidate", "close"
	Rail    string
	Range   Range // zero where the operation has none
	Err     error
	Detail  string // cause and remedy, where known
	Holders []Holder
}

// Holder is a registered range that transfers refer to.
type Holder struct {
	Rail  string
	Range Range
	Refs  int
}

func (h Holder) String() string { return fmt.Sprintf("%s %v (%d references)", h.Rail, h.Range, h.Refs) }

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Rail != "" {
		fmt.Fprintf(&b, " on %s", e.Rail)
	}
	if e.Range.Length != 0 {
		fmt.Fprintf(&b, " of %v", e.Range)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	if len(e.Holders) > 0 {
		b.WriteString("; in use: " + holders(e.Holders))
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

func holders(list []Holder) string {
	const most = 5
	var parts []string
	for _, h := range list[:min(most, len(list))] {
		parts = append(parts, h.String())
	}
	if more := len(list) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
