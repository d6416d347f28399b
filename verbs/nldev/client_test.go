package nldev

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/verbs/nldev/internal/abi"
)

// Errors are of the right class and say the right thing.
func TestErrors(t *testing.T) {
	refusing := func(errno syscall.Errno, reason string) kernel {
		return func(request message) [][]message {
			if command(request) == abi.RDMA_NLDEV_CMD_GET {
				return answer(request, 0, rxe0)
			}
			return refuse(request, errno, reason)
		}
	}
	gone := func() kernel {
		return func(request message) [][]message {
			if command(request) == abi.RDMA_NLDEV_CMD_GET && request.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP {
				return answer(request, 0, rxe0)
			}
			return refuse(request, unix.EINVAL, "")
		}
	}
	for _, test := range []struct {
		name   string
		kernel kernel
		do     func(*Client) error
		is     error
		says   string
	}{
		{
			"no permission", refusing(unix.EPERM, ""),
			func(c *Client) error { return c.AddLink(t.Context(), "rxe1", "rxe", "eth0") },
			ErrPermission, "nldev: rxe1: add the link: operation not permitted (EPERM); this needs CAP_NET_ADMIN: run it as root",
		},
		{
			"no such device", refusing(unix.EPERM, ""),
			func(c *Client) error { _, err := c.Device(t.Context(), "mlx5_0"); return err },
			ErrNoDevice, "nldev: mlx5_0: read the state: no such device (ENODEV); there are: rxe0",
		},
		{
			"no device at all", replies{abi.RDMA_NLDEV_CMD_GET: nil}.kernel,
			func(c *Client) error { _, err := c.Links(t.Context(), "mlx5_0"); return err },
			ErrNoDevice, "this network namespace has no RDMA device",
		},
		{
			"no such network device", refusing(unix.ENODEV, ""),
			func(c *Client) error { return c.AddLink(t.Context(), "rxe1", "rxe", "eth9") },
			ErrNoDevice, "there is no network device eth9; see: ip link",
		},
		{
			"a command that the kernel does not know", refusing(unix.EINVAL, ""),
			func(c *Client) error { _, err := c.FRMRPools(t.Context(), Filter{}); return err },
			ErrUnsupported, "nldev: rxe0: list pools of memory regions: operation not supported (EOPNOTSUPP): this kernel has no pools of memory regions (7.2 has)",
		},
		{
			"a device that goes while it is asked about", gone(),
			func(c *Client) error { _, err := c.QPs(t.Context(), Filter{Device: "rxe0"}); return err },
			ErrNoDevice, "nldev: rxe0: list queue pairs: no such device (ENODEV): the device has gone",
		},
		{
			"the same when all are asked about", gone(),
			func(c *Client) error { _, err := c.QPs(t.Context(), Filter{}); return err },
			nil, "",
		},
		{
			"a hardware link", refusing(unix.EINVAL, ""),
			func(c *Client) error { return c.DelLink(t.Context(), "rxe0") },
			unix.EINVAL, "it is not a software device",
		},
		{
			"a port that is not there", refusing(unix.EINVAL, ""),
			func(c *Client) error { _, err := c.Counters(t.Context(), "rxe0", 2); return err },
			unix.EINVAL, "nldev: rxe0: read the counters: invalid argument (EINVAL): it has no port 2; the last is 1",
		},
		{
			"the kernel's own words", refusing(unix.EBUSY, "Device is shared"),
			func(c *Client) error { return c.SetNamespace(t.Context(), "rxe0", 5) },
			unix.EBUSY, "nldev: rxe0: change the network namespace: device or resource busy (EBUSY): Device is shared",
		},
		{
			"a setting that the kernel does not know", refusing(unix.EINVAL, "Unknown attribute type"),
			func(c *Client) error { return c.SetPrivilegedQKey(t.Context(), true) },
			ErrUnsupported, "nldev: set the queue key mode: operation not supported (EOPNOTSUPP): this kernel has no such setting",
		},
		{
			"a malformed answer", replies{abi.RDMA_NLDEV_CMD_GET: {attrs(nil).uint8(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 1)}}.kernel,
			func(c *Client) error { _, err := c.Devices(t.Context()); return err },
			unix.EBADMSG, "attribute 1 has 1 bytes, not 4",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := connect(t, test.kernel)
			err := test.do(c)
			if test.is == nil && err != nil || !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
			if err != nil && (test.says == "" || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("says %q, not %q", err, test.says)
			}
			if err != nil && !errors.As(err, new(*Error)) {
				t.Errorf("%T", err)
			}
		})
	}
}

func TestNoRDMA(t *testing.T) {
	_, err := Options{Dial: func(...uint32) (Transport, error) { return nil, unix.EPROTONOSUPPORT }}.Open()
	if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "modprobe ib_core") {
		t.Error(err)
	}
	// And whatever this machine is, it says so in the same way.
	if c, err := Open(); err != nil {
		t.Log(err)
		if !errors.Is(err, syscall.ENODEV) {
			t.Error("not ENODEV")
		}
	} else {
		c.Close()
	}
}

