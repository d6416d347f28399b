package vfiouser

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestServeOneClientAfterTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan error, 8)
	s := NewServer(Options{Report: func(err error) { reports <- err }})
	b := newBoard(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, b) }()

	before := descriptors(t)
	for range 3 {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		c := &client{t: t, conn: conn}
		c.hello()
		c.want(0, CmdDMAMap, mapBody(3, 0, 0, pageSize), int(memfd(t, pageSize).Fd()))
		c.want(0, CmdSetIRQs, words(setIRQsSize, 36, InterruptMSIX, 0, 1), int(eventfd(t).Fd()))
		// The next client waits and gets a device that knows nothing of this one.
		conn.Close()
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{t: t, conn: conn}
	c.hello()
	if len(s.memory.maps) != 0 || b.resetCount() != 3 {
		t.Errorf("%d maps and %d resets after three clients, want 0 and 3", len(s.memory.maps), b.resetCount())
	}
	// Ours: three memfds, three eventfds, both ends of this connection.
	if got := descriptors(t); got != before+8 {
		t.Errorf("%d descriptors, want %d", got, before+8)
	}
	c.want(syscall.ENOTTY, 99, nil)
	if _, err := conn.Write(make([]byte, headerSize)); err != nil { // size 0
		t.Fatal(err)
	}
	select {
	case err := <-reports:
		if !errors.As(err, new(*ProtocolError)) {
			t.Errorf("reported %v, want a ProtocolError", err)
		}
	case <-time.After(patience):
		t.Error("the client's end was not reported")
	}

	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Serve gave %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Serve does not end with its context")
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the socket outlived the server")
	}
}

func TestContextEndsAClientInTheMiddle(t *testing.T) {
	ours, theirs := pair(t)
	defer ours.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- NewServer(Options{}).ServeConn(ctx, theirs, newBoard(t)) }()
	ours.Write([]byte{1, 2, 3}) // and never the rest
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ServeConn gave %v", err)
		}
	case <-time.After(patience):
		t.Fatal("ServeConn does not end with its context")
	}
}
