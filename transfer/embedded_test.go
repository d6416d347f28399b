package transfer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// embedded makes nodes, and checks that nothing is left of them in the end.
func embedded(t *testing.T, o EmbeddedOptions) *Embedded {
	t.Helper()
	o.Seed = 1
	objects, memory, goroutines := efa.Live(), verbs.Live(), runtime.NumGoroutine()
	e, err := NewEmbedded(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := len(e.Fabric().Devices()); n > 0 {
			t.Errorf("%d devices are left on the fabric", n)
		}
		e.Close()
		if diff := cmp.Diff(objects, efa.Live()); diff != "" {
			t.Errorf("objects of EFA before and after:\n%s", diff)
		}
		if diff := cmp.Diff(memory, verbs.Live()); diff != "" {
			t.Errorf("objects of verbs before and after:\n%s", diff)
		}
		deadline := time.Now().Add(30 * time.Second)
		for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines, there were %d:\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	})
	return e
}

func TestPagesArriveBetweenEmbeddedNodes(t *testing.T) {
	for _, nics := range []int{1, 4} {
		for name, o := range map[string]SendOptions{
			"Scattered":  {Layout: Layout{PageSize: 64 << 10, Pages: 64, Stride: 2, Seed: 1}, Iterations: 3},
			"SmallPages": {Layout: Layout{PageSize: 64, Pages: 3000, Stride: 3, Seed: 7}, Batch: 64, Depth: 512},
			"Contiguous": {Layout: Layout{PageSize: 4096, Pages: 1000, Stride: 1}},
			"OnePage":    {Layout: Layout{PageSize: 64, Pages: 1, Stride: 1}, Batch: 1, Depth: 1},
		} {
			t.Run(fmt.Sprintf("%s/%d", name, nics), func(t *testing.T) {
				e := embedded(t, EmbeddedOptions{NICs: nics})
				o.Timeout = 20 * time.Second
				sent, received, err := e.Transfer(t.Context(), 1, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range []*Result{sent, received} {
					c := r.Conditions
					if !r.Verified || r.Bytes != o.Layout.Bytes()*uint64(max(o.Iterations, 1)) || r.Seconds <= 0 ||
						c.NICs != nics || c.Transport != "EFA SRD" || !c.Embedded || c.Path != "direct" {
						t.Errorf("%+v", r)
					}
				}
				if sent.Checksum != received.Checksum || sent.Notices != received.Notices || sent.Latency == nil ||
					sent.LinkSent+received.LinkReceived != 0 || sent.ControlSent == 0 || sent.ControlSent > 16<<10 || sent.ControlSent != received.ControlReceived {
					t.Errorf("%+v\n%+v", sent, received)
				}
			})
		}
	}
}

func TestADamagedPageBetweenEmbeddedNodesIsNamed(t *testing.T) {
	e := embedded(t, EmbeddedOptions{NICs: 2})
	l := Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 3}
	at := l.TargetSlots()(42)*4096 + 1000
	sent, received, err := e.transfer(t.Context(), 0, 1, SendOptions{Layout: l},
		ListenOptions{corrupt: func(mem []byte) { mem[at] ^= 4 }})
	var v *VerifyError
	if !errors.As(err, &v) || fmt.Sprint(v.First) != "[42]" || sent.BadPages != 1 || received.BadPages != 1 || received.PageOK[42] {
		t.Errorf("%v\n%+v\n%+v", err, sent, received)
	}
}

