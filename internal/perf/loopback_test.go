package perf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/freeport"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// outcome is how one side ended.
type outcome struct {
	report *Report
	err    error
}

// both runs the two sides of a test in this process.
func both(t testing.TB, ctx context.Context, server, client Options) (s, c outcome) {
	t.Helper()
	port := freeport.TCP(t)
	server.TCPPort, client.TCPPort = port, port
	if client.Server == "" {
		client.Server = "127.0.0.1"
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := Run(ctx, server, Output{})
		done <- outcome{r, err}
	}()
	c.report, c.err = Run(ctx, client, Output{})
	return <-done, c
}

func options(op Op, test Test, transport Transport) Options {
	o := Defaults(op, test)
	o.Transport, o.Verify, o.Timeout = transport, true, 10*time.Second
	if test == Bandwidth {
		o.Iters = 200
	} else {
		o.Iters = 50
	}
	return o
}

// sound checks what every good report has.
func sound(t testing.TB, o Options, r *Report) {
	t.Helper()
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != len(o.sizes()) {
		t.Fatalf("%d results for %d sizes", len(r.Results), len(o.sizes()))
	}
	for i, res := range r.Results {
		want := uint64(o.Iters * o.QPs)
		if o.Bidirectional {
			want *= 2
		}
		if o.Duration > 0 && res.Iterations > 0 {
			want = res.Iterations
		}
		if res.Bytes != o.sizes()[i] || res.Iterations != want || res.Seconds <= 0 || res.TotalBytes != want*uint64(res.Bytes) {
			t.Errorf("result %+v, want %d messages of %d bytes", res, want, o.sizes()[i])
		}
		if o.Verify && (res.Verified == nil || !*res.Verified) {
			t.Error("not verified")
		}
		switch l := res.Latency; {
		case o.Test == Bandwidth:
			if *res.Average <= 0 || *res.Rate <= 0 {
				t.Errorf("average %v, rate %v", *res.Average, *res.Rate)
			}
		case l == nil:
			t.Error("no latency")
		case !(l.Min <= l.Typical && l.Typical <= l.P99 && l.P99 <= l.P999 && l.P999 <= l.Max && l.Min <= l.Avg && l.Avg <= l.Max):
			t.Errorf("latencies out of order: %+v", *l)
		}
	}
}

func good(t testing.TB, o Options, server, client outcome) {
	t.Helper()
	if server.err != nil || client.err != nil {
		t.Fatalf("server: %v\nclient: %v", server.err, client.err)
	}
	sound(t, o, client.report)
	sound(t, o, server.report)
}

func TestTCP(t *testing.T) {
	for _, op := range []Op{Write, Read, Send} {
		for name, change := range map[string]func(*Options){
			"bw":          func(o *Options) { o.Test = Bandwidth },
			"bw small":    func(o *Options) { o.Size = 8 },
			"bw 3":        func(o *Options) { o.QPs = 3 },
			"bw both":     func(o *Options) { o.Bidirectional, o.QPs = true, 2 },
			"bw duration": func(o *Options) { o.Iters, o.Duration = 0, 500*time.Millisecond },
			"bw moment":   func(o *Options) { o.Iters, o.Duration = 0, 1 }, // over before it begins: one message all the same
			"bw all":      func(o *Options) { o.All, o.Iters = true, 3 },
			"lat":         func(o *Options) { o.Test = Latency },
			"lat events":  func(o *Options) { o.Test, o.Events = Latency, true },
			"lat 64K":     func(o *Options) { o.Test, o.Size = Latency, 64<<10 },
			"lat time":    func(o *Options) { o.Test, o.Iters, o.Duration = Latency, 0, 500*time.Millisecond },
			"lat moment":  func(o *Options) { o.Test, o.Iters, o.Duration = Latency, 0, 1 },
		} {
			t.Run(string(op)+" "+name, func(t *testing.T) {
				o := options(op, Bandwidth, TCP)
				change(&o)
				if o.Test == Latency && o.Iters > 50 {
					o.Iters = 50
				}
				server, client := both(t, t.Context(), o, o)
				good(t, o, server, client)
			})
		}
	}
}

func TestMemcpy(t *testing.T) {
	for _, op := range []Op{Write, Read, Send, Atomic} {
		for _, test := range []Test{Bandwidth, Latency} {
			for _, d := range []time.Duration{0, 1, 50 * time.Millisecond} {
				t.Run(fmt.Sprint(op, " ", test, " ", d), func(t *testing.T) {
					o := options(op, test, Memcpy)
					if d > 0 {
						o.Iters, o.Duration = 0, d
					}
					r, err := Run(t.Context(), o, Output{})
					if err != nil {
						t.Fatal(err)
					}
					sound(t, o, r)
				})
			}
		}
	}
}

func spoil(b []byte) { b[0] ^= 0x40 }

