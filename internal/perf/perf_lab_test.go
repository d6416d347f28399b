//go:build lab

package perf

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/freeport"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// lab gives a side's options on the guest's device and address.
func lab(t testing.TB, op Op, test Test) Options {
	t.Helper()
	o := options(op, test, RDMA)
	o.Device, o.Timeout = os.Getenv("PEERDIRECT_DEVICE"), 30*time.Second
	if o.Device == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	o.QPTimeout = 18 // 1 s: a machine of the lab may stand still for as long
	return o
}

func iwarp(t testing.TB) bool { return strings.HasPrefix(os.Getenv("PEERDIRECT_DEVICE"), "siw") }

// pairUp runs both sides in this process, over the guest's own address, and
// sees that no object is left.
func pairUp(t testing.TB, ctx context.Context, server, client Options) (s, c outcome) {
	t.Helper()
	addr := os.Getenv("PEERDIRECT_ADDR")
	server.Listen, client.Server = addr, addr
	s, c = both(t, ctx, server, client)
	if left := verbs.Live(); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
	return s, c
}

func TestLabEveryOperation(t *testing.T) {
	for _, c := range []struct {
		name   string
		op     Op
		test   Test
		change func(*Options)
	}{
		{"write bw", Write, Bandwidth, nil},
		{"read bw", Read, Bandwidth, nil},
		{"send bw", Send, Bandwidth, nil},
		{"atomic bw", Atomic, Bandwidth, nil},
		{"write lat", Write, Latency, nil},
		{"read lat", Read, Latency, nil},
		{"send lat", Send, Latency, nil},
		{"atomic lat", Atomic, Latency, nil},

		{"write bw events", Write, Bandwidth, func(o *Options) { o.Events = true }},
		{"send bw events", Send, Bandwidth, func(o *Options) { o.Events = true }},
		{"send lat events", Send, Latency, func(o *Options) { o.Events = true }},
		{"read lat events", Read, Latency, func(o *Options) { o.Events = true }},

		{"write bw 4", Write, Bandwidth, func(o *Options) { o.QPs, o.Size = 4, 1024 }},
		{"read bw 4", Read, Bandwidth, func(o *Options) { o.QPs, o.Size = 4, 1024 }},
		{"send bw 4", Send, Bandwidth, func(o *Options) { o.QPs, o.Size = 4, 1024 }},
		{"atomic bw 4", Atomic, Bandwidth, func(o *Options) { o.QPs = 4 }},

		{"write bw both", Write, Bandwidth, func(o *Options) { o.Bidirectional, o.Size = true, 4096 }},
		{"read bw both", Read, Bandwidth, func(o *Options) { o.Bidirectional, o.Size = true, 4096 }},
		{"send bw both", Send, Bandwidth, func(o *Options) { o.Bidirectional, o.Size, o.QPs = true, 4096, 2 }},
		{"atomic bw both", Atomic, Bandwidth, func(o *Options) { o.Bidirectional = true }},

		{"write bw inline", Write, Bandwidth, func(o *Options) { o.Inline, o.Size = 32, 32 }},
		{"send bw inline", Send, Bandwidth, func(o *Options) { o.Inline, o.Size = 32, 32 }},
		{"write bw list", Write, Bandwidth, func(o *Options) { o.List, o.Size = 8, 100 }},
		{"send bw list", Send, Bandwidth, func(o *Options) { o.List, o.Size, o.CQMod = 4, 100, 40 }},
		{"write bw depth 1", Write, Bandwidth, func(o *Options) { o.TxDepth, o.Size = 1, 8 }},
		{"send bw receive 3", Send, Bandwidth, func(o *Options) { o.RxDepth, o.TxDepth, o.Size, o.Iters = 3, 2, 8, 50 }},

		{"send bw receive 1", Send, Bandwidth, func(o *Options) { o.RxDepth, o.Size, o.Iters = 1, 8, 50 }},
		{"send bw all", Send, Bandwidth, func(o *Options) { o.All, o.Iters, o.RxDepth = true, 7, 4 }},
		{"send bw slow receiver", Send, Bandwidth, func(o *Options) { o.Events, o.RxDepth, o.Size, o.Iters = true, 16, 64, 2000 }},

		{"write bw time", Write, Bandwidth, func(o *Options) { o.Iters, o.Duration, o.Size = 0, 300*time.Millisecond, 100 }},
		{"send bw time both", Send, Bandwidth, func(o *Options) {
			o.Iters, o.Duration, o.Size, o.Bidirectional = 0, 300*time.Millisecond, 100, true
		}},
		{"write lat time", Write, Latency, func(o *Options) { o.Iters, o.Duration = 0, 300*time.Millisecond }},
		{"send lat time", Send, Latency, func(o *Options) { o.Iters, o.Duration = 0, 300*time.Millisecond }},
		{"write bw all", Write, Bandwidth, func(o *Options) { o.All, o.Iters = true, 2 }},
		{"send lat all", Send, Latency, func(o *Options) { o.All, o.Iters = true, 2 }},
		{"write lat 300", Write, Latency, func(o *Options) { o.Iters, o.Size = 300, 1 }}, // the byte that counts wraps
	} {
		t.Run(c.name, func(t *testing.T) {
			o := lab(t, c.op, c.test)
			if c.change != nil {
				c.change(&o)
			}
			server, client := pairUp(t, t.Context(), o, o)
			if c.op == Atomic && iwarp(t) {
				if !errors.Is(server.err, errors.ErrUnsupported) || !errors.Is(client.err, errors.ErrUnsupported) {
					t.Errorf("server: %v, client: %v", server.err, client.err)
				}
				return
			}
			good(t, o, server, client)
		})
	}
}

