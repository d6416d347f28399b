package vfiouser

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// maxSocketPath is the longest path of a socket: sun_path of unix(7), less its
// terminating zero.
const maxSocketPath = 107

// Listen makes a socket for [Server.Serve] at path, for its owner alone (mode
// 0600), and removes one that a server has left behind. A socket on which
// somebody listens, and a file that is no socket, stay as they are: the error is
// then EADDRINUSE or EEXIST. The socket disappears with the listener.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listening on %s: %d characters, of which a socket's path has at most %d: choose a shorter folder: %w",
			path, len(path), maxSocketPath, syscall.ENAMETOOLONG)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		// A socket's file is made by bind with the mode of the socket itself.
		// So nobody else can connect at any moment, which chmod after bind
		// would allow, and umask is not touched, which all threads share.
		var err error
		if cerr := conn.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); cerr != nil {
			return cerr
		}
		return os.NewSyscallError("fchmod", err)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes a socket at path on which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listening on %s: a file that is no socket is in the way: %w", path, syscall.EEXIST)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("listening on %s: another server has it; end that or choose another path: %w", path, syscall.EADDRINUSE)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("listening on %s: whether another server has it cannot be told: %w", path, err)
}