func TestCorruptionIsFound(t *testing.T) {
	for _, op := range []Op{Write, Read, Send} {
		o := options(op, Bandwidth, TCP)
		receiver := o
		receiver.beforeCheck = spoil
		server, client := receiver, o
		if op == Read {
			server, client = o, receiver
		}
		s, c := both(t, t.Context(), server, client)
		if !errors.Is(s.err, exchange.ErrVerification) || !errors.Is(c.err, exchange.ErrVerification) {
			t.Errorf("%s over TCP: server %v, client %v", op, s.err, c.err)
		}
		o = options(op, Bandwidth, Memcpy)
		o.beforeCheck = spoil
		if _, err := Run(t.Context(), o, Output{}); !errors.Is(err, exchange.ErrVerification) {
			t.Errorf("%s by memcpy: %v", op, err)
		}
	}
}

func TestSidesThatDoNotAgreeSaySo(t *testing.T) {
	server, client := options(Write, Bandwidth, TCP), options(Write, Bandwidth, TCP)
	server.Size, server.Given = 64, map[string]bool{"size": true}
	s, c := both(t, t.Context(), server, client)
	if !errors.Is(s.err, exchange.ErrUsage) || !errors.Is(c.err, exchange.ErrUsage) || !strings.Contains(c.err.Error(), "--size") {
		t.Errorf("server %v, client %v", s.err, c.err)
	}
}

func TestAbsentPeer(t *testing.T) {
	o := options(Write, Bandwidth, TCP)
	o.TCPPort, o.Timeout = freeport.TCP(t), 200*time.Millisecond
	for role, server := range map[string]string{"server": "", "client": "127.0.0.1"} {
		o.Server = server
		start := time.Now()
		_, err := Run(t.Context(), o, Output{})
		if d := time.Since(start); err == nil || d > 5*time.Second {
			t.Errorf("%s: %v after %v", role, err, d)
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, which names neither the deadline nor the refusal", role, err)
		}
	}
}

// mute accepts a client, greets it, and says no more.
func mute(t *testing.T) (port int) {
	l, err := exchange.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		conn.Greet(context.Background(), exchange.Hello{Program: "peerdirect", Purpose: "perf"})
		t.Cleanup(func() { conn.Close() })
	}()
	_, p, _ := net.SplitHostPort(l.Addr().String())
	fmt.Sscan(p, &port)
	return port
}

func TestSilentPeer(t *testing.T) {
	o := options(Write, Bandwidth, TCP)
	o.Timeout, o.TCPPort, o.Server = 2*time.Second, mute(t), "127.0.0.1" // in which it connects
	var late *TimeoutError
	if _, err := Run(t.Context(), o, Output{}); !errors.As(err, &late) {
		t.Errorf("%v", err)
	}
}

func TestInterruptEndsBothSides(t *testing.T) {
	for _, test := range []Test{Bandwidth, Latency} {
		before := runtime.NumGoroutine()
		o := options(Write, test, TCP)
		o.Iters, o.Duration = 0, time.Minute
		o.TCPPort = freeport.TCP(t)
		ctx, cancel := context.WithCancel(t.Context())
		var asked time.Time
		run := func(Conditions) error { // the sides have met
			time.AfterFunc(300*time.Millisecond, func() { asked = time.Now(); cancel() })
			return nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := Run(t.Context(), o, Output{})
			done <- err
		}()
		client := o
		client.Server = "127.0.0.1"
		_, err := Run(ctx, client, Output{Begin: run})
		serr := <-done
		if !errors.Is(err, context.Canceled) || err.Error() != "interrupted" {
			t.Errorf("%s: the client ended with %v", test, err)
		}
		var remote *exchange.RemoteError
		if !errors.As(serr, &remote) || !strings.Contains(serr.Error(), "interrupted") {
			t.Errorf("%s: the server ended with %v", test, serr)
		}
		if d := time.Since(asked); d > 5*time.Second {
			t.Errorf("%s: it took %v", test, d)
		}
		noMoreGoroutines(t, before)
	}
}

// noMoreGoroutines waits for those of the runtime that end on their own.
func noMoreGoroutines(t testing.TB, before int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 64<<10)
	t.Errorf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

func TestNothingIsLeftOpen(t *testing.T) {
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(d)
	}
	o := options(Send, Bandwidth, TCP)
	o.QPs = 4
	run := func() {
		s, c := both(t, t.Context(), o, o)
		good(t, o, s, c)
	}
	run() // the poller's own descriptors
	before := count()
	for range 3 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors are open, there were %d", after, before)
	}
}

// A connection that is too many, or of a queue that there is not, is not taken.
func TestEachQueueHasOneConnection(t *testing.T) {
	side := newTCPSide(&Options{Timeout: time.Second})
	side.conns = make([]*net.TCPConn, 2)
	for _, c := range []struct {
		index        string
		mine, enough bool
	}{
		{"\x00\x00\x00\x01", true, false},
		{"\x00\x00\x00\x01", false, false},
		{"\x00\x00\x00\x02", false, false},
		{"\xff\xff\xff\xff", false, false},
		{"\x00\x00\x00\x00", true, true},
	} {
		if mine, enough := side.adopt(new(net.TCPConn), []byte(c.index)); mine != c.mine || enough != c.enough {
			t.Errorf("%q: %v, %v", c.index, mine, enough)
		}
	}
}