func TestInterruptedDump(t *testing.T) {
	for attempts := 1; attempts <= dumpAttempts+1; attempts++ {
		asked := 0
		c, _ := connect(t, func(request message) [][]message {
			asked++
			if asked < attempts {
				return answer(request, unix.NLM_F_DUMP_INTR, rxe0, mlx)
			}
			return answer(request, 0, rxe0)
		})
		devices, err := c.Devices(t.Context())
		if attempts <= dumpAttempts {
			if err != nil || len(devices) != 1 || asked != attempts {
				t.Errorf("attempt %d: %d devices, %v", attempts, len(devices), err)
			}
		} else if !errors.Is(err, unix.EAGAIN) || asked != dumpAttempts {
			t.Errorf("%v after %d requests", err, asked)
		}
	}
}

// A request abandoned half-way is read to its end by the next one, as a real
// kernel demands, and none of its answer leaks into the next's.
func TestAbandonedRequest(t *testing.T) {
	var (
		first [][]message
		w     *wire
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, w := connect(t, func(request message) [][]message {
		if first == nil {
			first = answer(request, 0, mlx, mlx, mlx)
			time.AfterFunc(10*time.Millisecond, cancel) // once this is heard
			return first[:1]
		}
		return answer(request, 0, rxe0)
	})
	if _, err := c.Devices(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for _, m := range first[1:] {
		w.queue <- m[0].append(nil)
	}
	devices, err := c.Devices(t.Context())
	if err != nil || len(devices) != 1 || devices[0].Name != "rxe0" {
		t.Errorf("%v, %v", devices, err)
	}
}

// A kernel that keeps a request for itself, as for the deletion of a link in
// use, holds up neither a context, nor later requests, nor Close.
func TestStuckSend(t *testing.T) {
	release := make(chan struct{})
	c, _ := connect(t, func(request message) [][]message {
		if command(request) == abi.RDMA_NLDEV_CMD_DELLINK {
			<-release
		}
		return answer(request, 0, rxe0)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := c.DelLink(ctx, "rxe0"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if devices, err := c.Devices(t.Context()); err != nil || len(devices) != 1 {
		t.Errorf("%v, %v", devices, err)
	}
	// The late answer disturbs nobody.
	close(release)
	for c.sends.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	if devices, err := c.Devices(t.Context()); err != nil || len(devices) != 1 {
		t.Errorf("%v, %v", devices, err)
	}
}

func TestCloseWhileSending(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	c, _ := connect(t, func(request message) [][]message {
		<-release
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.System(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// failOnce is a wire that takes nothing the first time.
type failOnce struct {
	*wire
	failed bool
}

func (f *failOnce) Send(datagram []byte) error {
	if !f.failed {
		f.failed = true
		return unix.ENOBUFS
	}
	return f.wire.Send(datagram)
}

// No answer is due to what was never sent.
func TestFailedSend(t *testing.T) {
	w := &failOnce{wire: newWire(replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}}.kernel)}
	c, err := Options{Timeout: time.Hour, Dial: func(...uint32) (Transport, error) { return w, nil }}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := c.Devices(ctx); !errors.Is(err, unix.ENOBUFS) {
		t.Error(err)
	}
	if devices, err := c.Devices(ctx); err != nil || len(devices) != 1 {
		t.Errorf("%v, %v", devices, err)
	}
}

func TestSilentKernel(t *testing.T) {
	w := newWire(func(message) [][]message { return nil })
	c, err := Options{Timeout: 10 * time.Millisecond, Dial: func(...uint32) (Transport, error) { return w, nil }}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := c.Devices(context.Background()); !errors.Is(err, unix.ETIMEDOUT) {
			t.Error(err)
		}
	}
}

func TestClose(t *testing.T) {
	c, _ := connect(t, func(message) [][]message { return nil })
	ended := make(chan error)
	go func() {
		_, err := c.Devices(context.Background())
		ended <- err
	}()
	time.Sleep(time.Millisecond)
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Devices(context.Background()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestConcurrentRequests(t *testing.T) {
	c, _ := connect(t, replies{abi.RDMA_NLDEV_CMD_GET: {rxe0}, abi.RDMA_NLDEV_CMD_RES_QP_GET: {qpTable}}.kernel)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if qps, err := c.QPs(t.Context(), Filter{}); err != nil || len(qps) != 3 {
					t.Errorf("%d queue pairs, %v", len(qps), err)
				}
			}
		})
	}
	group.Wait()
}

// A long dump comes in many datagrams.
func TestLongDump(t *testing.T) {
	c, _ := connect(t, func(request message) [][]message {
		if command(request) == abi.RDMA_NLDEV_CMD_GET {
			return answer(request, 0, rxe0)
		}
		var bodies []attrs
		for i := range 50 {
			var entries []attrs
			for j := range 100 {
				entries = append(entries, by(byProcess).uint32(abi.RDMA_NLDEV_ATTR_RES_MRN, uint32(i*100+j)))
			}
			bodies = append(bodies, table(abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, entries...))
		}
		return answer(request, 0, bodies...)
	})
	mrs, err := c.MRs(t.Context(), Filter{})
	if err != nil || len(mrs) != 5000 {
		t.Fatalf("%d regions, %v", len(mrs), err)
	}
	for i, mr := range mrs {
		if mr.MRN != uint32(i) {
			t.Fatalf("region %d has number %d", i, mr.MRN)
		}
	}
}
