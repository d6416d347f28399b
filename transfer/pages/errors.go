package pages

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Errors that errors.Is finds.
var (
	// ErrVerification: pages arrived that are not what was sent.
	ErrVerification = exchange.ErrVerification
	// ErrTimeout: the peer was there and nothing happened.
	ErrTimeout = errors.New("no progress")
	// ErrCancelled: this side's user ended the transfer.
	ErrCancelled = transfer.ErrCancelled
	// ErrLimit: the transfer wants more than the receiver is willing to give.
	ErrLimit = errors.New("over the receiver's limit")
	// ErrMismatch: the two sides cannot be connected as they are.
	ErrMismatch = errors.New("the two sides do not go together")
)

// PeerError is what the peer said of its end before it left.
type PeerError struct {
	Peer   string
	Reason string
}

func (e *PeerError) Error() string { return fmt.Sprintf("%s: %s", e.Peer, e.Reason) }

// VerifyError names pages that arrived otherwise than they were sent.
type VerifyError struct {
	Bad   int   // how many
	Pages int   // of so many
	First []int // the first of them
}

func (e *VerifyError) Error() string {
	list := fmt.Sprint(e.First[:min(len(e.First), 8)])
	if e.Bad > 8 {
		list += " …"
	}
	return fmt.Sprintf("%d of %d pages differ from what was sent: %s", e.Bad, e.Pages, list)
}

func (e *VerifyError) Unwrap() error { return ErrVerification }

func isVerify(err error) bool { return errors.As(err, new(*VerifyError)) }

// GroupError is a transfer to several receivers of which some failed.
type GroupError struct {
	Errs []error // of those that failed
	Of   int     // receivers
}

func (e *GroupError) Error() string {
	if len(e.Errs) == 1 {
		return fmt.Sprintf("one of %d receivers failed: %v", e.Of, e.Errs[0])
	}
	return fmt.Sprintf("%d of %d receivers failed, the first: %v", len(e.Errs), e.Of, e.Errs[0])
}

// Unwrap gives the receivers' errors.
func (e *GroupError) Unwrap() []error { return e.Errs }