func TestLabCorruptionIsFound(t *testing.T) {
	for _, op := range []Op{Write, Read, Send, Atomic} {
		if op == Atomic && iwarp(t) {
			continue
		}
		o := lab(t, op, Bandwidth)
		receiver := o
		receiver.beforeCheck = spoil
		server, client := receiver, o
		if op == Read || op == Atomic {
			server, client = o, receiver
		}
		s, c := pairUp(t, t.Context(), server, client)
		if !errors.Is(s.err, exchange.ErrVerification) || !errors.Is(c.err, exchange.ErrVerification) {
			t.Errorf("%s: server %v, client %v", op, s.err, c.err)
		}
	}
}

// What the device lacks is known before anything starts, and told to the peer.
func TestLabLimits(t *testing.T) {
	base := lab(t, Write, Bandwidth)
	dev, err := verbs.Open(base.Device)
	if err != nil {
		t.Fatal(err)
	}
	attr, err := dev.Attr()
	dev.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Options)
		class  error
		want   string
	}{
		"device":  {func(o *Options) { o.Device = "none0" }, verbs.ErrNoDevice, "none0"},
		"port":    {func(o *Options) { o.IBPort = 9 }, exchange.ErrUsage, "port 9"},
		"gid":     {func(o *Options) { o.GID = 200000 }, exchange.ErrUsage, "GID index 200000"},
		"inline":  {func(o *Options) { o.Inline = 1 << 20 }, errors.ErrUnsupported, "inline"},
		"depth":   {func(o *Options) { o.TxDepth = attr.MaxQPWR + 1 }, errors.ErrUnsupported, "-t"},
		"entries": {func(o *Options) { o.TxDepth, o.QPs = attr.MaxQPWR, attr.MaxCQE/attr.MaxQPWR+1 }, errors.ErrUnsupported, "-q"},
		"mtu":     {func(o *Options) { o.MTU = 4096 }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			c.change(&o)
			o.Server, o.Timeout = os.Getenv("PEERDIRECT_ADDR"), 3*time.Second
			o.TCPPort = freeport.TCP(t)
			if name == "inline" || c.class == nil {
				server := base
				server.Listen, server.Timeout = o.Server, o.Timeout
				s, cl := pairUp(t, t.Context(), server, o)
				if c.class == nil {
					return // either side may refuse; nothing may be left
				}
				if !errors.Is(s.err, c.class) || !errors.Is(cl.err, c.class) || !strings.Contains(cl.err.Error(), c.want) {
					t.Errorf("server %v, client %v", s.err, cl.err)
				}
				return
			}
			_, err := Run(t.Context(), o, Output{})
			if name == "entries" && errors.Is(err, exchange.ErrUsage) {
				t.Skip("the device has more entries than this machine has memory for: ", err)
			}
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if left := verbs.Live(); len(left) > 0 {
				t.Errorf("objects are left: %v", left)
			}
		})
	}
}

