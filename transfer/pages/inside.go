package pages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// Inside moves pages from one node of embedded devices to another, both in this
// process. Rail and Credentials of the options are not used; only the sender's
// progress is told. opened, if there is one, sees both nodes before they begin. Results
// are there as [Node.To] and [Listener.Receive] give them; of two errors it is the one
// that is the cause.
func Inside(ctx context.Context, e *transfer.Embedded, from, to int, o Options, what SendOptions, opened func(sender, receiver *Node)) (sent, received *Result, err error) {
	return inside(ctx, e, from, to, o, what, ListenOptions{MaxBytes: MaxSpan}, opened)
}

func inside(ctx context.Context, e *transfer.Embedded, from, to int, o Options, what SendOptions, lo ListenOptions, opened func(sender, receiver *Node)) (sent, received *Result, err error) {
	if from == to || from < 0 || to < 0 || from >= e.Nodes() || to >= e.Nodes() {
		return nil, nil, &transfer.OptionError{Option: "device", Err: fmt.Errorf("from node %d to node %d of %d: there must be two", from, to, e.Nodes())}
	}
	if o.Credentials, err = control.Token(rand.Text()); err != nil {
		return nil, nil, err
	}
	o.Rail = e.Node(from)
	sender, err := Open(o)
	if err != nil {
		return nil, nil, err
	}
	o.Rail, o.Tell = e.Node(to), nil
	receiver, err := Open(o)
	if err != nil {
		return nil, nil, errors.Join(err, sender.Close())
	}
	if opened != nil {
		opened(sender, receiver)
	}
	sent, received, err = between(ctx, sender, receiver, what, lo)
	if ctx.Err() != nil && !isVerify(err) && err != nil {
		err = ErrCancelled
	}
	if closing := errors.Join(sender.Close(), receiver.Close()); err == nil {
		err = closing
	}
	return sent, received, err
}

// between moves pages between two nodes of this process.
func between(ctx context.Context, sender, receiver *Node, what SendOptions, lo ListenOptions) (sent, received *Result, err error) {
	receiving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lo.unmet = cancel // the only sender, so nobody will come
	l, err := receiver.Listen(ctx, "127.0.0.1:0", lo)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		var err error
		if received, err = l.Receive(receiving); received == nil {
			err = context.Cause(receiving)
		}
		ended <- err
	}()
	results, err := sender.To(ctx, []string{l.Addr().String()}, what)
	if len(results) > 0 {
		sent = results[0]
	}
	if sent == nil {
		cancel(ErrCancelled) // nobody has connected, or not for long
	}
	theirs := <-ended
	// What one side was told by the other is the other's to say.
	if (err == nil || errors.As(err, new(*PeerError))) && theirs != nil && sent != nil {
		err = theirs
	}
	return sent, received, err
}
