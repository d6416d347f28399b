package nldev

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// System is how the kernel's RDMA as a whole is set. What a kernel is too old to
// report is false.
type System struct {
	// SharedNamespaces: every network namespace sees every device, which is the
	// default. Otherwise a device is in one namespace (the rdma tool's mode
	// exclusive).
	SharedNamespaces bool
	// CopyOnFork: a fork copies pages that are pinned for RDMA at once, so that
	// the parent's registrations stay right without ibv_fork_init.
	CopyOnFork bool
	// PrivilegedQKey: processes without CAP_NET_RAW may set controlled queue keys.
	// Not in Linux 6.1, in 6.12.
	PrivilegedQKey bool
	// Monitor: the kernel notifies of changes. Not in Linux 6.1, in 6.12.
	Monitor bool
}

func (s *System) decode(r *attrReader) {
	for r.next() {
		switch r.kind {
		case abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE:
			s.SharedNamespaces = r.bool()
		case abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK:
			s.CopyOnFork = r.bool()
		case abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE:
			s.PrivilegedQKey = r.bool()
		case abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE:
			s.Monitor = r.bool()
		}
	}
}

// System reads the settings.
func (c *Client) System(ctx context.Context) (System, error) {
	const op = "read the RDMA system's settings"
	var s System
	bodies, err := c.ask(ctx, request{op: op, command: abi.RDMA_NLDEV_CMD_SYS_GET})
	if err != nil {
		return System{}, err
	}
	for _, body := range bodies {
		if err := decode(op, "", body, s.decode); err != nil {
			return System{}, err
		}
	}
	return s, nil
}

// SetSharedNamespaces chooses whether every network namespace sees every
// device. The kernel refuses while there are other namespaces. It needs
// CAP_NET_ADMIN.
func (c *Client) SetSharedNamespaces(ctx context.Context, on bool) error {
	return c.setSystem(ctx, "set the namespace mode", abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, on)
}

// SetPrivilegedQKey chooses whether unprivileged processes may set controlled
// queue keys. It needs CAP_NET_ADMIN.
func (c *Client) SetPrivilegedQKey(ctx context.Context, on bool) error {
	return c.setSystem(ctx, "set the queue key mode", abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, on)
}

func (c *Client) setSystem(ctx context.Context, op string, attr uint16, on bool) error {
	err := c.tell(ctx, request{op: op, command: abi.RDMA_NLDEV_CMD_SYS_SET, attrs: attrs(nil).uint8(attr, flag(on))})
	var failure *Error
	if errors.As(err, &failure) && failure.Errno == unix.EINVAL {
		// The value is one of two, so it is the setting that the kernel rejects.
		failure.Errno = unix.EOPNOTSUPP
		failure.Reason = "this kernel has no such setting"
	}
	return err
}
