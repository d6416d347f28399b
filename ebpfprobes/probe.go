package ebpfprobes

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Classes of errors, for errors.Is: the standard library's own, as everywhere in
// this module. A closed session's is ErrClosed.
var (
	ErrUnsupported = errors.ErrUnsupported
	ErrPermission  = fs.ErrPermission
	ErrClosed      = fs.ErrClosed
)

// State is an answer that may be unknown.
type State uint8

const (
	Unknown State = iota
	No
	Yes
)

// String gives the state in a word.
func (s State) String() string {
	return [...]string{"unknown", "no", "yes"}[s]
}

// MarshalText spells the state in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// By is the way in which a program is attached.
type By string

const (
	ByFentry     By = "fentry"     // cheap; holds the module that the function is in
	ByKprobe     By = "kprobe"     // dearer; does not
	ByTracepoint By = "tracepoint" // stable between kernels
	ByUprobe     By = "uprobe"     // in a process
)

// Probe is a place where a program is attached, or would be, or cannot.
type Probe struct {
	Purpose  string // "registrations", …
	Role     string // what it is for: "whole call", "pinning", …
	Function string // as the kernel calls it, or its name in the table if it was not found
	Module   string // "" is the kernel itself
	By       By     // "" if it cannot be attached
	Usable   State
	Why      string // of a No or Unknown
	Err      error  // the same, to be asked with errors.Is; nil of what is simply not there
	Needed   bool   // without it there is no trace of that purpose

	phase bool // it tells a phase apart, and nothing else hangs on it
}

// String gives the probe in a line.
func (p Probe) String() string {
	where := p.Function
	if p.Module != "" {
		where = p.Module + ":" + where
	}
	if p.Usable == Yes {
		return fmt.Sprintf("%s: %s by %s", p.Role, where, p.By)
	}
	return fmt.Sprintf("%s: %s: %s: %s", p.Role, where, p.Usable, p.Why)
}

// Error tells what could not be traced.
type Error struct {
	Op     string // "load", "attach", "read", …
	Object string // a probe, a map, a process
	Err    error
}

func (e *Error) Error() string {
	parts := []string{e.Op}
	if e.Object != "" {
		parts = append(parts, e.Object)
	}
	return strings.Join(parts, " ") + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }
