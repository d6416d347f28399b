//go:build lab

package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// TestMain lets the test binary be the other process of a transfer, which can
// be killed and interrupted.
func TestMain(m *testing.M) {
	args := strings.Fields(os.Getenv("PEERDIRECT_TRANSFER_CHILD"))
	if len(args) == 0 {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := labOptions()
	o.Tell = func(p Progress) { fmt.Println(p.Stage, p.Bytes) }
	var err error
	if args[0] == "to" {
		_, err = To(ctx, args[1], SendOptions{Options: o, Layout: endless, Iterations: maxIterations})
	} else {
		var l *Listener
		if l, err = Listen(ctx, args[1], ListenOptions{Options: o}); err == nil {
			fmt.Println("listening", l.Addr())
			_, err = l.Receive(ctx)
			l.Close()
		}
	}
	fmt.Println("ended:", err, "objects:", verbs.Live())
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// endless is a layout for transfers that are ended from outside.
var endless = Layout{PageSize: 16 << 10, Pages: 200, Stride: 2, Seed: 5}

func labOptions() Options {
	return Options{Rail: labRail(RCOptions{}), Timeout: 20 * time.Second}
}

// labRail is over the guest's device, whatever it is; the options are for RC.
func labRail(o RCOptions) Opener {
	rail, err := Named(os.Getenv("PEERDIRECT_DEVICE"), o)
	if err != nil {
		panic(err)
	}
	return rail
}

// inLab skips a test outside the lab, and checks afterwards that nothing is
// left, in this process or in the kernel.
func inLab(t *testing.T) (addr string) {
	t.Helper()
	if os.Getenv("PEERDIRECT_DEVICE") == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	before := resources(t)
	t.Cleanup(func() {
		if live := verbs.Live(); len(live) > 0 {
			t.Errorf("objects are left: %v", live)
		}
		// Some are freed a moment after their process is gone.
		deadline := time.Now().Add(5 * time.Second)
		for resources(t) != before && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if after := resources(t); after != before {
			t.Errorf("the kernel's objects were %q and are %q", before, after)
		}
	})
	return net.JoinHostPort(os.Getenv("PEERDIRECT_ADDR"), "0")
}

// resources is the kernel's count of objects that programs hold.
func resources(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show").CombinedOutput()
	if err != nil {
		t.Fatalf("rdma resource show: %v: %s", err, out)
	}
	return strings.Join(regexp.MustCompile(`\b(pd|cq|qp|cm_id|mr|ctx) \d+`).FindAllString(string(out), -1), " ")
}

func listen(t *testing.T, addr string, o ListenOptions) *Listener {
	t.Helper()
	if o.Rail == nil {
		o.Options = labOptions()
	}
	l, err := Listen(context.Background(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

type outcome struct {
	result *Result
	err    error
}

// receive receives one transfer in the background.
func receive(l *Listener) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		r, err := l.Receive(context.Background())
		c <- outcome{r, err}
	}()
	return c
}

// within fails the test if it takes longer.
func within(t *testing.T, limit time.Duration, c <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(limit):
		t.Fatalf("not ended after %v", limit)
		return outcome{}
	}
}

func TestPagesArriveOverRC(t *testing.T) { pagesArrive(t) }

func pagesArrive(t *testing.T) {
	addr := inLab(t)
	l := listen(t, addr, ListenOptions{})
	device := os.Getenv("PEERDIRECT_DEVICE")
	for _, o := range []SendOptions{
		{Layout: Layout{PageSize: 64 << 10, Pages: 64, Stride: 2, Seed: 1}, Iterations: 3},
		{Layout: Layout{PageSize: 64, Pages: 3000, Stride: 3, Seed: 7}, Batch: 64, Depth: 512},
		{Layout: Layout{PageSize: 4096, Pages: 1000, Stride: 1}},
		{Layout: Layout{PageSize: 4096, Pages: 300, Stride: 2, Seed: 2}, Options: Options{Rail: labRail(RCOptions{Queues: 4, SendDepth: 24})}, Batch: 3, Depth: 32},
	} {
		rail := o.Rail
		if o.Options = labOptions(); rail != nil {
			o.Rail = rail
		}
		c := receive(l)
		sent, err := To(context.Background(), l.Addr().String(), o)
		got := within(t, time.Minute, c)
		if err != nil || got.err != nil {
			t.Fatalf("%+v: %v, %v", o.Layout, err, got.err)
		}
		for _, r := range []*Result{sent, got.result} {
			if !r.Verified || r.Bytes != o.Layout.Bytes()*uint64(max(o.Iterations, 1)) || r.Seconds <= 0 || r.Conditions.Device != device {
				t.Errorf("%+v", r)
			}
		}
		if sent.Checksum != got.result.Checksum || sent.Notices != got.result.Notices || sent.Latency == nil ||
			sent.ControlSent == 0 || sent.ControlSent > 8<<10 || sent.ControlSent != got.result.ControlReceived {
			t.Errorf("%+v\n%+v", sent, got.result)
		}
		t.Logf("%+v: %.1f MiB/s, %d writes, %d notices, %d+%d control bytes", o.Layout, sent.PerSecond/(1<<20), sent.Writes, sent.Notices, sent.ControlSent, sent.ControlReceived)
	}
}

func TestADamagedPageIsNamed(t *testing.T) {
	addr := inLab(t)
	layout := Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 3}
	at := layout.TargetSlots()(42)*4096 + 1000
	l := listen(t, addr, ListenOptions{corrupt: func(mem []byte) { mem[at] ^= 4 }, Options: labOptions()})
	c := receive(l)
	_, err := To(context.Background(), l.Addr().String(), SendOptions{Options: labOptions(), Layout: layout})
	for _, err := range []error{err, within(t, time.Minute, c).err} {
		var v *VerifyError
		if !errors.As(err, &v) || fmt.Sprint(v.First) != "[42]" || !errors.Is(err, ErrVerify) {
			t.Errorf("%v", err)
		}
	}
}

func TestGarbageOnThePortHarmsNobodyElse(t *testing.T) {
	addr := inLab(t)
	var warnings atomic.Int32
	l := listen(t, addr, ListenOptions{Options: labOptions(), Warn: func(err error) {
		t.Log(err)
		warnings.Add(1)
	}})
	silent, err := net.Dial("tcp", l.Addr().String()) // and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "PDX\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "PDX\x01\x00\x01", "\x00"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, garbage)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
	}
	// One that greets well and then talks nonsense where a rail should connect.
	conn, err := exchange.Dial(context.Background(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := receive(l)
	if _, _, err := greet(context.Background(), conn, "test", hello{Kind: labOptions().Rail.Kind(), NICs: 1, Queues: 1}); err != nil {
		t.Fatal(err)
	}
	conn.Send(context.Background(), exchange.TypeUser, "nonsense")
	if got := within(t, 30*time.Second, c); !errors.Is(got.err, exchange.ErrProtocol) {
		t.Errorf("nonsense: %v", got.err)
	}
	conn.Close()

	c = receive(l)
	if _, err := To(context.Background(), l.Addr().String(), SendOptions{Options: labOptions(), Layout: Layout{PageSize: 4096, Pages: 10, Stride: 1}}); err != nil {
		t.Error(err)
	}
	if got := within(t, 30*time.Second, c); got.err != nil {
		t.Error(got.err)
	}
	if n := warnings.Load(); n != 1 {
		t.Errorf("one offender was told of %d times", n)
	}
}

// child starts the other process and gives its lines.
func child(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PEERDIRECT_TRANSFER_CHILD="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// await reads lines until one begins with the word, and gives the rest of it.
func await(t *testing.T, lines *bufio.Scanner, word string) string {
	t.Helper()
	rest, ok := find(lines, word)
	if !ok {
		t.Fatalf("the other process ended without %q: %v", word, lines.Err())
	}
	return rest
}

func find(lines *bufio.Scanner, word string) (rest string, ok bool) {
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), word); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// busy waits until a child is well inside a transfer, then reads its lines no
// more.
func busy(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	for range 3 {
		await(t, lines, string(StageVerify))
	}
}

func TestASenderThatIsKilled(t *testing.T) {
	addr := inLab(t)
	l := listen(t, addr, ListenOptions{})
	c := receive(l)
	cmd, lines := child(t, "to", l.Addr().String())
	busy(t, lines)
	cmd.Process.Kill()
	got := within(t, 10*time.Second, c)
	if !errors.Is(got.err, exchange.ErrPeerGone) {
		t.Errorf("the receiver: %v", got.err)
	}
	t.Log(got.err)
	cmd.Wait()
}

func TestAReceiverThatIsKilled(t *testing.T) {
	addr := inLab(t)
	cmd, lines := child(t, "listen", addr)
	at := await(t, lines, "listening")
	c := make(chan outcome, 1)
	go func() {
		r, err := To(context.Background(), at, SendOptions{Options: labOptions(), Layout: endless, Iterations: maxIterations})
		c <- outcome{r, err}
	}()
	busy(t, lines)
	cmd.Process.Kill()
	got := within(t, 10*time.Second, c)
	if !errors.Is(got.err, exchange.ErrPeerGone) {
		t.Errorf("the sender: %v", got.err)
	}
	t.Log(got.err)
	cmd.Wait()
}

func TestAnInterruptIsToldToTheOther(t *testing.T) {
	addr := inLab(t)
	for _, role := range []string{"to", "listen"} {
		t.Run(role, func(t *testing.T) {
			c := make(chan outcome, 1)
			var cmd *exec.Cmd
			var lines *bufio.Scanner
			if role == "to" {
				l := listen(t, addr, ListenOptions{})
				cmd, lines = child(t, "to", l.Addr().String())
				go func() { o := <-receive(l); c <- o }()
			} else {
				cmd, lines = child(t, "listen", addr)
				at := await(t, lines, "listening")
				go func() {
					r, err := To(context.Background(), at, SendOptions{Options: labOptions(), Layout: endless, Iterations: maxIterations})
					c <- outcome{r, err}
				}()
			}
			busy(t, lines)
			cmd.Process.Signal(os.Interrupt)
			if end := await(t, lines, "ended:"); !strings.Contains(end, ErrCancelled.Error()) || !strings.HasSuffix(end, "objects: map[]") {
				t.Errorf("the interrupted process: %s", end)
			}
			got := within(t, 10*time.Second, c)
			if got.err == nil || !strings.Contains(got.err.Error(), ErrCancelled.Error()) {
				t.Errorf("the other: %v", got.err)
			}
			cmd.Wait()
		})
	}
}

// TestAPeerThatStandsStill: the receiver gives up in its time. A machine under load
// may itself stand still for so long before the peer was stopped; that shows
// nothing, and the next receiver has more patience.
func TestAPeerThatStandsStill(t *testing.T) {
	addr := inLab(t)
	for _, patience := range []time.Duration{2 * time.Second, 6 * time.Second, 15 * time.Second} {
		if standsStill(t, addr, patience) {
			return
		}
		t.Logf("the machine stood still for %v", patience)
	}
	t.Error("no peer could be stopped inside a transfer")
}

// standsStill is false if the transfer timed out before the peer was stopped.
func standsStill(t *testing.T, addr string, patience time.Duration) bool {
	t.Helper()
	o := labOptions()
	o.Timeout = patience
	l := listen(t, addr, ListenOptions{Options: o})
	c := receive(l)
	cmd, lines := child(t, "to", l.Addr().String())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	inside := true
	for i := 0; i < 3 && inside; i++ {
		_, inside = find(lines, string(StageVerify))
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	early := !inside
	var got outcome
	select {
	case got = <-c:
		early = true
	default:
		got = within(t, patience+15*time.Second, c)
	}
	if !errors.Is(got.err, ErrTimeout) {
		t.Fatalf("the receiver: %v", got.err)
	}
	return !early
}

func TestOptionsThatDoNotFitTheMachine(t *testing.T) {
	inLab(t)
	for name, change := range map[string]func(*RCOptions){
		"port":        func(o *RCOptions) { o.Port = 9 },
		"GID index":   func(o *RCOptions) { o.GIDIndex = new(5000) },
		"queue pairs": func(o *RCOptions) { o.Queues = 1000 },
	} {
		o := RCOptions{Device: os.Getenv("PEERDIRECT_DEVICE")}
		change(&o)
		_, err := OpenRC(o)
		var wrong *OptionError
		if !errors.As(err, &wrong) || wrong.Option != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenRC(RCOptions{Device: "nosuch0"}); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("no such device: %v", err)
	}
}

func TestTwoListenersOnOnePort(t *testing.T) {
	addr := inLab(t)
	l := listen(t, addr, ListenOptions{})
	if _, err := Listen(context.Background(), l.Addr().String(), ListenOptions{Options: labOptions()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	addr := inLab(t)
	host, _, _ := net.SplitHostPort(addr)
	_, err := To(context.Background(), net.JoinHostPort(host, "1"), SendOptions{
		Options: labOptions(), Layout: endless, Window: 300 * time.Millisecond,
	})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
}

// TestTwoNodesTransfer runs on both of two machines.
func TestTwoNodesTransfer(t *testing.T) {
	inLab(t)
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: run make test-lab")
	}
	layout := Layout{PageSize: 64 << 10, Pages: 256, Stride: 2, Seed: 11}
	addrs := strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")
	at := net.JoinHostPort(addrs[0], DefaultPort)
	var got outcome
	if os.Getenv("PEERDIRECT_NODE") == "0" {
		got = within(t, time.Minute, receive(listen(t, at, ListenOptions{})))
	} else {
		got.result, got.err = To(context.Background(), at, SendOptions{
			Options: labOptions(), Layout: layout, Iterations: 2, Window: 30 * time.Second,
		})
	}
	if got.err != nil || !got.result.Verified || got.result.Bytes != 2*layout.Bytes() {
		t.Fatalf("%v, %+v", got.err, got.result)
	}
	t.Logf("%s: %.1f MiB/s", got.result.Role, got.result.PerSecond/(1<<20))
}
