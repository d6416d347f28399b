package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// fakeGuests gives a run whose guests are functions: what the host decides,
// without a machine.
func fakeGuests(t *testing.T, o Options, guests ...func(c *frameConn)) (*labRun, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	o.Nodes = len(guests)
	o.Stdout, o.Stderr, o.Log = &out, &out, &out
	r := newRun(o, nil, nil)
	for node, f := range guests {
		host, end := net.Pipe()
		g := &guest{control: host, done: make(chan struct{})}
		conn := &frameConn{r: host, w: host}
		r.guests, r.conns = append(r.guests, g), append(r.conns, conn)
		stdout, stderr := r.out.lines(node, o.Nodes, &out), r.out.lines(node, o.Nodes, &out)
		r.readers.Go(func() { r.read(node, conn, stdout, stderr) })
		r.readers.Go(func() {
			f(&frameConn{r: end, w: end})
			end.Close()
			close(g.done)
		})
	}
	return r, &out
}

// followFakes decides and then waits for all goroutines.
func (r *labRun) followFakes(ctx context.Context) error {
	err := r.decide(ctx)
	close(r.stopped)
	for _, g := range r.guests {
		g.control.Close()
	}
	r.readers.Wait()
	r.out.flush()
	return err
}

// toReady takes a guest through setup.
func toReady(t *testing.T, c *frameConn) guestSetup {
	c.write(frameHello, nil)
	kind, payload, err := c.read()
	var s guestSetup
	if err != nil || kind != frameSetup || json.Unmarshal(payload, &s) != nil {
		t.Errorf("setup: %q, %v", kind, err)
	}
	c.write(frameReady, nil)
	return s
}

func exits(t *testing.T, status int, says string) func(*frameConn) {
	return func(c *frameConn) {
		s := toReady(t, c)
		if kind, _, err := c.read(); kind != frameStart {
			t.Errorf("start: %q, %v", kind, err)
		}
		fmt.Fprintf(frameWriter{c, frameStdout}, "%s from %s\nand no newline", says, s.Addrs[s.Node])
		c.writeJSON(frameExit, guestExit{Status: status})
	}
}

func TestDecideStatus(t *testing.T) {
	r, out := fakeGuests(t, Options{}, exits(t, 0, "hello"))
	if err := r.followFakes(t.Context()); err != nil {
		t.Error(err)
	}
	if out.String() != "hello from 192.0.2.1\nand no newline" {
		t.Errorf("one node's output is not passed as it is: %q", out)
	}

	r, out = fakeGuests(t, Options{}, exits(t, 0, "a"), exits(t, 7, "b"), exits(t, 0, "c"))
	err := r.followFakes(t.Context())
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Node != 1 || exit.Status != 7 {
		t.Errorf("got %v", err)
	}
	for _, line := range []string{"node0 | a from 192.0.2.1\n", "node1 | b from 192.0.2.2\n", "node2 | and no newline\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in %q", line, out)
		}
	}
}

// Nobody starts before everybody is ready.
func TestDecideBarrier(t *testing.T) {
	var ready time.Time
	slow := func(c *frameConn) {
		c.write(frameHello, nil)
		c.read()
		time.Sleep(100 * time.Millisecond)
		ready = time.Now()
		c.write(frameReady, nil)
		c.read()
		c.writeJSON(frameExit, guestExit{})
	}
	var started time.Time
	quick := func(c *frameConn) {
		toReady(t, c)
		c.read()
		started = time.Now()
		c.writeJSON(frameExit, guestExit{})
	}
	r, _ := fakeGuests(t, Options{}, quick, slow)
	if err := r.followFakes(t.Context()); err != nil {
		t.Error(err)
	}
	if started.Before(ready) {
		t.Error("one started while another was not ready")
	}
}

