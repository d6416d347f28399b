package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Uevent is a message of the kernel about a device (lib/kobject_uevent.c).
type Uevent struct {
	Action    string // "add", "remove", "change", "bind", "unbind", "move", "online", "offline"
	Path      string // below /sys: "/devices/pci0000:00/0000:00:01.0"
	Subsystem string // "pci", "net", …
	Env       map[string]string
}

// ErrMessage is a message that is none of the kernel's form.
var ErrMessage = errors.New("watch: not a message of the kernel's kobject events")

// Parse reads a message: action@path and then KEY=VALUE, each ended by a zero byte.
func Parse(message []byte) (Uevent, error) {
	parts := bytes.Split(bytes.TrimSuffix(message, []byte{0}), []byte{0})
	action, path, ok := strings.Cut(string(parts[0]), "@")
	if !ok || action == "" || !strings.HasPrefix(path, "/") {
		return Uevent{}, ErrMessage
	}
	e := Uevent{Action: action, Path: path, Env: map[string]string{}}
	for _, p := range parts[1:] {
		if key, value, ok := strings.Cut(string(p), "="); ok && key != "" {
			e.Env[key] = value
		}
	}
	e.Subsystem = e.Env["SUBSYSTEM"]
	return e, nil
}

// socket receives the kernel's events.
type socket struct {
	file *os.File
}

// listen opens the kernel's group of NETLINK_KOBJECT_UEVENT, which needs no
// privilege. Its events go to network namespaces of the first user namespace only.
func listen() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("watch: open a socket for the kernel's events: %w", err)
	}
	// A switch with hundreds of functions sends as many at once; what is lost all
	// the same is told by ENOBUFS. Without the privilege for more the limit holds.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20) != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch: listen to the kernel's events: %w", err)
	}
	return &socket{os.NewFile(uintptr(fd), "uevent")}, nil
}

// receive gives events to hear until the context ends, the socket fails or hear
// says no. A nil event says that some were lost.
func (s *socket) receive(ctx context.Context, hear func(*Uevent) bool) error {
	defer s.file.Close()
	stop := context.AfterFunc(ctx, func() { s.file.Close() })
	defer stop()
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		if err := raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
		}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		switch {
		case errors.Is(failed, unix.ENOBUFS):
			if !hear(nil) {
				return nil
			}
			continue
		case failed != nil:
			return failed
		}
		// Only the kernel sends from port 0; a process may send to the group too.
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue
		}
		if e, err := Parse(buf[:n]); err == nil && !hear(&e) {
			return nil
		}
	}
}
