package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// bootError is a run that ended before any command had started. A kernel that
// brings up its emulated processors on a loaded host hangs now and then; the
// next boot does not.
type bootError struct{ error }

func (e *bootError) Unwrap() error { return e.error }

var errTimeout = errors.New("timeout")

// What a guest may say after what: anything else is a guest out of its mind,
// and must not count as ready or ended twice.
var followedBy = map[frameKind]string{
	gone:       "h",  // the start of it all
	frameHello: "rf", // while it sets itself up
	frameReady: "x",
}

// guestError describes a guest that failed. If QEMU did not even start, its own
// words are all there is.
func (r *labRun) guestError(node int, problem string) *GuestError {
	g := r.guests[node]
	select {
	case <-g.done:
	case <-time.After(time.Second): // it failed without dying
	}
	if words := g.words.last(consoleLines); words != "" {
		problem += "; QEMU says: " + strings.TrimSpace(words)
	}
	return &GuestError{Node: node, Problem: problem, Console: g.console.last(consoleLines)}
}

func (r *labRun) timeoutError(state []frameKind) error {
	return r.unfinished(state, frameExit, fmt.Sprintf("within %s (--timeout)", r.Timeout))
}

func (r *labRun) lateError(state []frameKind) error {
	return r.unfinished(state, frameReady, "in time; a loaded machine may need fewer nodes or processors")
}

// unfinished describes all guests that did not get as far as wanted.
func (r *labRun) unfinished(state []frameKind, wanted frameKind, when string) error {
	what := map[frameKind]string{
		gone:       "it did not boot",
		frameHello: "it did not bring up its link and RDMA device",
		frameReady: "its command did not end",
	}
	var all []error
	for node, kind := range state {
		if kind == wanted {
			continue
		}
		problem := what[kind]
		if kind == frameReady && slices.Contains(state, gone) {
			problem = "it waited for the others"
		}
		all = append(all, &GuestError{
			Node: node, Problem: problem + " " + when,
			Console: r.guests[node].console.last(consoleLines),
		})
	}
	return errors.Join(all...)
}