func TestWhatEmbeddedNodesRefuse(t *testing.T) {
	e := embedded(t, EmbeddedOptions{})
	good := Layout{PageSize: 4096, Pages: 10, Stride: 1}
	bad := good
	bad.PageSize = 5000
	for name, c := range map[string]struct {
		from, to int
		layout   Layout
		option   string
	}{
		"PageSize":    {1, 0, bad, "pages"},
		"OneNode":     {1, 1, good, "device"},
		"NoSuchNode":  {2, 0, good, "device"},
		"NoSuchOther": {0, -1, good, "device"},
	} {
		var wrong *OptionError
		if _, _, err := e.Transfer(t.Context(), c.from, c.to, SendOptions{Layout: c.layout}); !errors.As(err, &wrong) || wrong.Option != c.option {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, received, err := e.transfer(t.Context(), 1, 0, SendOptions{Layout: good}, ListenOptions{MaxBytes: 4096})
	if !errors.Is(err, ErrLimit) || received == nil {
		t.Errorf("over the limit: %v", err)
	}
}

// during runs something once, between two rounds of pages.
func during(f func()) func(Progress) {
	var once sync.Once
	return func(p Progress) {
		if p.Stage == StageFill && p.Iteration > 0 {
			once.Do(f)
		}
	}
}

// long goes on until something ends it.
var long = SendOptions{Layout: Layout{PageSize: 4 << 10, Pages: 256, Stride: 2, Seed: 5}, Iterations: maxIterations}

func TestATransferThatAFaultEnds(t *testing.T) {
	for name, c := range map[string]struct {
		fault device.FaultPlan
		want  efa.Status
	}{
		"Unresponsive": {device.FaultPlan{Unresponsive: true}, efa.StatusUnresponsive},
		"LinkDown":     {device.FaultPlan{LinkDown: true}, efa.StatusUnresponsive},
		"WrongKey":     {device.FaultPlan{CorruptKey: 1}, efa.StatusRemoteAddress},
		"Abort":        {device.FaultPlan{Abort: 1}, efa.StatusRemoteAbort},
	} {
		t.Run(name, func(t *testing.T) {
			e := embedded(t, EmbeddedOptions{NICs: 2})
			o := long
			o.Timeout = 30 * time.Second
			var start time.Time
			o.Tell = during(func() {
				e.Fabric().Faults().Set(c.fault)
				start = time.Now()
			})
			sent, received, err := e.Transfer(t.Context(), 1, 0, o)
			var lost *LostError
			var status *efa.CompletionError
			if !errors.As(err, &lost) || !errors.As(err, &status) || status.Status != c.want {
				t.Errorf("ended with %v, want status %v", err, c.want)
			}
			if took := time.Since(start); took > o.Timeout {
				t.Errorf("after %v", took)
			}
			for _, r := range []*Result{sent, received} {
				if r == nil || !strings.Contains(r.Error, lost.Err.Error()) {
					t.Errorf("one side does not know why: %+v", r)
				}
			}
		})
	}
}

// opened gives the rail that a transfer opens last.
type opened struct {
	Opener
	rail *Rail
}

func (o opened) Open(w Want) (Rail, error) {
	r, err := o.Opener.Open(w)
	*o.rail = r
	return r, err
}

// TestANICThatGoesSilent is of two: the other still works, and the transfer
// ends all the same.
func TestANICThatGoesSilent(t *testing.T) {
	e := embedded(t, EmbeddedOptions{NICs: 2})
	var receiver Rail
	o := long
	o.Timeout, o.Rail = 30*time.Second, e.Node(1)
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{Options: Options{Timeout: o.Timeout, Rail: opened{e.Node(0), &receiver}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan error, 1)
	go func() {
		_, err := l.Receive(context.Background())
		got <- err
	}()
	var start time.Time
	o.Tell = during(func() {
		receiver.(*Joined).members[1].rail.(*EFA).dev.Device().Faults().Set(device.FaultPlan{Unresponsive: true})
		start = time.Now()
	})
	_, err = To(t.Context(), l.Addr().String(), o)
	theirs := <-got
	var lost *LostError
	if !errors.As(err, &lost) || lost.Device != "efa_1" {
		t.Errorf("the sender: %v", err)
	}
	if theirs == nil || !strings.Contains(theirs.Error(), lost.Error()) {
		t.Errorf("the receiver: %v", theirs)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("after %v", took)
	}
}

func TestATransferSurvivesWhatSRDRepairs(t *testing.T) {
	e := embedded(t, EmbeddedOptions{NICs: 3})
	e.Fabric().Faults().Set(device.FaultPlan{Seed: 9, Loss: 0.02, Duplicate: 0.02, Delay: 0.05, AckLoss: 0.02, RNR: 0.02})
	o := SendOptions{Layout: Layout{PageSize: 16 << 10, Pages: 200, Stride: 2, Seed: 4}, Iterations: 3}
	o.Timeout = 30 * time.Second
	sent, received, err := e.Transfer(t.Context(), 1, 0, o)
	if err != nil || !sent.Verified || !received.Verified || sent.Checksum != received.Checksum {
		t.Errorf("%v\n%+v\n%+v", err, sent, received)
	}
	if n := e.Fabric().Faults().Counts().Total(); n < 50 {
		t.Errorf("only %d faults were injected", n)
	}
}

func TestAnInterruptEndsBothEmbeddedNodes(t *testing.T) {
	e := embedded(t, EmbeddedOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := long
	o.Timeout = 30 * time.Second
	o.Tell = during(cancel)
	if _, _, err := e.Transfer(ctx, 1, 0, o); !errors.Is(err, ErrCancelled) {
		t.Errorf("%v", err)
	}
}

// TestFewerNICsOnOneSide: the smaller number is used.
func TestFewerNICsOnOneSide(t *testing.T) {
	e := embedded(t, EmbeddedOptions{NICs: 4})
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{Options: Options{Rail: e.Node(0).(NICs)[:3]}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan *Result, 1)
	go func() {
		r, _ := l.Receive(context.Background())
		got <- r
	}()
	sent, err := To(t.Context(), l.Addr().String(), SendOptions{Options: Options{Rail: e.Node(1)}, Layout: Layout{PageSize: 4096, Pages: 64, Stride: 2, Seed: 1}})
	if r := <-got; err != nil || sent.Conditions.NICs != 3 || r.Conditions.NICs != 3 || !r.Verified {
		t.Errorf("%v: %+v, %+v", err, sent, r)
	}
}

// TestTwoFabrics: the devices of two processes reach each other through a link.
func TestTwoFabrics(t *testing.T) {
	here, there := embedded(t, EmbeddedOptions{NICs: 2}), embedded(t, EmbeddedOptions{NICs: 2})
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{Options: Options{Rail: here.Node(0)}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		*Result
		err error
	}
	got := make(chan result, 1)
	for round := range 2 {
		go func() {
			r, err := l.Receive(context.Background())
			got <- result{r, err}
		}()
		sent, err := To(t.Context(), l.Addr().String(), SendOptions{Options: Options{Rail: there.Node(0)}, Layout: long.Layout, Iterations: 3})
		r := <-got
		if err != nil || r.err != nil {
			t.Fatalf("round %d: %v, %v", round, err, r.err)
		}
		if !sent.Verified || !r.Verified || sent.Checksum != r.Checksum || r.Conditions.NICs != 2 || r.Bytes != 3*long.Layout.Bytes() {
			t.Errorf("round %d: %+v\n%+v", round, sent, r.Result)
		}
		// The pages did go through TCP, and the results say so.
		if sent.LinkSent < sent.Bytes || r.LinkReceived < sent.Bytes || sent.LinkReceived > sent.Bytes {
			t.Errorf("round %d: through the link %d and %d bytes for %d", round, sent.LinkSent, r.LinkReceived, sent.Bytes)
		}
	}
}

// TestKindsThatDoNotConnect: a side with another kind of rail is told so before
// anything is opened for it.
func TestKindsThatDoNotConnect(t *testing.T) {
	e := embedded(t, EmbeddedOptions{})
	warned := make(chan error, 1)
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenOptions{Options: Options{Rail: e.Node(0)}, Warn: func(err error) { warned <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := exchange.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _, err = greet(t.Context(), conn, "test", hello{Kind: KindRC, NICs: 1, Queues: 1})
	for _, err := range []error{err, <-warned} {
		if !errors.Is(err, exchange.ErrMismatch) || !strings.Contains(err.Error(), "--device") {
			t.Errorf("%v", err)
		}
	}
}

func TestNamesOfEmbeddedDevices(t *testing.T) {
	for name, want := range map[string]EmbeddedOptions{
		"embedded": {}, "embedded:nodes=3": {Nodes: 3},
		"embedded:nics=4,nodes=2,latency=20us,gbps=12.5,seed=0x10": {Nodes: 2, NICs: 4, Latency: 20 * time.Microsecond, Gbps: 12.5, Seed: 16},
	} {
		if got, ok, err := ParseEmbedded(name); got != want || !ok || err != nil {
			t.Errorf("%s: %+v, %v, %v", name, got, ok, err)
		}
	}
	for _, name := range []string{"", "rxe0", "efa_0,efa_1", "embedded0"} {
		if _, ok, err := ParseEmbedded(name); ok || err != nil {
			t.Errorf("%s is embedded: %v", name, err)
		}
	}
	for _, name := range []string{"embedded:", "embedded:nodes=0", "embedded:nodes=2,", "embedded:nics=65", "embedded:nics=x", "embedded:speed=1",
		"embedded:gbps=NaN", "embedded:gbps=-1", "embedded:latency=2h", "embedded:latency=5", "embedded:seed=-1"} {
		var wrong *OptionError
		if _, ok, err := ParseEmbedded(name); !ok || !errors.As(err, &wrong) || wrong.Option != "device" {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}
