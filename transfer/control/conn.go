package control

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a conversation with a peer that has proved itself. Send may be called
// from any goroutine, Receive from one at a time. Two goroutines of the Conn's
// own read and write; they end, and the connection is closed, when the
// conversation is over for whatever reason. Close waits for that.
type Conn struct {
	nc   net.Conn // what tls goes over; closing it ends reader and writer
	tls  *tls.Conn
	name string

	heartbeat time.Duration
	lease     time.Duration

	out, in queue
	taken   []byte // from in: Receive's buffer
	next    []byte // what of it was not received yet
	given   int    // bytes of the frame that was received last

	sent, received atomic.Uint64 // bytes

	running sync.WaitGroup
	done    chan struct{} // closed with err set

	mu  sync.Mutex
	err *Error
}

// linger is how long Close waits for the peer to take the last messages.
const linger = time.Second

// start begins the conversation of a session, which it takes over.
func start(s *session, o Options) *Conn {
	c := &Conn{
		nc: s.nc, tls: s.tls, name: s.name,
		heartbeat: min(o.Heartbeat, s.lease/pingsPerLease),
		lease:     o.Lease,
		out:       newQueue(o.Queue),
		in:        newQueue(o.Queue),
		done:      make(chan struct{}),
	}
	c.running.Go(c.read)
	c.running.Go(c.write)
	return c
}

// Peer is who the peer has proved to be: the name in its certificate, or "token".
func (c *Conn) Peer() string { return c.name }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// LocalAddr is this side's address.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// Traffic is how many bytes went either way from the proofs on, before encryption.
func (c *Conn) Traffic() (sent, received uint64) { return c.sent.Load(), c.received.Load() }

// Done is closed when the conversation is over; Err tells why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the conversation is over, and nil while it is not: the first cause,
// one of ErrClosed, ErrLeft, ErrGone, ErrSlow and ErrProtocol.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// end notes why the conversation is over, and says whether that is news.
func (c *Conn) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = about("control connection with", c.String(), err)
	close(c.done)
	return true
}

// fail ends the conversation without a word to the peer.
func (c *Conn) fail(err error) {
	c.end(lost(err))
	c.nc.Close()
}

// lost says what an error of reading or writing means.
func lost(err error) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case noTLS, ok && (op.Op == "local error" || op.Op == "remote error"):
		return why(ErrProtocol, "the encrypted stream is damaged (%s): something between the two sides changes it", plain(err.Error()))
	case shut(err):
		return why(ErrGone, "the peer closed the connection without a word: its program has ended, or has given this side up")
	}
	return why(ErrGone, "the connection failed: %s", plain(err.Error()))
}

// String names the peer and its address.
func (c *Conn) String() string { return c.name + " at " + c.RemoteAddr().String() }

// over says whether the conversation is over.
func (c *Conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// leaving says whether it is over because Close was called.
func (c *Conn) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil && c.err.Err == ErrClosed
}

// Close writes what is queued, tells the peer that this side leaves, and closes
// the connection, all within a second whatever the peer does. Messages that were
// not received are thrown away. A conversation that is over already is only
// waited for.
func (c *Conn) Close() error {
	if c.end(ErrClosed) {
		cut := time.AfterFunc(linger, func() { c.nc.Close() })
		defer cut.Stop()
	}
	c.running.Wait()
	c.nc.Close()
	return nil
}
