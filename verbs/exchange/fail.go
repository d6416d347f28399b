package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"
)

// Watch gives a context that ends as soon as the peer closes the connection or
// reports an error; context.Cause tells which. It takes no frames away, but the
// peer's end is seen only while no more than 16 frames wait to be received. The
// function ends the watch.
func (c *Conn) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c.ended:
			cancel(c.Err())
		case <-watched.Done():
		}
	}()
	return watched, func() { cancel(context.Canceled) }
}

// Fail tells the peer why this side gives up and closes the connection. It is
// for the error's sake bounded to about a second, whatever the peer does, and
// gives the error back. A failure that came from the peer is not sent again.
func (c *Conn) Fail(err error) error {
	if err == nil {
		err = errors.New("unknown failure")
	}
	defer c.Close()
	var remote *RemoteError
	if errors.As(err, &remote) || c.over() && !errors.Is(err, ErrVersion) {
		return err
	}
	c.discard()
	ctx, cancel := context.WithTimeout(context.Background(), lingerIn)
	defer cancel()
	if c.tell(ctx, err) != nil {
		return err
	}
	// Closing with data unread would make TCP throw away what was sent last:
	// let the peer close first.
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		select {
		case <-c.reader:
			c.nc.SetReadDeadline(time.Now().Add(lingerIn))
			io.CopyN(io.Discard, &c.in, MaxPayload)
		case <-ctx.Done():
		}
	}
	return err
}

// tell sends the error frame, also where reading has ended already.
func (c *Conn) tell(ctx context.Context, err error) error {
	payload, merr := json.Marshal(RemoteError{Text: plain(err.Error()), Class: ClassOf(err)})
	if merr != nil {
		return merr
	}
	select {
	case c.sending <- struct{}{}:
		defer func() { <-c.sending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b := append(appendHeader(nil, typeError, len(payload), c.sent), payload...)
	c.sent++
	_, werr := c.write(ctx, b)
	return werr
}

func (c *Conn) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// discard makes the reader throw away what comes from now on.
func (c *Conn) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
}

// Close ends the conversation.
func (c *Conn) Close() error {
	c.discard()
	err := c.nc.Close()
	<-c.reader
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
