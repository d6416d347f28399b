// Package admit lets connections in that show a secret, which their side was given by
// another, authenticated way: what goes over them is no more than that.
package admit

import (
	"context"
	"crypto/subtle"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// Patience is how long a connection may take to show the secret.
	Patience = 2 * time.Second

	most = 256 // connections that have not shown it, at once
)

// One waits for the connection that shows the secret, and closes the listener.
func One(ctx context.Context, l net.Listener, secret []byte) (conn net.Conn, err error) {
	err = Each(ctx, l, secret, 0, func(c net.Conn, _ []byte) (mine, enough bool) {
		conn = c
		return true, true
	})
	return conn, err
}

// Each calls take for each connection that shows the secret, with as many bytes more
// as are to follow it, until take has enough or the context ends; then it closes the
// listener. A connection that take does not make its own is closed, as are those that
// show something else, without a word. Who says nothing keeps out nobody who does,
// unless 256 at once say nothing: then others wait for Patience.
func Each(ctx context.Context, l net.Listener, secret []byte, more int, take func(c net.Conn, more []byte) (mine, enough bool)) error {
	type shown struct {
		c    net.Conn
		more []byte
	}
	found := make(chan shown)
	failed := make(chan error, 1)
	places := make(chan struct{}, most)
	proving, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	stop := context.AfterFunc(proving, func() { l.Close() })
	defer func() {
		stop()
		l.Close()
		end()
		all.Wait()
	}()
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				if got := show(proving, c, secret, more); got != nil {
					select {
					case found <- shown{c, got}:
						return
					case <-proving.Done():
					}
				}
				c.Close()
			})
		}
	})
	for {
		select {
		case s := <-found:
			mine, enough := take(s.c, s.more)
			if !mine {
				s.c.Close()
			}
			if enough {
				return nil
			}
		case err := <-failed:
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}
	}
}

// show gives what follows the secret; nil if that was not shown in time.
func show(ctx context.Context, c net.Conn, secret []byte, more int) []byte {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(Patience))
	got := make([]byte, len(secret)+more)
	_, err := io.ReadFull(c, got)
	if !stop() || err != nil || subtle.ConstantTimeCompare(got[:len(secret)], secret) == 0 {
		return nil
	}
	c.SetReadDeadline(time.Time{})
	return got[len(secret):]
}
