package engine

import (
	"context"
	"errors"
	"sync"
)

// Pipe is a control connection between two engines of one process.
func Pipe() (dialled, accepted Control) {
	a, b := newPipeEnd("pipe"), newPipeEnd("pipe")
	a.other, b.other = b, a
	return a, b
}

var (
	errPipeClosed = errors.New("the connection is closed")
	errPipeFull   = errors.New("the peer reads too slowly")
)

// pipeMost is how many messages wait to be received.
const pipeMost = 1 << 14

type pipeMessage struct {
	kind    uint16
	payload []byte
}

type pipeEnd struct {
	identity string
	other    *pipeEnd
	in       chan pipeMessage
	once     sync.Once
	closed   chan struct{}
}

func newPipeEnd(identity string) *pipeEnd {
	return &pipeEnd{identity: identity, in: make(chan pipeMessage, pipeMost), closed: make(chan struct{})}
}

func (c *pipeEnd) Send(kind uint16, payload []byte) error {
	select {
	case <-c.closed:
		return errPipeClosed
	case <-c.other.closed:
		return errPipeClosed
	default:
	}
	select {
	case c.other.in <- pipeMessage{kind, append([]byte(nil), payload...)}:
		return nil
	default:
		return errPipeFull
	}
}

func (c *pipeEnd) Receive(ctx context.Context) (uint16, []byte, error) {
	select {
	case m := <-c.in:
		return m.kind, m.payload, nil
	default:
	}
	select {
	case m := <-c.in:
		return m.kind, m.payload, nil
	case <-c.closed:
		return 0, nil, errPipeClosed
	case <-c.other.closed:
		select {
		case m := <-c.in: // sent before the end
			return m.kind, m.payload, nil
		default:
		}
		return 0, nil, errPipeClosed
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
}

func (c *pipeEnd) Identity() string { return c.identity }

// Left is true: nothing but a Close ends a pipe.
func (c *pipeEnd) Left() bool { return true }

func (c *pipeEnd) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