func TestDecideDeath(t *testing.T) {
	for name, c := range map[string]struct {
		guest func(*frameConn)
		want  string
	}{
		"at boot":      {func(*frameConn) {}, "died"},
		"while ready":  {func(c *frameConn) { toReady(t, c) }, "died"},
		"mid-frame":    {func(c *frameConn) { c.w.Write([]byte{'h', 0, 0}) }, "died"},
		"cannot":       {func(c *frameConn) { c.write(frameHello, nil); c.read(); c.write(frameFailed, []byte("no card")) }, "no card"},
		"ready twice":  {func(c *frameConn) { toReady(t, c); c.write(frameReady, nil) }, "'r' after 'r'"},
		"exit at once": {func(c *frameConn) { c.writeJSON(frameExit, guestExit{}) }, "after"},
		"unknown kind": {func(c *frameConn) { c.write('?', nil) }, "unknown kind"},
		"out of step":  {func(c *frameConn) { c.w.Write([]byte("h\xff\xff\xff\xff")) }, "out of step"},
		"no byte":      {func(c *frameConn) { toReady(t, c); c.read(); c.writeJSON(frameExit, guestExit{Status: 256}) }, "exit status"},
		"no status":    {func(c *frameConn) { toReady(t, c); c.read(); c.write(frameExit, []byte("?")) }, "exit status"},
	} {
		t.Run(name, func(t *testing.T) {
			waits := func(c *frameConn) {
				c.write(frameHello, nil)
				for {
					if _, _, err := c.read(); err != nil {
						return
					}
				}
			}
			others := []func(*frameConn){c.guest, waits}
			if c.want == "exit status" {
				others = others[:1] // it gets as far as running
			}
			r, _ := fakeGuests(t, Options{}, others...)
			r.guests[0].console.Write([]byte("[    1.0] the last words\r\n"))
			err := r.followFakes(t.Context())
			var dead *GuestError
			if !errors.As(err, &dead) || dead.Node != 0 || !strings.Contains(dead.Problem, c.want) || !strings.Contains(err.Error(), "last words") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDecideTimeout(t *testing.T) {
	hangs := func(c *frameConn) {
		toReady(t, c)
		for {
			if _, _, err := c.read(); err != nil {
				return
			}
		}
	}
	r, _ := fakeGuests(t, Options{Timeout: time.Minute}, exits(t, 0, "done"), hangs)
	r.guests[1].console.Write([]byte("[    1.0] hung task\n"))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errTimeout) // in which node 0 ends
	defer cancel()
	err := r.followFakes(ctx)
	var hung *GuestError
	if !errors.As(err, &hung) || hung.Node != 1 || !strings.Contains(err.Error(), "hung task") || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("got %v", err)
	}

	r, _ = fakeGuests(t, Options{}, func(c *frameConn) { c.read() })
	cancelled, stop := context.WithCancelCause(t.Context())
	stop(context.Canceled)
	if err := r.followFakes(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTailBuffer(t *testing.T) {
	var b tailBuffer
	for i := range 20000 {
		fmt.Fprintf(&b, "line %d\r\n", i)
	}
	if len(b.kept) > tailBytes {
		t.Errorf("%d bytes kept", len(b.kept))
	}
	if got := b.last(2); got != "line 19998\nline 19999" {
		t.Errorf("got %q", got)
	}
	fmt.Fprintf(&b, "BUG: first\n%s", strings.Repeat("trace\n", 50))
	if got := b.last(2); !strings.HasPrefix(got, "BUG: first\n") {
		t.Errorf("a death without its beginning: %q", got)
	}
}

func TestOptionsCheck(t *testing.T) {
	good := Options{Command: []string{"true"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"command": func(o *Options) { o.Command = nil },
		"nodes":   func(o *Options) { o.Nodes = MaxNodes + 1 },
		"cpus":    func(o *Options) { o.CPUs = -1 },
		"memory":  func(o *Options) { o.Memory = 1 },
		"link":    func(o *Options) { o.Link = "ib" },
		"accel":   func(o *Options) { o.Accel = "hvf" },
		"timeout": func(o *Options) { o.Timeout = -1 },
		"no port": func(o *Options) { o.ACS, o.Accelerators.Count = true, 1 },
	} {
		bad := good
		change(&bad)
		if bad.Check() == nil {
			t.Errorf("%s: nothing was found wrong", name)
		}
	}
}

// A guest that hangs while it boots is told apart: nothing has started yet, so
// the run can begin again.
func TestDecideStuckBoot(t *testing.T) {
	r, _ := fakeGuests(t, Options{},
		func(c *frameConn) { toReady(t, c); c.read() },
		func(c *frameConn) { c.read() }) // to the end: nothing is said to it
	r.bootLimit = time.Second // in which node 0 is ready
	err := r.followFakes(t.Context())
	var boot *bootError
	var guest *GuestError
	if !errors.As(err, &boot) || !errors.As(err, &guest) || guest.Node != 1 {
		t.Errorf("got %v", err)
	}
}
