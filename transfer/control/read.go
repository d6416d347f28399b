package control

import (
	"cmp"
	"context"
	"time"
)

// Receive waits for the next message. Its payload is valid until Receive is
// called again. What came before the conversation ended is still received, except
// after Close; then comes the error that Err gives. The end of the context ends
// only the waiting.
func (c *Conn) Receive(ctx context.Context) (Type, []byte, error) {
	c.in.finish(c.given)
	c.given = 0
	for len(c.next) == 0 {
		over := c.over() // before looking: what was there then is found
		if over && c.leaving() {
			return 0, nil, c.Err()
		}
		c.taken = c.in.take(c.taken)
		c.next = c.taken
		if len(c.next) > 0 {
			break
		}
		if over {
			return 0, nil, c.Err()
		}
		select {
		case <-c.in.ready:
		case <-c.done:
		case <-ctx.Done():
			return 0, nil, &Error{Op: "receive from", Peer: c.String(), Err: ctx.Err(), Detail: "no message came"}
		}
	}
	t, payload, size, _ := parseFrame(c.next)
	c.next = c.next[size:]
	c.given = size
	return t, payload, nil
}

// readSize is what is read at once: a TLS record.
const readSize = 16 << 10

// read takes frames from the peer until the conversation is over, or, while this
// side leaves, until the peer has closed its side.
func (c *Conn) read() {
	buf := make([]byte, 0, readSize)
	heard := time.Now()
	for {
		c.nc.SetReadDeadline(heard.Add(c.lease))
		n, err := c.tls.Read(buf[len(buf):cap(buf)])
		now := time.Now()
		// Also if something came: this process may have been stopped, and what
		// waited for it be older than the peer's patience.
		if silent := now.Sub(heard); silent > c.lease || err != nil && timeout(err) {
			c.fail(why(ErrGone, "nothing came from it for %v, where it sends something at least every %v: it was stopped or cut off, or this side was",
				silent.Round(time.Millisecond), c.lease/pingsPerLease))
			return
		}
		heard = now
		buf = buf[:len(buf)+n]
		c.received.Add(uint64(n))
		used, waited, wrong := c.accept(buf)
		if waited {
			heard = time.Now() // the silence was not the peer's
		}
		// What came with the end comes before it.
		if err = cmp.Or(wrong, err); err != nil {
			c.fail(err)
			return
		}
		buf = keep(buf, used)
	}
}

// keep moves what was not used to the front, and makes room for more.
func keep(buf []byte, used int) []byte {
	rest := len(buf) - used
	if used > 0 {
		copy(buf, buf[used:])
		buf = buf[:rest]
	}
	if rest == 0 && cap(buf) > keepBuffer && used < cap(buf)/4 {
		return make([]byte, 0, readSize)
	}
	if rest == cap(buf) {
		// As it comes, not as its header claims.
		buf = append(make([]byte, 0, min(2*cap(buf), headerSize+MaxPayload)), buf...)
	}
	return buf
}

// accept deals with the whole frames in b. It tells how many bytes they are, and
// whether it had to wait for Receive.
func (c *Conn) accept(b []byte) (used int, waited bool, err error) {
	for {
		t, payload, size, err := parseFrame(b[used:])
		if err != nil || payload == nil {
			return used, waited, err
		}
		used += size
		switch {
		case t == typePing:
			c.in.trim()
		case t == typeBye:
			return used, waited, why(ErrLeft, "the peer closed its side")
		case t == typeHello:
			return used, waited, why(ErrProtocol, "it said hello a second time")
		default:
			for !c.over() && !c.in.put(t, payload) {
				waited = true
				select {
				case <-c.in.space:
				case <-c.done:
				}
			}
		}
	}
}
