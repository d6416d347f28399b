package nldev

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

const (
	defaultTimeout = 10 * time.Second
	// dumpAttempts bounds how often a dump that changed under the reader is
	// read again.
	dumpAttempts = 5
)

// Options of a Client. The zero value is right for the running kernel.
type Options struct {
	// Root is where proc/ is found, for the names of processes; nil is "/".
	Root fs.FS
	// Timeout bounds how long the kernel may be silent within one request, a
	// context apart. 0 is ten seconds.
	Timeout time.Duration
	// Dial connects to the kernel and joins the multicast groups given; nil is a
	// NETLINK_RDMA socket.
	Dial func(groups ...uint32) (Transport, error)
}

// A Client asks the kernel. Any number of goroutines may use it; it has one
// request under way at a time.
type Client struct {
	options   Options
	transport Transport
	closed    atomic.Bool

	turn  chan struct{} // held by the one whose request is under way
	seq   uint32
	owed  uint32       // the dump that was abandoned before its end; 0 is none
	sends atomic.Int32 // calls of Send that have not returned
}

// Open connects to the running kernel. The error is ErrNoDevice where that has
// no RDMA.
func Open() (*Client, error) { return Options{}.Open() }

// Open connects with options.
func (o Options) Open() (*Client, error) {
	if o.Root == nil {
		o.Root = os.DirFS("/")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Dial == nil {
		o.Dial = dialKernel
	}
	transport, err := o.dial("open the RDMA netlink")
	if err != nil {
		return nil, err
	}
	return &Client{options: o, transport: transport, turn: make(chan struct{}, 1)}, nil
}

func (o Options) dial(op string, groups ...uint32) (Transport, error) {
	transport, err := o.Dial(groups...)
	if err == nil {
		return transport, nil
	}
	failure := newError(op, "", err)
	if failure.Errno == unix.EPROTONOSUPPORT || failure.Errno == unix.EAFNOSUPPORT {
		// The kernel loads ib_core by itself when it can, so it is not there.
		failure.Reason = "this kernel has no RDMA netlink (" + failure.Errno.Error() + ")"
		failure.Errno = unix.ENODEV
		failure.Remedy = "load it: modprobe ib_core; a kernel without that module needs CONFIG_INFINIBAND"
	}
	return nil, failure
}

// Close ends every request under way with ErrClosed and releases the socket.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.sends.Load() > 0 {
		// The kernel works on a request inside the system call that handed it over,
		// and the socket closes only after that.
		go c.transport.Close()
		return nil
	}
	return c.transport.Close()
}

// A request is one command with its attributes.
type request struct {
	op      string
	device  Device // the one concerned; its name is "" if there is none
	command uint16
	dump    bool
	attrs   attrs
	// The kernel answers EINVAL to whatever it does not know: a device, a
	// command, a kind of object. invalid, if set, says what it means of a device
	// that is there, and turns the error into ErrUnsupported.
	invalid string
}

// ask sends a request and gives the bodies of the kernel's answers.
func (c *Client) ask(ctx context.Context, q request) ([][]byte, error) {
	for range dumpAttempts {
		bodies, interrupted, err := c.exchange(ctx, q)
		if err != nil {
			return nil, c.explain(ctx, q, err)
		}
		if !interrupted {
			return bodies, nil
		}
	}
	return nil, &Error{
		Op: q.op, Device: q.device.Name, Errno: unix.EAGAIN,
		Reason: "the list changed during each of several readings",
		Remedy: "try again when fewer objects come and go",
	}
}

// tell sends a request whose answer is an acknowledgement.
func (c *Client) tell(ctx context.Context, q request) error {
	_, err := c.ask(ctx, q)
	return err
}

// explain finds out what EINVAL means: see request.invalid.
func (c *Client) explain(ctx context.Context, q request, err error) error {
	var failure *Error
	if !errors.As(err, &failure) || failure.Errno != unix.EINVAL || q.invalid == "" {
		return err
	}
	_, _, again := c.exchange(ctx, request{op: q.op, device: q.device, command: abi.RDMA_NLDEV_CMD_GET, attrs: q.device.handle()})
	switch {
	case again == nil:
		failure.Errno = unix.EOPNOTSUPP
		failure.Reason = q.invalid
	case errors.Is(again, unix.EINVAL):
		failure.Errno = unix.ENODEV
		failure.Reason = "the device has gone"
	}
	return failure
}

