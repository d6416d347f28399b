package sim

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestSameSeedSameFigures, whatever the pattern; and another seed gives others.
func TestSameSeedSameFigures(t *testing.T) {
	for _, pattern := range Patterns() {
		run := func(seed uint64) *Figure {
			f, err := Simulate(context.Background(), Run{Shape: P6B200, Nodes: 6, Pattern: pattern, Pages: 20, Transfers: 20, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		a, b, other := run(1), run(1), run(2)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two runs of one seed:\n%+v\n%+v", pattern, a, b)
		}
		if a.Latency == other.Latency {
			t.Errorf("%s: two seeds, one latency: %+v", pattern, a.Latency)
		}
	}
}

// TestEachRequestEndsOnce: what was posted has come back, what was to land has
// landed, and each transfer was counted.
func TestEachRequestEndsOnce(t *testing.T) {
	r := Run{Shape: P5, Nodes: 5, Pattern: All, Pages: 30, Window: 8, Transfers: 50}
	if err := r.defaults(); err != nil {
		t.Fatal(err)
	}
	w, err := New(r.Shape, r.Nodes, r.Model, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	x := newTraffic(&r, w)
	if err := w.JoinAll(x.pairs); err != nil {
		t.Fatal(err)
	}
	x.stream()
	if x.err != nil {
		t.Fatal(x.err)
	}
	var sum Count
	var counted uint64
	for i, n := range w.nodes {
		for _, nic := range n.nics {
			c := nic.Count()
			sum.Posted, sum.Completed, sum.Failed = sum.Posted+c.Posted, sum.Completed+c.Completed, sum.Failed+c.Failed
			sum.Bytes, sum.Landed, sum.Notices = sum.Bytes+c.Bytes, sum.Landed+c.Landed, sum.Notices+c.Notices
		}
		for k := range w.nodes {
			if k != i {
				counted += n.Peer(k).Counter(1).Count()
			}
		}
	}
	transfers := uint64(x.finished)
	moved := transfers * 30 * r.Page
	want := Count{Posted: transfers * 31, Completed: transfers * 31, Bytes: moved, Landed: moved, Notices: transfers}
	if sum != want || counted != transfers {
		t.Errorf("%+v, and %d counted; want %+v", sum, counted, want)
	}
}

// TestLostNICIsFailedOver: a NIC's link goes while transfers are on their way. The
// engine does again by others what was on it; each byte is right, each transfer
// counts once, and the NIC carries again when its link is back.
func TestLostNICIsFailedOver(t *testing.T) {
	const size = 1 << 20
	for _, side := range []int{0, 1} {
		s := Shape{Name: "four", NICs: 4, Gbits: 100, Workers: 2}
		m := Model{Timeout: time.Millisecond}
		w := world(t, s, 2, m, Options{Bytes: size, Seed: uint64(side), Engine: engine.Options{CoolDown: 2 * time.Millisecond}})
		from, to := w.Node(0), w.Node(1)
		r := rand.New(rand.NewPCG(7, 7))
		for i := range from.Memory() {
			from.Memory()[i] = byte(r.Uint32())
		}
		hurt := w.Node(side).NIC(1)
		const transfers = 400
		begun, ended := 0, 0
		var next func()
		next = func() {
			if begun == transfers {
				return
			}
			begun++
			switch begun {
			case 100:
				hurt.Down(true)
			case 300:
				hurt.Down(false)
			}
			x, err := from.Write(1, engine.Move{Segments: []engine.Segment{{Length: size}}, Notify: engine.Counts(5)})
			if err != nil {
				t.Error(err)
				return
			}
			x.Then(func(err error) {
				ended++
				if err != nil {
					t.Error(err)
				}
				if !bytes.Equal(from.Memory(), to.Memory()) {
					t.Errorf("transfer %d: the bytes are not there", ended)
				}
				clear(to.Memory()[:ended%4096])
				// Time goes on between transfers, so that the link is away for more
				// than a cool-down.
				w.After(50*Microsecond, next)
			})
		}
		next()
		w.Run()
		if ended != transfers {
			t.Errorf("%d of %d transfers ended", ended, transfers)
		}
		if got := to.Peer(0).Counter(5).Count(); got != transfers {
			t.Errorf("%d notices for %d transfers", got, transfers)
		}
		var posted, completed, failed uint64
		for _, nic := range from.nics {
			c := nic.Count()
			posted, completed, failed = posted+c.Posted, completed+c.Completed, failed+c.Failed
		}
		if posted != completed || failed == 0 {
			t.Errorf("%d posted, %d completed, %d of them failed", posted, completed, failed)
		}
		if up := from.Peer(1).Up(); up != 4 {
			t.Errorf("%d rails are up in the end", up)
		}
		if losses := from.Engine().Stats()[1].Losses; losses == 0 {
			t.Error("the engine saw no loss")
		}
	}
}

// TestOrderOfEvents: by time, and of one time as they were scheduled.
func TestOrderOfEvents(t *testing.T) {
	var a agenda
	r := rand.New(rand.NewPCG(1, 1))
	for i := range int32(2000) {
		a.push(Time(r.IntN(100)), eventCall, i)
		if i%3 == 2 {
			a.pop()
		}
	}
	for last := a.pop(); len(a.events) > 0; {
		e := a.pop()
		if e.before(&last) {
			t.Fatalf("%+v comes after %+v", e, last)
		}
		last = e
	}
}

// TestRefused: runs that make no sense.
func TestRefused(t *testing.T) {
	for _, r := range []Run{
		{}, {Shape: Shape{NICs: 5, Workers: 2, Gbits: 1}}, {Shape: P5, Nodes: 1}, {Shape: P5, Pattern: "x"},
		{Shape: P5, Page: 2 << 20}, {Shape: P5, Pattern: Weights, Nodes: 3}, {Shape: P5, Window: -1},
		{Shape: P5, Model: Model{Latency: -1}}, {Shape: P5, Model: Model{Oversubscribed: 0.5}},
	} {
		if f, err := Simulate(context.Background(), r); err == nil {
			t.Errorf("%+v gave %+v", r, f)
		}
	}
}

// BenchmarkRequest is what a simulated request costs this machine.
func BenchmarkRequest(b *testing.B) {
	b.ReportAllocs()
	f, err := Simulate(context.Background(), Run{Shape: P5, Transfers: max(b.N/78, 5)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(f.OfLimit, "of-limit")
}
