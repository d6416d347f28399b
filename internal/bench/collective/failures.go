package collective

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unicode"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// ending is a failure on its way between nodes. Class is what errors.Is finds.
type ending struct {
	Text  string `json:",omitempty"`
	Class string `json:",omitempty"`
}

// classInterrupted: somebody ended the node.
const classInterrupted = "interrupted"

// classes are those that decide on exit codes, and follow: what a node says that
// another one's failure has led to.
var classes = []struct {
	name string
	err  error
}{
	{"verification", exchange.ErrVerification},
	{"no device", syscall.ENODEV},
	{"permission", fs.ErrPermission},
	{"unsupported", errors.ErrUnsupported},
	{"follow", engine.ErrLost}, {"follow", ring.ErrSilent}, {"follow", errNeighbour}, {"follow", context.Canceled}, {"follow", errStopped},
	{"follow", fs.ErrClosed}, {"follow", engine.ErrRights},
}

func endingOf(err error) ending {
	if err == nil {
		return ending{}
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return ending{err.Error(), c.name}
		}
	}
	return ending{Text: err.Error()}
}

// remoteError is another node's failure.
type remoteError struct {
	node string
	ending
}

func (e *ending) error(node string) error {
	return &remoteError{node, ending{printable(e.Text), e.Class}}
}

// printable is what another node said, without what would move a terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' { // which joins errors
			return r
		}
		return '?'
	}, s)
}

func (e *remoteError) Error() string { return e.node + ": " + e.Text }

func (e *remoteError) Unwrap() error {
	for _, c := range classes {
		if c.name == e.Class {
			return c.err
		}
	}
	return nil
}

// goneError is a node that ended without a word, or said nothing for too long.
type goneError struct {
	node string
	err  error
}

func (e *goneError) Error() string { return fmt.Sprintf("%s is lost: %v", e.node, e.err) }
func (e *goneError) Unwrap() error { return e.err }

// failures are what nodes say of one failed command.
type failures []error

// cause is the failure that the others follow from: that a node is gone, or else what
// a node says of itself.
func (f failures) cause() error {
	if len(f) == 0 {
		return nil
	}
	best, rank := f[0], 0
	for _, err := range f {
		r := 1
		switch gone, remote := new(goneError), new(remoteError); {
		case errors.As(err, &gone), errors.As(err, &remote) && remote.Class == classInterrupted:
			r = 3
		case errors.As(err, &remote) && remote.Class != "follow":
			r = 2
		}
		if r > rank {
			best, rank = err, r
		}
	}
	return best
}