// exchange has one request answered. interrupted says that the table changed
// while the kernel dumped it.
func (c *Client) exchange(ctx context.Context, q request) (bodies [][]byte, interrupted bool, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, false, newError(q.op, q.device.Name, ctx.Err())
	}
	fail := func(err error) error {
		if c.closed.Load() {
			err = ErrClosed
		}
		return newError(q.op, q.device.Name, err)
	}
	if err := ctx.Err(); err != nil || c.closed.Load() {
		return nil, false, fail(err)
	}
	if err := c.settle(ctx); err != nil {
		return nil, false, fail(err)
	}

	c.seq = max(c.seq+1, 1)
	m := message{kind: abi.RDMA_NL_GET_TYPE(abi.RDMA_NL_NLDEV, q.command), flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK, seq: c.seq, body: q.attrs}
	if q.dump {
		m.flags = unix.NLM_F_REQUEST | unix.NLM_F_DUMP
		c.owed = m.seq
	}
	if err := c.send(ctx, m); err != nil {
		return nil, false, fail(err)
	}
	bodies, interrupted, err = c.collect(ctx, m.seq)
	if err != nil {
		return nil, false, fail(err)
	}
	return bodies, interrupted, nil
}

// send hands a message to the kernel, which does the work of most requests
// inside the system call. Deleting a link there waits for the device's users,
// for minutes if need be (seen on 6.12): hence a goroutine, so that a context
// can end our wait. Other requests may go over the socket meanwhile.
func (c *Client) send(ctx context.Context, m message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, errSilence)
	defer cancel()
	sent := make(chan error, 1)
	datagram := m.append(nil)
	c.sends.Add(1)
	go func() {
		defer c.sends.Add(-1)
		sent <- c.transport.Send(datagram)
	}()
	select {
	case err := <-sent:
		if err != nil {
			c.owed = 0 // nothing was asked
		}
		return err
	case <-ctx.Done():
		return ending(ctx)
	}
}

// collect reads the answer to a request to its end.
func (c *Client) collect(ctx context.Context, seq uint32) (bodies [][]byte, interrupted bool, err error) {
	for {
		datagram, err := c.receive(ctx)
		if err != nil {
			if errors.Is(err, unix.ENOBUFS) {
				c.owed = 0 // the end may be among what was lost
			}
			return nil, false, err
		}
		messages, err := parseMessages(datagram)
		if err != nil {
			return nil, false, err
		}
		for _, m := range messages {
			if m.seq != seq {
				continue // of a request that was abandoned
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.kind {
			case unix.NLMSG_NOOP:
			case unix.NLMSG_OVERRUN:
				return nil, false, unix.ENOBUFS
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				c.owed = 0
				return bodies, interrupted, parseVerdict(m)
			default:
				bodies = append(bodies, m.body)
			}
		}
	}
}

func (c *Client) receive(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, errSilence)
	defer cancel()
	datagram, err := c.transport.Receive(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, ending(ctx)
	}
	return datagram, err
}

// settle reads an abandoned dump to its end: the kernel runs one a socket,
// answers EBUSY to a second, and goes on with the first only as it is read. The
// late answer to any other request needs no such care: it is passed over by its
// number.
func (c *Client) settle(ctx context.Context) error {
	if c.owed == 0 {
		return nil
	}
	if _, _, err := c.collect(ctx, c.owed); err != nil && ctx.Err() != nil {
		return err
	}
	c.owed = 0 // read, or past hope
	return nil
}

// errSilence tells our own deadline from the caller's.
var errSilence error = unix.ETIMEDOUT

func ending(ctx context.Context) error {
	if context.Cause(ctx) == errSilence {
		return errSilence
	}
	return ctx.Err()
}

// newError makes the package's error of whatever a request ended with.
func newError(op, device string, err error) *Error {
	failure := &Error{Op: op, Device: device}
	var (
		refused *refusal
		errno   syscall.Errno
	)
	switch {
	case errors.As(err, &refused):
		failure.Errno, failure.Reason = refused.errno, refused.reason
	case errors.As(err, &errno):
		failure.Errno = errno
	default:
		failure.Err = err
	}
	if errors.Is(err, errMalformed) {
		failure.Errno, failure.Err, failure.Reason = unix.EBADMSG, err, err.Error()
	}
	failure.Remedy = remedy(failure.Errno)
	return failure
}