func TestLabInterrupt(t *testing.T) {
	for _, c := range []struct {
		op   Op
		test Test
		qps  int
	}{{Write, Bandwidth, 2}, {Send, Bandwidth, 1}, {Read, Latency, 1}, {Write, Latency, 1}, {Send, Latency, 1}} {
		o := lab(t, c.op, c.test)
		o.Iters, o.Duration, o.QPs = 0, time.Minute, c.qps
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		start := time.Now()
		server, client := pairUp(t, ctx, o, o)
		if !errors.Is(server.err, context.Canceled) || !errors.Is(client.err, context.Canceled) {
			t.Errorf("%s %s: server %v, client %v", c.op, c.test, server.err, client.err)
		}
		// A hang, not a speed, is what this would find: a machine of the lab
		// may stand still for ten seconds and more.
		if d := time.Since(start); d > o.Timeout {
			t.Errorf("%s %s: it took %v", c.op, c.test, d)
		}
	}
}

// otherSide is set in the environment of a process that plays one side.
const otherSide = "PERF_TEST_OTHER_SIDE"

// TestLabOtherSide is not a test but the other process of those that need one.
func TestLabOtherSide(t *testing.T) {
	what := strings.Fields(os.Getenv(otherSide)) // op, test, port, server or nothing
	if len(what) < 3 {
		t.Skip("only run by other tests")
	}
	o := lab(t, Op(what[0]), Test(what[1]))
	o.TCPPort, _ = strconv.Atoi(what[2])
	o.Iters, o.Duration = 0, time.Minute
	if len(what) > 3 {
		o.Server = what[3]
	} else {
		o.Listen = os.Getenv("PEERDIRECT_ADDR")
	}
	Run(t.Context(), o, Output{})
}

// The peer's process is killed, or stopped, in the middle of a run.
func TestLabPeerLost(t *testing.T) {
	if os.Getenv("PEERDIRECT_KERNEL") != "7.3" {
		t.Skip("needs kernel 7.3: half a minute, and what is lost is a process, on every kernel alike")
	}
	for _, c := range []struct {
		op     Op
		test   Test
		server bool // the one that is lost
		signal syscall.Signal
	}{
		{Write, Bandwidth, true, syscall.SIGKILL},
		{Write, Bandwidth, false, syscall.SIGKILL},
		{Send, Bandwidth, true, syscall.SIGKILL},
		{Send, Bandwidth, false, syscall.SIGKILL},
		{Write, Latency, true, syscall.SIGKILL},
		{Send, Latency, false, syscall.SIGKILL},
		{Read, Latency, false, syscall.SIGKILL},
		{Write, Bandwidth, false, syscall.SIGSTOP},
		{Send, Latency, true, syscall.SIGSTOP},
	} {
		name := string(c.op) + " " + string(c.test) + " " + c.signal.String()
		if c.server {
			name += " server"
		}
		t.Run(name, func(t *testing.T) {
			o := lab(t, c.op, c.test)
			o.Iters, o.Duration, o.TCPPort, o.Timeout = 0, time.Minute, freeport.TCP(t), 8*time.Second
			addr := os.Getenv("PEERDIRECT_ADDR")
			say := strings.Join([]string{string(c.op), string(c.test), strconv.Itoa(o.TCPPort)}, " ")
			if c.server {
				o.Server = addr
			} else {
				o.Listen = addr
				say += " " + addr
			}
			other := exec.Command(os.Args[0], "-test.run=^TestLabOtherSide$")
			other.Env = append(os.Environ(), otherSide+"="+say)
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				other.Process.Kill()
				other.Wait()
			}()
			var lost time.Time
			_, err := Run(t.Context(), o, Output{Begin: func(Conditions) error {
				time.AfterFunc(2*time.Second, func() {
					lost = time.Now()
					other.Process.Signal(c.signal)
				})
				return nil
			}})
			took := time.Since(lost)
			if lost.IsZero() {
				t.Fatalf("it ended before the peer was lost: %v", err)
			}
			var late *TimeoutError
			var completion *verbs.CompletionError
			if !errors.Is(err, exchange.ErrGone) && !errors.As(err, &late) && !errors.As(err, &completion) {
				t.Errorf("%v", err)
			}
			if took > 2*o.Timeout {
				t.Errorf("it took %v: %v", took, err)
			}
			t.Logf("%v after %v", err, took.Round(time.Millisecond))
			if left := verbs.Live(); len(left) > 0 {
				t.Errorf("objects are left: %v", left)
			}
		})
	}
}
