package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// traffic is a run on its way.
type traffic struct {
	r     *Run
	w     *World
	rand  *rand.Rand
	pairs [][2]int // that join
	from  []int    // nodes that write
	begun []int    // transfers of each of them
	pages []uint32

	warm, most int // transfers in all: before the measured ones, and with them
	finished   int
	begin, end counts
	times      []Time
	posting    []Time
	called     []Time
	err        error
}

// counts are what was counted up to a time, of the nodes that write.
type counts struct {
	at     Time
	posted uint64
	bytes  uint64 // that are known to be in place
	busy   Time
}

func newTraffic(r *Run, w *World) *traffic {
	t := &traffic{r: r, w: w, rand: rand.New(rand.NewPCG(r.Seed, 1))}
	for i := range r.Pages {
		t.pages = append(t.pages, uint32(i))
	}
	each := r.Transfers
	switch r.Pattern {
	case Pair, Scatter:
		t.from = []int{0}
		for i := range r.Nodes - 1 {
			t.pairs = append(t.pairs, [2]int{0, i + 1})
		}
	case All:
		for i := range r.Nodes {
			t.from = append(t.from, i)
			for k := range i {
				t.pairs = append(t.pairs, [2]int{i, k})
			}
		}
	case Weights:
		for i := range r.Nodes / 2 {
			t.from = append(t.from, i)
			for k := range r.Nodes / 2 {
				t.pairs = append(t.pairs, [2]int{i, r.Nodes/2 + k})
			}
		}
		each = r.Nodes / 2
	}
	t.begun = make([]int, len(t.from))
	switch r.Pattern {
	case Scatter:
		t.warm = max(each/5, 1)
	case Pair, All: // those that all began at once are over, and what is on its way is spread
		t.warm = max(each/5, r.Window) * len(t.from)
	}
	t.most = t.warm + each*len(t.from)
	return t
}

// target is to whom a node's next transfer goes; false if there is none.
func (t *traffic) target(source int) (int, bool) {
	n := t.begun[source]
	t.begun[source]++
	half := t.r.Nodes / 2
	switch t.r.Pattern {
	case All:
		to := t.rand.IntN(t.r.Nodes - 1)
		if to >= t.from[source] {
			to++
		}
		return to, true
	case Weights:
		return half + (source+n)%half, n < half
	}
	return 1, true
}

// write begins a transfer, and has then called when it has ended.
func (t *traffic) write(from, to int, then func()) {
	pages := engine.Pages{Index: t.pages}
	x, err := t.w.nodes[from].Write(to, engine.Move{PageSize: t.r.Page, LocalPages: pages, RemotePages: pages, Notify: engine.Counts(1)})
	if err != nil {
		t.fail(from, to, err)
		return
	}
	x.Then(func(err error) {
		if err != nil {
			t.fail(from, to, err)
			return
		}
		then()
	})
}

func (t *traffic) fail(from, to int, err error) {
	if t.err == nil {
		t.err = fmt.Errorf("from node %d to node %d: %w", from, to, err)
	}
}

func (t *traffic) counts() counts {
	c := counts{at: t.w.Now()}
	for _, from := range t.from {
		n := t.w.nodes[from]
		for _, nic := range n.nics {
			c.posted += nic.count.Posted
			c.bytes += nic.count.Bytes
		}
		for _, core := range n.cores {
			c.busy += core.busy
		}
	}
	return c
}

// measured tells whether what ends now is measured, and notes when that begins and
// ends.
func (t *traffic) measured() bool {
	t.finished++
	switch t.finished {
	case t.warm:
		t.begin = t.counts()
	case t.most:
		t.end = t.counts()
	}
	return t.finished > t.warm && t.finished <= t.most
}

// stream has each node keep a window of transfers on their way.
func (t *traffic) stream() {
	if t.warm == 0 {
		t.begin = t.counts()
	}
	for source := range t.from {
		for range t.r.Window {
			t.next(source)
		}
	}
	t.w.Run()
	t.short()
}

func (t *traffic) next(source int) {
	if t.finished >= t.most || t.err != nil {
		return
	}
	to, ok := t.target(source)
	if !ok {
		return
	}
	at := t.w.Now()
	t.write(t.from[source], to, func() {
		if t.measured() {
			t.times = append(t.times, t.w.Now()-at)
		}
		t.next(source)
	})
}

// scatter writes to all peers at once, round by round.
func (t *traffic) scatter() {
	var at, first, last Time
	t.w.posted = func(n *NIC, op *transfer.Op) {
		if op.Local.Length > 0 {
			last = n.core.clock
			if first == 0 {
				first = last
			}
		}
	}
	var round func()
	left := 0
	round = func() {
		at, first, left = t.w.Now(), 0, t.r.Nodes-1
		for to := 1; to < t.r.Nodes; to++ {
			t.write(0, to, func() {
				if left--; left > 0 {
					return
				}
				if t.measured() {
					t.times = append(t.times, t.w.Now()-at)
					t.posting = append(t.posting, last-first)
					t.called = append(t.called, last-at)
				}
				if t.finished < t.most && t.err == nil {
					t.w.After(0, round)
				}
			})
		}
	}
	t.w.After(0, round)
	t.w.Run()
	t.short()
}

// short finds a run that came to a standstill.
func (t *traffic) short() {
	if t.finished < t.most && t.err == nil {
		t.err = fmt.Errorf("nothing is to come, and %d of %d transfers have ended", t.finished, t.most)
	}
}

func (t *traffic) figure() *Figure {
	r := t.r
	f := &Figure{Run: *r, Limit: r.limit(), Transfers: t.most - t.warm, Latency: spread(t.times), Posting: spread(t.posting), Called: spread(t.called)}
	took := t.end.at - t.begin.at
	f.Elapsed = took.Duration()
	nodes := float64(len(t.from))
	bits := float64(t.end.bytes-t.begin.bytes) * 8
	f.Gbits = bits / nodes / took.Seconds() / 1e9
	f.OfLine = f.Gbits * 1e9 / r.Shape.Rate()
	f.OfLimit = f.Gbits / f.Limit.Gbits
	posted := float64(t.end.posted - t.begin.posted)
	busy := t.end.busy - t.begin.busy
	f.Requests = posted / nodes / took.Seconds()
	f.PerCore = posted / busy.Seconds()
	f.Busy = busy.Seconds() / took.Seconds() / nodes / float64(r.Shape.Workers)
	return f
}
