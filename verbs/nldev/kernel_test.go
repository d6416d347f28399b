package nldev

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// A kernel is the far end of a Client in tests: a function from a request to
// the datagrams that answer it.
type kernel func(request message) [][]message

// A wire is a Transport whose far end is a kernel.
type wire struct {
	kernel kernel
	queue  chan []byte
	errs   chan error // what Receive returns, before any datagram
	once   sync.Once
	closed chan struct{}
	groups []uint32
}

func newWire(k kernel) *wire {
	return &wire{kernel: k, queue: make(chan []byte, 64), errs: make(chan error, 8), closed: make(chan struct{})}
}

func (w *wire) Send(datagram []byte) error {
	requests, err := parseMessages(datagram)
	if err != nil {
		return err
	}
	for _, request := range requests {
		for _, answer := range w.kernel(request) {
			var b []byte
			for _, m := range answer {
				b = m.append(b)
			}
			w.queue <- b
		}
	}
	return nil
}

func (w *wire) Receive(ctx context.Context) ([]byte, error) {
	select {
	case err := <-w.errs:
		return nil, err
	default:
	}
	select {
	case b := <-w.queue:
		return b, nil
	case err := <-w.errs:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.closed:
		return nil, ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// connect gives a Client whose kernel is k, and the wire between them. The
// machine has two processes, the second of two threads.
func connect(t *testing.T, k kernel) (*Client, *wire) {
	t.Helper()
	w := newWire(k)
	c, err := Options{
		Root: fstest.MapFS{
			"proc/4711/status": {Data: []byte("Name:\tib_write_bw\nTgid:\t4711\nPid:\t4711\n")},
			"proc/4711/comm":   {Data: []byte("ib_write_bw\n")},
			"proc/815/status":  {Data: []byte("Name:\tworker 3\nTgid:\t812\nPid:\t815\n")},
			"proc/815/comm":    {Data: []byte("worker 3\n")},
			"proc/812/comm":    {Data: []byte("peerdirect\n")},
		},
		Timeout: 5 * time.Second,
		Dial: func(groups ...uint32) (Transport, error) {
			if len(groups) > 0 {
				w := newWire(nil)
				w.groups = groups
				return w, nil
			}
			return w, nil
		},
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, w
}

// replies is the usual kernel: for each command, the attributes of the messages
// that answer it. A command that is not there gets EINVAL, as from a kernel that
// does not know it.
type replies map[uint16][]attrs

func (r replies) kernel(request message) [][]message {
	bodies, ok := r[command(request)]
	if !ok {
		return refuse(request, unix.EINVAL, "")
	}
	return answer(request, 0, bodies...)
}

func command(m message) uint16 { return m.kind & (1<<10 - 1) }

// answer is what the kernel sends for success: to a dump, a datagram for each
// message and one that ends it; otherwise the messages and an acknowledgement.
func answer(request message, flags uint16, bodies ...attrs) [][]message {
	var datagrams [][]message
	for _, body := range bodies {
		datagrams = append(datagrams, []message{{kind: request.kind, flags: flags, seq: request.seq, body: body}})
	}
	end := message{kind: unix.NLMSG_DONE, flags: flags | unix.NLM_F_MULTI, seq: request.seq, body: make([]byte, 4)}
	if request.flags&unix.NLM_F_DUMP == 0 {
		end = message{kind: unix.NLMSG_ERROR, seq: request.seq, body: make([]byte, 4+messageHeader)}
	}
	return append(datagrams, []message{end})
}

// refuse is the kernel's answer of an errno, with its reason in words if it has
// one.
func refuse(request message, errno syscall.Errno, reason string) [][]message {
	m := message{kind: unix.NLMSG_ERROR, flags: unix.NLM_F_CAPPED, seq: request.seq}
	m.body = append(native32(uint32(-int32(errno))), make([]byte, messageHeader)...)
	if reason != "" {
		m.flags |= unix.NLM_F_ACK_TLVS
		m.body = attrs(m.body).text(unix.NLMSGERR_ATTR_MSG, reason)
	}
	return [][]message{{m}}
}

func native32(v uint32) []byte { return attrs(nil).uint32(0, v)[attrHeader:] }

// nest puts attributes into one.
func (a attrs) nest(kind uint16, inner attrs) attrs { return a.bytes(kind|unix.NLA_F_NESTED, inner) }

// rxe0 is the device of most tests.
var rxe0 = attrs(nil).
	uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 0).
	text(abi.RDMA_NLDEV_ATTR_DEV_NAME, "rxe0").
	uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
	uint64(abi.RDMA_NLDEV_ATTR_CAP_FLAGS, 1<<21|1<<1|1<<40).
	uint64(abi.RDMA_NLDEV_ATTR_NODE_GUID, 0x505400fffe123456).
	uint64(abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, 0x505400fffe123457).
	uint8(abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE, abi.RDMA_NODE_IB_CA).
	uint8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 0).
	uint8(abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE, abi.RDMA_NAME_ASSIGN_TYPE_USER).
	text(abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce")

// mlx is a second, InfiniBand device, with a device of its own hanging on it.
var mlx = attrs(nil).
	uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 3).
	text(abi.RDMA_NLDEV_ATTR_DEV_NAME, "smi0").
	uint32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 2).
	text(abi.RDMA_NLDEV_ATTR_FW_VERSION, "28.43.1014").
	uint8(abi.RDMA_NLDEV_ATTR_DEV_TYPE, abi.RDMA_DEVICE_TYPE_SMI).
	text(abi.RDMA_NLDEV_ATTR_PARENT_NAME, "mlx5_0").
	text(abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL, "ib")

// handleOf is how the kernel begins every answer about a device.
func handleOf(index uint32, name string) attrs {
	return attrs(nil).uint32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, index).text(abi.RDMA_NLDEV_ATTR_DEV_NAME, name)
}

// table is the answer to a dump of rxe0's objects.
func table(tableKind, entryKind uint16, entries ...attrs) attrs {
	var inner attrs
	for _, e := range entries {
		inner = inner.nest(entryKind, e)
	}
	return handleOf(0, "rxe0").nest(tableKind, inner)
}
