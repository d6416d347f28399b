package control

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// errCrowded ends a connection whose place another one takes.
var errCrowded = errors.New("others came while it said nothing")

// listen takes connections and has each prove itself in a goroutine.
func (l *Listener) listen() {
	for {
		nc, err := l.nl.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// As when descriptors run out: connections wait in the kernel meanwhile.
			l.refuse(about("accept on", l.Addr().String(), err), nil)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-l.stopped:
			}
			continue
		}
		l.enter(nc)
	}
}

// enter gives a connection a place among those that prove themselves.
func (l *Listener) enter(nc net.Conn) {
	ctx, end := context.WithCancelCause(context.Background())
	h := &halfOpen{end}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		nc.Close()
		return
	}
	if len(l.open) >= l.o.HalfOpen {
		l.open[0].end(errCrowded)
		l.open = slices.Delete(l.open, 0, 1)
		l.stats.Crowded++
	}
	l.open = append(l.open, h)
	l.running.Go(func() {
		defer end(nil)
		within, cancel := context.WithTimeout(ctx, l.o.Handshake)
		defer cancel()
		s, err := prove(within, nc, l.credentials, listener, l.o)
		l.leave(h)
		switch {
		case err == nil:
			l.admit(start(s, l.o))
		case err != errCrowded && err != ErrClosed:
			l.refuse(about("refuse", nc.RemoteAddr().String(), err), &l.stats.Refused)
		}
	})
}

// leave gives a place back, unless it was taken.
func (l *Listener) leave(h *halfOpen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.open, h); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// admit hands a connection to Accept.
func (l *Listener) admit(conn *Conn) {
	l.mu.Lock()
	l.stats.Proved++
	closed := l.closed
	handed := false
	if !closed {
		select {
		case l.proven <- conn:
			handed = true
		default:
		}
	}
	l.mu.Unlock()
	if handed {
		return
	}
	conn.Close()
	if !closed {
		l.refuse(about("accept", conn.String(), why(ErrSlow, "%d connections wait for Accept already: the program does not call it", cap(l.proven))),
			&l.stats.Unwanted)
	}
}

// refuse notes what was wrong, and counts it.
func (l *Listener) refuse(err error, count *uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Last, l.stats.LastAt = err, time.Now()
	if count != nil {
		*count++
	}
}
