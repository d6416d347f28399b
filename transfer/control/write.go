package control

import (
	"errors"
	"net"
	"os"
	"time"
)

// Send queues a message of type TypeUser or more, and copies its payload, of at
// most MaxPayload bytes. It never waits for the peer. If the peer has not read
// enough of what was sent before, the queue is full, and the conversation ends
// with ErrSlow: a peer that far behind would not become faster. No error means
// that the message is queued, not that it has arrived.
func (c *Conn) Send(t Type, payload []byte) error {
	switch {
	case t < TypeUser:
		return about("send to", c.String(), why(ErrUsage, "%v is the package's own, messages have %v or more", t, TypeUser))
	case len(payload) > MaxPayload:
		return about("send to", c.String(), why(ErrUsage, "a message of %d bytes, at most %d are allowed", len(payload), MaxPayload))
	case c.over():
		return c.Err()
	case c.out.put(t, payload):
		return nil
	}
	c.fail(why(ErrSlow, "%d bytes wait for it, and %d more do not fit: it does not read what it is sent", c.out.used(), len(payload)))
	return c.Err()
}

// writeChunk is what is written at once, under one deadline: some TLS records.
const writeChunk = 64 << 10

// write writes what is queued, and pings when nothing was for a while.
func (c *Conn) write() {
	idle := time.NewTimer(c.heartbeat)
	defer idle.Stop()
	var batch []byte
	for ok := true; ok; {
		select {
		case <-c.out.ready:
		case <-idle.C:
			c.out.trim()
			c.out.put(typePing, nil)
		case <-c.done:
			if c.leaving() {
				c.bye(batch)
			}
			return
		}
		batch = c.out.take(batch)
		ok = c.flush(batch)
		idle.Reset(c.heartbeat)
	}
}

// bye writes what is left, and that it was the last.
func (c *Conn) bye(batch []byte) {
	batch = appendFrame(c.out.take(batch), typeBye, nil)
	if !c.flush(batch) {
		return
	}
	// Closing both directions with data unread would make TCP throw away what
	// was written last: let the peer close first.
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// flush writes a batch, and says whether that worked.
func (c *Conn) flush(batch []byte) bool {
	// A peer that is silent as well shall be found gone, by the reader, before
	// it is found slow.
	patience := 2 * c.lease
	for len(batch) > 0 {
		n := min(len(batch), writeChunk)
		c.nc.SetWriteDeadline(time.Now().Add(patience))
		if _, err := c.tls.Write(batch[:n]); err != nil {
			if timeout(err) {
				err = why(ErrSlow, "it took no bytes for %v, though it is alive", patience)
			}
			c.fail(err)
			return false
		}
		c.sent.Add(uint64(n))
		c.out.finish(n)
		batch = batch[n:]
	}
	return true
}

func timeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
