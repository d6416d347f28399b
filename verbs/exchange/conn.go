package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Role is the part of a side where the two differ.
type Role int

const (
	Dialer   Role = iota // speaks first
	Acceptor             // listened
)

const (
	queueMax = 16 // frames received ahead of Receive
	lingerIn = time.Second
)

// Conn is a conversation with one peer. One goroutine of its own reads ahead, so
// that the end of the peer is noticed while nobody waits for a frame. Send and
// Receive may be called from different goroutines.
type Conn struct {
	nc   net.Conn
	role Role

	in  counted       // nc, for the reader
	out atomic.Uint64 // bytes written to nc

	frames  chan frame
	ended   chan struct{} // closed with err set: nothing more will come
	closing chan struct{} // closed by Close and Fail: what comes is thrown away
	reader  chan struct{} // closed when the goroutine has ended

	sending chan struct{} // holds a token while a frame is being written
	sent    uint32        // frames; belongs to the holder of the token

	mu          sync.Mutex
	err         error
	closed      bool
	peerTimeout time.Duration
}

// New begins a conversation over a connection, which it takes over.
func New(nc net.Conn, role Role) *Conn {
	c := &Conn{
		nc: nc, role: role, in: counted{Reader: nc},
		frames:  make(chan frame, queueMax),
		ended:   make(chan struct{}),
		closing: make(chan struct{}),
		reader:  make(chan struct{}),
		sending: make(chan struct{}, 1),
	}
	c.SetPeerTimeout(0)
	go c.read()
	return c
}

// Peer is the other side's address.
func (c *Conn) Peer() string { return c.nc.RemoteAddr().String() }

// LocalAddr is this side's address.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr is the other side's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Role tells which side this is.
func (c *Conn) Role() Role { return c.role }

func (c *Conn) read() {
	defer close(c.reader)
	for number := uint32(0); ; number++ {
		f, err := readFrame(&c.in, number)
		if err == nil && f.typ == typeError {
			err = remoteError(f.payload)
		}
		if err != nil {
			c.end(err)
			return
		}
		select {
		case c.frames <- f:
		case <-c.closing:
		}
	}
}

func remoteError(payload []byte) error {
	e := new(RemoteError)
	if err := json.Unmarshal(payload, e); err != nil {
		return &Error{Err: ErrProtocol, Detail: fmt.Sprintf("sent an error that cannot be read: %v", err)}
	}
	e.Text = plain(e.Text)
	return e
}

// end notes the first reason why nothing more comes.
func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	switch {
	case c.closed:
		err = ErrClosed
	case errors.Is(err, io.EOF):
		err = &Error{Err: ErrGone, Detail: "the peer closed the connection"}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		err = &Error{Err: ErrGone, Detail: "the peer dropped the connection: its program has ended"}
	case errors.Is(err, syscall.ETIMEDOUT):
		err = &Error{Err: ErrGone, Detail: fmt.Sprintf("no sign of life from the peer for %v: its machine or the network is down", c.peerTimeout)}
	}
	c.err = err
	close(c.ended)
}

// Err is why the conversation is over, and nil while it is not.
func (c *Conn) Err() error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err == nil {
		return nil
	}
	return c.error("exchange with", err)
}

// error names the operation and the peer.
func (c *Conn) error(op string, err error) error {
	e := &Error{Op: op, Peer: c.Peer(), Err: err}
	if inner, ok := err.(*Error); ok {
		if inner.Op != "" {
			return inner
		}
		e.Err, e.Detail = inner.Err, inner.Detail
	}
	return e
}

// Send sends a frame of the given type with v as JSON.
func (c *Conn) Send(ctx context.Context, t Type, v any) error {
	op := fmt.Sprintf("send %v to", t)
	payload, err := json.Marshal(v)
	if err != nil {
		return c.error(op, err)
	}
	if len(payload) > MaxPayload {
		return c.error(op, &Error{Err: ErrProtocol, Detail: fmt.Sprintf("%d bytes, at most %d fit into a frame", len(payload), MaxPayload)})
	}
	select {
	case c.sending <- struct{}{}:
		defer func() { <-c.sending }()
	case <-ctx.Done():
		return c.error(op, ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		return c.error(op, err)
	}
	c.mu.Lock()
	over := c.err
	if c.closed {
		over = ErrClosed
	}
	c.mu.Unlock()
	if over != nil {
		return c.error(op, over)
	}
	b := make([]byte, 0, headerSize+len(payload))
	b = append(appendHeader(b, t, len(payload), c.sent), payload...)
	n, err := c.write(ctx, b)
	if err == nil {
		c.sent++
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
		if n > 0 {
			// The rest of the frame would be needed before anything else.
			c.end(&Error{Err: err, Detail: "a frame was cut off by its context"})
			c.nc.Close()
		}
		return c.error(op, err)
	}
	// A peer that failed says why before it closes: that is the better error,
	// and on its way.
	select {
	case <-c.ended:
	case <-ctx.Done():
	case <-time.After(lingerIn):
	}
	c.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.error(op, c.err)
}

// write writes with the context's end as the deadline.
func (c *Conn) write(ctx context.Context, b []byte) (int, error) {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		c.nc.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := c.nc.Write(b)
	c.out.Add(uint64(n))
	if !stop() {
		<-fired
		c.nc.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// Receive waits for the next frame, which must be of the given type, and reads
// its JSON into v. A nil v throws the payload away. A peer that failed ends it
// with a *RemoteError.
func (c *Conn) Receive(ctx context.Context, want Type, v any) error {
	op := fmt.Sprintf("receive %v from", want)
	f, err := c.next(ctx)
	if err != nil {
		return c.error(op, err)
	}
	if f.typ != want {
		return c.error(op, &Error{Err: ErrProtocol, Detail: fmt.Sprintf("sent a frame of another kind: %v", f.typ)})
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(f.payload, v); err != nil {
		return c.error(op, &Error{Err: ErrProtocol, Detail: plain(fmt.Sprintf("sent JSON that does not fit: %v", err))})
	}
	return nil
}

func (c *Conn) next(ctx context.Context) (frame, error) {
	select {
	case <-c.closing:
		return frame{}, ErrClosed
	default:
	}
	over := false
	select {
	case f := <-c.frames:
		return f, nil
	case <-c.ended:
	case <-ctx.Done():
		over = true
	}
	// What came before the end, or before the deadline, counts: of several that are
	// there at once select takes any.
	select {
	case f := <-c.frames:
		return f, nil
	default:
	}
	if over {
		return frame{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return frame{}, c.err
}

// Barrier waits until the peer has come to its Barrier too. Frames that were
// sent before it must have been received.
func (c *Conn) Barrier(ctx context.Context) error {
	if err := c.Send(ctx, typeReady, struct{}{}); err != nil {
		return err
	}
	return c.Receive(ctx, typeReady, nil)
}
