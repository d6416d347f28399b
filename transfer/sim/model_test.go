package sim

import (
	"context"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// one is a node with one NIC and one worker.
var one = Shape{Name: "one", NICs: 1, Gbits: 100, Workers: 1}

// steady is a fabric without jitter, so that times are known.
var steady = Model{Jitter: -1}

const page = 64 << 10

// world joins node 0 with each of the others.
func world(t *testing.T, s Shape, nodes int, m Model, o Options) *World {
	t.Helper()
	w, err := New(s, nodes, m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := 1; i < nodes; i++ {
		if err := w.Join(0, i); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// begin writes pages and tells, once the world has run, how long it took.
func begin(t *testing.T, w *World, from, to int, pages int, size uint64, n engine.Notify) (took *Time) {
	t.Helper()
	index := engine.Pages{Index: make([]uint32, pages)}
	for i := range pages {
		index.Index[i] = uint32(i)
	}
	at := w.Now()
	x, err := w.Node(from).Write(to, engine.Move{PageSize: size, LocalPages: index, RemotePages: index, Notify: n})
	if err != nil {
		t.Fatal(err)
	}
	took = new(Time)
	x.Then(func(err error) {
		if err != nil {
			t.Error(err)
		}
		*took = w.Now() - at
	})
	return took
}

// TestKnownTimes: transfers over one NIC take what the model's parts add up to.
func TestKnownTimes(t *testing.T) {
	p := Costs{}.filled().prices()
	request, latency := 950*Nanosecond, 8*Microsecond
	post := p.step + p.command + p.poll + p.doorbell + p.post // until the first request goes out
	found := p.step + p.poll + p.completion                   // from a completion until it is known
	wire := 5242880 * Time(1)                                 // 64 KiB at 100 Gbit/s
	for _, test := range []struct {
		name  string
		pages int
		size  uint64
		want  Time
	}{
		{"a page: its bytes and the way there and back", 1, page, post + wire + 2*latency + found},
		{"16 pages: one behind the other", 16, page, post + 16*wire + 2*latency + found},
		{"one byte: a request's time", 1, 1, post + request + 2*latency + found},
		{"16 small pages: as many requests", 16, 1024, post + 16*request + 2*latency + found},
	} {
		w := world(t, one, 2, steady, Options{})
		took := begin(t, w, 0, 1, test.pages, test.size, engine.Notify{})
		w.Run()
		if *took != test.want {
			t.Errorf("%s: %v, want %v", test.name, took.Duration(), test.want.Duration())
		}
	}
}

func (c Costs) filled() Costs {
	m := Model{Costs: c}
	if err := m.defaults(one); err != nil {
		panic(err)
	}
	return m.Costs
}

// TestNoticeFollows: the target counts when the bytes are known to be there, not
// before.
func TestNoticeFollows(t *testing.T) {
	w := world(t, one, 2, steady, Options{})
	at, counted := w.Now(), Time(0)
	w.Node(1).Peer(0).Counter(3).Call(1, func() { counted = w.Now() - at })
	took := begin(t, w, 0, 1, 4, page, engine.Counts(3))
	w.Run()
	bytes := 4*one.wire(page) + 2*Of(8*time.Microsecond) // until their last completion
	if counted < bytes+Of(8*time.Microsecond) || *took < counted {
		t.Errorf("counted after %v, ended after %v; the bytes alone take %v", counted.Duration(), took.Duration(), bytes.Duration())
	}
}

// TestIncast: however many send to one port, it takes them at its own rate, and
// is not idle before the last.
func TestIncast(t *testing.T) {
	const senders, pages = 8, 16
	w := world(t, one, 1+senders, steady, Options{})
	at := w.Now()
	for i := range senders {
		begin(t, w, 1+i, 0, pages, page, engine.Notify{})
	}
	w.Run()
	took := w.Now() - at
	least := senders*pages*one.wire(page) + 2*Of(8*time.Microsecond)
	if took < least || took > least+2*Microsecond {
		t.Errorf("%v; the port takes %v", took.Duration(), least.Duration())
	}
}

// TestUtilisation: streams come to the limit of what binds them, and not beyond.
func TestUtilisation(t *testing.T) {
	small := Shape{Name: "small", NICs: 4, Gbits: 100, Workers: 2}
	for _, test := range []struct {
		run   Run
		by    string
		limit float64 // of the line, in closed form
		least float64 // of the limit
	}{
		// 64 pages of 5.243 us, and the notice's 0.95 us.
		{Run{Page: page}, "line", 64 * 5242.88 / (64*5242.88 + 950), 0.97},
		// 64 times 0.95 us for 82 ns of bytes, and the notice.
		{Run{Page: 1 << 10}, "requests", 64 * 81.92 / (65 * 950), 0.95},
		// Two nodes of which one writes, a core a quarter of both.
		{Run{Page: page, Model: Model{Oversubscribed: 4}}, "core", 0.5, 0.98},
		// Two cores, at prices of which a page's would be 105 us.
		{Run{Page: page, Model: Model{Costs: Costs{Factor: 1000}}}, "CPU",
			2 * 64 * 5242.88 / 4 / (1000 * (145 + 65*(60+42) + 65*75./16)), 0.8},
		// One transfer at a time, of one page, which goes whole, with its notice.
		{Run{Page: page, Pages: 1, Window: 1, Model: Model{Costs: Costs{Factor: 1e-3}}}, "window",
			5242.88 / 4 / (5242.88 + 2*8000), 0.85},
		// Of four pages, whose notice follows.
		{Run{Page: page, Pages: 4, Window: 1, Model: Model{Costs: Costs{Factor: 1e-3}}}, "window",
			4 * 5242.88 / 4 / (5242.88 + 950 + 4*8000), 0.85},
	} {
		test.run.Shape = small
		f, err := Simulate(context.Background(), test.run)
		if err != nil {
			t.Fatal(err)
		}
		limit := f.Limit.Gbits / 400
		if f.Limit.By != test.by || limit < 0.99*test.limit || limit > 1.01*test.limit {
			t.Errorf("%s: the limit is %.4f of the line, by %s; want %.4f", test.by, limit, f.Limit.By, test.limit)
		}
		if f.OfLimit < test.least || f.OfLimit > 1.002 {
			t.Errorf("%s: %.4f of the limit", test.by, f.OfLimit)
		}
		if f.Latency.P50 < f.Limit.Alone || f.Latency.P999 < f.Latency.P50 {
			t.Errorf("%s: latency %v, alone %v", test.by, f.Latency, f.Limit.Alone)
		}
	}
}
