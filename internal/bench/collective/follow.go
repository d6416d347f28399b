package collective

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// follow does what node 0 says until that tells how it ended.
func follow(ctx context.Context, o Options, p Place) error {
	n, err := newNode(p)
	if err != nil {
		return err
	}
	leader := nodeName(0, p.Peers)
	conn, err := control.Dial(ctx, p.Peers[0], p.Credentials, controlOptions(o, p))
	if err != nil {
		return fmt.Errorf("%s: is it started there? %w", leader, err)
	}
	defer conn.Close()
	if err := tell(conn, kindHello, hello{Protocol: protocol, Rank: p.Rank, Of: len(p.Peers), About: n.about}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	commands := make(chan command)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		cancel(hear(ctx, conn, leader, commands, stop))
	}()
	defer func() { cancel(nil); <-heard }()
	for {
		select {
		case c := <-commands:
			r := n.do(work, c)
			if err := tell(conn, kindReply, r); err != nil && ctx.Err() == nil {
				cancel(&goneError{leader, err})
			}
		case <-ctx.Done():
			err := context.Cause(ctx)
			if errors.Is(err, errDone) {
				err = nil
			}
			return errors.Join(err, n.close(ctx))
		}
	}
}

// errDone is the end that was meant.
var errDone = errors.New("done")

// errStopped: another node failed, and node 0 will say which.
var errStopped = errors.New("another node failed")

// hear takes what node 0 says, and gives the error that ends this node.
func hear(ctx context.Context, conn *control.Conn, leader string, commands chan<- command, stop func(error)) error {
	for {
		kind, b, err := conn.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &goneError{leader, err}
		}
		switch kind {
		case kindCommand:
			var c command
			if err := json.Unmarshal(b, &c); err != nil {
				return fmt.Errorf("%s sent a command that is none: %w", leader, err)
			}
			select {
			case commands <- c:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case kindStop:
			stop(errStopped)
		case kindEnd:
			var e ending
			if err := json.Unmarshal(b, &e); err != nil {
				return fmt.Errorf("%s ended without a reason: %w", leader, err)
			}
			if e.Text == "" {
				return errDone
			}
			return e.error(leader + " ended it")
		default:
			return fmt.Errorf("%s sent message %v", leader, kind)
		}
	}
}
