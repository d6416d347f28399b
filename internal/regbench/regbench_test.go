package regbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// leavesNothing checks at the end of the test that no object and no descriptor
// is open that was not.
func leavesNothing(t *testing.T) {
	t.Helper()
	held := func() string {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("verbs %v efa %v dmabuf %v descriptors %d", verbs.Live(), efa.Live(), dmabuf.Live(), len(fds))
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close() // the runtime opens its poller with the first, for good
	}
	before := held()
	t.Cleanup(func() {
		if diff := cmp.Diff(before, held()); diff != "" {
			t.Errorf("before and after:\n%s", diff)
		}
	})
}

func embedded(t *testing.T, nics int) transfer.Opener {
	t.Helper()
	leavesNothing(t)
	e, err := transfer.NewEmbedded(transfer.EmbeddedOptions{NICs: nics, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.Node(0)
}

// whole checks that a report has every value, and that they can be.
func whole(t *testing.T, r *Report, sizes, shares int) {
	t.Helper()
	if want := sizes * (2 + shares); len(r.Rows) != want {
		t.Errorf("%d rows, want %d", len(r.Rows), want)
	}
	for _, row := range r.Rows {
		u := row.Use
		if row.Uses == 0 || u.Min < 0 || u.Min > u.Median || u.Median > u.Max || u.Max == 0 {
			t.Errorf("%+v", row)
		}
		if (row.Register != nil) != (row.Strategy == StrategyEach || row.Strategy == StrategyPool && row.Size == r.Conditions.Pool) {
			t.Errorf("parts of a use: %+v", row)
		}
		if row.Strategy == StrategyCached && *row.Measured != float64(*row.Hits) {
			t.Errorf("%d %% hits were to be, the cache counted %v", *row.Hits, *row.Measured)
		}
		if (row.PaysAfter > 0) != (row.Strategy == StrategyPool) {
			t.Errorf("pays after: %+v", row)
		}
	}
	g := r.Growth
	if len(g.Rows) != bucket(g.Pieces-1)+1 || g.Ascending.Median <= 0 || g.Descending.Median <= 0 || g.Rows[0].Registered != 0 {
		t.Errorf("%+v", g)
	}
	var table bytes.Buffer
	if err := Table(&table, r); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
}

func TestRegistrationOnAnEmbeddedDevice(t *testing.T) {
	for _, nics := range []int{1, 3} {
		t.Run(fmt.Sprint(nics), func(t *testing.T) {
			var told []Progress
			r, err := Run(t.Context(), Options{Rail: embedded(t, nics), Max: 300 << 10, Runs: 3, Each: time.Millisecond, Hits: []int{0, 99, 37, 100, 37},
				Tell: func(p Progress) { told = append(told, p) }})
			if err != nil {
				t.Fatal(err)
			}
			whole(t, r, 5, 4) // 4, 16, 64, 256 and 300 KiB
			c := r.Conditions
			if !c.Embedded || c.NICs != nics || c.Memory != "host" || c.Pool != 300<<10 || c.PoolBy != "--max" || c.Runs != 3 {
				t.Errorf("%+v", c)
			}
			if last := told[len(told)-1]; last.Done+1 != last.Total || len(told) != last.Total {
				t.Errorf("%d values were told, the last as %+v", len(told), last)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var again Report
			if err := json.Unmarshal(text, &again); err != nil || len(again.Rows) != len(r.Rows) {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// TestAnInterruptEndsIt wherever it comes, at once, and with nothing registered.
func TestAnInterruptEndsIt(t *testing.T) {
	for _, at := range []int{0, 1, 3, 8, 14, 15, 16} {
		rail := embedded(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked atomic.Bool
		late := 0 // values that begin after the interrupt
		r, err := Run(ctx, Options{Rail: rail, Max: 16 << 10, Runs: 2, Each: 50 * time.Millisecond, Tell: func(p Progress) {
			if asked.Load() {
				late++
			}
			if p.Done == at {
				time.AfterFunc(5*time.Millisecond, func() {
					cancel()
					asked.Store(true)
				})
			}
		}})
		if !errors.Is(err, transfer.ErrCancelled) || r != nil {
			t.Errorf("at value %d: %v", at, err)
		}
		if late > 1 { // one that was about to be told
			t.Errorf("at value %d: %d more began", at, late)
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	rail := embedded(t, 1)
	for option, o := range map[string]Options{
		"min":  {Min: 5000},
		"max":  {Max: 1000},
		"runs": {Runs: -1},
		"time": {Each: -1},
		"hits": {Hits: []int{101}},
	} {
		o.Rail = rail
		var wrong *transfer.OptionError
		if _, err := Run(t.Context(), o); !errors.As(err, &wrong) || wrong.Option != option {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// narrow are devices that take small regions only.
type narrow struct{ transfer.Opener }

func (n narrow) Open(w transfer.Want) (transfer.Rail, error) {
	r, err := n.Opener.Open(w)
	return narrowRail{r}, err
}

type narrowRail struct{ transfer.Rail }

func (n narrowRail) Info() transfer.Info {
	i := n.Rail.Info()
	i.MaxRegion = 32 << 10
	return i
}

// TestWhatTheDeviceTakes bounds the sizes; where more was asked for, nothing
// smaller is measured instead.
func TestWhatTheDeviceTakes(t *testing.T) {
	o := Options{Rail: narrow{embedded(t, 1)}, Runs: 1, Each: time.Millisecond}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Conditions; c.Pool != 16<<10 || c.PoolBy != "max_mr_size of efa_0" {
		t.Errorf("%+v", c)
	}
	o.Max = 64 << 10
	var wrong *transfer.OptionError
	if _, err := Run(t.Context(), o); !errors.As(err, &wrong) || wrong.Option != "max" || !strings.Contains(err.Error(), "max_mr_size of efa_0 is 32768") {
		t.Errorf("%v", err)
	}
}

// none is an exporter that is not there.
type none struct{ dmabuf.Exporter }

func (none) Name() string { return "none" }
func (none) Available() error {
	return &dmabuf.Error{Op: "open", Exporter: "none", Err: dmabuf.ErrNoDevice}
}

func TestMemoryThatIsNotThere(t *testing.T) {
	if _, err := Run(t.Context(), Options{Rail: embedded(t, 1), Memory: none{}}); !errors.Is(err, dmabuf.ErrNoDevice) {
		t.Errorf("%v", err)
	}
}

// TestTheTable is made of fixed numbers: a NIC that takes 10 us and 0.1 us for
// each page.
func TestTheTable(t *testing.T) {
	const all = 64 << 20
	one, three := []float64{1}, []float64{1.1, 1, 0.9}
	var text bytes.Buffer
	for _, r := range []*Report{fixed(all, []int{0, 50, 90, 99, 100}, three), fixed(all, []int{50, 90}, one), fixed(all, []int{75}, one), fixed(all, nil, one)} {
		if err := Table(&text, r); err != nil {
			t.Fatal(err)
		}
		text.WriteString("\n")
	}
	for line := range strings.Lines(text.String()) {
		if len(line) > 81 {
			t.Errorf("does not fit into 80 columns: %s", line)
		}
	}
	golden.Check(t, "table.txt", text.Bytes())
	b, err := json.MarshalIndent(fixed(all, []int{0, 99}, three), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "report.json", append(b, '\n'))
}

// fixed is the report of such a NIC, whose runs differ by factors.
func fixed(all uint64, shares []int, runs []float64) *Report {
	b := &bench{pool: &pool{size: all}, r: &Report{Schema: Schema, Conditions: Conditions{
		Device: "efa_0", NICs: 1, Transport: "EFA SRD", MaxRegion: 1 << 40, Memory: "accel:0", Pool: all, PoolBy: "--max", Runs: len(runs), EachMilli: 20,
		Kernel: "7.3.4+deb13-amd64", Arch: "amd64", CPUs: 2,
	}}}
	m := newSamples()
	for _, noise := range runs {
		cost := func(size uint64) float64 { return noise * (10_000 + 100*float64(size/4096)) }
		for size := uint64(4096); size <= all; size *= 4 {
			each := key{strategy: StrategyEach, size: size}
			m.add(each, 1.5*cost(size), 100)
			m.split(each, time.Duration(cost(size)*100), time.Duration(cost(size)*50), 100)
			for _, hits := range shares {
				k := key{StrategyCached, size, hits}
				m.add(k, 30*noise+1.5*cost(size)*float64(100-hits)/100, 1000)
				m.hit(k, uint64(hits), uint64(100-hits))
			}
			find := key{strategy: StrategyPool, size: size}
			if size == all {
				m.add(find, 1.5*cost(size), 5)
				m.split(find, time.Duration(cost(size)*5), time.Duration(cost(size)*2.5), 5)
				continue
			}
			m.add(find, 2*noise, 100_000)
		}
		for _, ascending := range []bool{true, false} {
			took := make([]time.Duration, growthPieces)
			for i := range took {
				took[i] = time.Duration(cost(all/growthPieces) * (1 + float64(i)/20))
				if !ascending {
					took[i] *= 2
				}
			}
			m.grown(ascending, all/growthPieces, took)
		}
	}
	m.enter(b)
	return b.r
}

func TestACycleHasTheShare(t *testing.T) {
	for hits := range 101 {
		n, owed, missed := cycle(hits), 0, 0
		for range n {
			if owed += 100 - hits; owed >= 100 {
				owed -= 100
				missed++
			}
		}
		if owed != 0 || missed*100 != (100-hits)*n {
			t.Errorf("%d %%: %d of %d missed", hits, missed, n)
		}
	}
	if got := []int{cycle(0), cycle(50), cycle(90), cycle(99), cycle(100)}; !slices.Equal(got, []int{1, 2, 10, 100, 1}) {
		t.Errorf("%v", got)
	}
}
