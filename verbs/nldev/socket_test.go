package nldev

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Every kernel has NETLINK_ROUTE, so the socket can be held against a real one
// without RDMA.
func routeSocket(t *testing.T, groups ...uint32) Transport {
	t.Helper()
	s, err := dial(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSocketDump(t *testing.T) {
	s := routeSocket(t)
	request := message{kind: unix.RTM_GETLINK, flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP, seq: 7, body: make([]byte, unix.SizeofIfInfomsg)}
	if err := s.Send(request.append(nil)); err != nil {
		t.Fatal(err)
	}
	links := 0
	for {
		datagram, err := s.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		messages, err := parseMessages(datagram)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if m.seq != 7 {
				t.Errorf("sequence %d", m.seq)
			}
			switch m.kind {
			case unix.NLMSG_DONE:
				if err := parseVerdict(m); err != nil || links == 0 {
					t.Errorf("%d links, %v", links, err)
				}
				return
			case unix.RTM_NEWLINK:
				links++
				r := attrReader{rest: m.body[unix.SizeofIfInfomsg:]}
				for r.next() {
					if r.kind == unix.IFLA_IFNAME && r.text() == "" {
						t.Error("a link without a name")
					}
				}
				if r.err != nil {
					t.Error(r.err)
				}
			}
		}
	}
}

// A real kernel's refusal goes all the way through a Client: NETLINK_ROUTE knows
// no command of RDMA.
func TestSocketRefusal(t *testing.T) {
	c, err := Options{Dial: func(groups ...uint32) (Transport, error) { return dial(unix.NETLINK_ROUTE, groups...) }}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := c.System(t.Context()); !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
	}
}

func TestSocketWaits(t *testing.T) {
	s := routeSocket(t, unix.RTNLGRP_LINK)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := s.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	ended := make(chan error)
	go func() {
		_, err := s.Receive(context.Background())
		ended <- err
	}()
	time.Sleep(time.Millisecond)
	s.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Send(nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// What a process sends to our socket is not the kernel's word.
func TestSocketIgnoresProcesses(t *testing.T) {
	s := routeSocket(t)
	raw, _ := s.(*socket).file.SyscallConn()
	var port uint32
	raw.Control(func(fd uintptr) {
		name, err := unix.Getsockname(int(fd))
		if err != nil {
			t.Fatal(err)
		}
		port = name.(*unix.SockaddrNetlink).Pid
	})
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, message{kind: unix.NLMSG_DONE}.append(nil), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}); err != nil {
		t.Skipf("this process may not send to another socket: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if datagram, err := s.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", datagram, err)
	}
}
