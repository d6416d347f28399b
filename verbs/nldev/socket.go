package nldev

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Transport carries datagrams to the kernel and back. Options.Dial replaces
// the one over a socket, so that a test can be the kernel.
type Transport interface {
	// Send hands one request over. The kernel may do the whole work of the
	// request before Send returns; other calls may come meanwhile.
	Send(datagram []byte) error
	// Receive waits for the next datagram, which is the caller's to keep. It
	// returns the context's error once that has ended, and ErrClosed once the
	// transport is closed.
	Receive(ctx context.Context) ([]byte, error)
	Close() error
}

// socketBuffer holds any datagram of the kernel's: netlink_dump (of
// net/netlink/af_netlink.c) builds none above 32 KiB.
const socketBuffer = 64 << 10

// A socket is a netlink socket on the runtime's network poller: a wait
// blocks no thread.
type socket struct {
	file   *os.File
	raw    syscall.RawConn
	closed atomic.Bool
	buffer []byte
}

func dialKernel(groups ...uint32) (Transport, error) { return dial(unix.NETLINK_RDMA, groups...) }

func dial(protocol int, groups ...uint32) (Transport, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	if err := prepare(fd, groups); err != nil {
		unix.Close(fd)
		return nil, err
	}
	s := &socket{file: os.NewFile(uintptr(fd), "netlink"), buffer: make([]byte, socketBuffer)}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

func prepare(fd int, groups []uint32) error {
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// Ask for reasons in words, and for verdicts without a copy of the request.
	// The later of the two came with Linux 4.12, before most of this interface.
	for _, option := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, 1); err != nil {
			return err
		}
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)); err != nil {
			return err
		}
	}
	return nil
}

// Send never waits for room: a request to the kernel is worked on, not queued.
// It goes through Control, since Write would admit one call at a time.
func (s *socket) Send(datagram []byte) error {
	var sendErr error
	err := s.raw.Control(func(fd uintptr) {
		for {
			sendErr = unix.Sendto(int(fd), datagram, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
			if sendErr != unix.EINTR {
				return
			}
		}
	})
	return s.outcome(err, sendErr)
}

func (s *socket) Receive(ctx context.Context) ([]byte, error) {
	s.file.SetReadDeadline(time.Time{})
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.file.SetReadDeadline(time.Unix(1, 0))
		close(ended)
	})
	defer func() {
		if !stop() {
			<-ended // or it could end the wait of the next Receive
		}
	}()
	for {
		datagram, fromKernel, err := s.receive()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case fromKernel: // any process may send to any netlink socket
			return datagram, nil
		}
	}
}

func (s *socket) receive() (datagram []byte, fromKernel bool, err error) {
	var (
		n, flags int
		from     unix.Sockaddr
		readErr  error
	)
	err = s.raw.Read(func(fd uintptr) bool {
		for {
			n, _, flags, from, readErr = unix.Recvmsg(int(fd), s.buffer, nil, 0)
			if readErr != unix.EINTR {
				return readErr != unix.EAGAIN
			}
		}
	})
	if err := s.outcome(err, readErr); err != nil {
		return nil, false, err
	}
	if flags&unix.MSG_TRUNC != 0 {
		return nil, false, unix.EMSGSIZE
	}
	sender, ok := from.(*unix.SockaddrNetlink)
	return append([]byte(nil), s.buffer[:n]...), ok && sender.Pid == 0, nil
}

// outcome joins the error of the poller with that of the system call.
func (s *socket) outcome(pollErr, callErr error) error {
	if pollErr != nil && s.closed.Load() {
		return ErrClosed
	}
	if pollErr != nil {
		return pollErr
	}
	return callErr
}

func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.file.Close()
}
