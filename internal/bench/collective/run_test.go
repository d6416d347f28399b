package collective

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

func small(sizes ...uint64) Options {
	return Options{Sizes: sizes, Rounds: 1, Duration: time.Millisecond, Timeout: patience}
}

// TestEmbedded: every operation by every path, sizes down to parts that are empty,
// compared, with two NICs a node.
func TestEmbedded(t *testing.T) {
	left := nothingLeft(t)
	fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 3, NICs: 2})
	if err != nil {
		t.Fatal(err)
	}
	o := small(4, 1000, 1<<20)
	var told []Progress
	o.Tell = func(p Progress) { told = append(told, p) }
	r, err := Embedded(t.Context(), o, fabric, nil)
	if err := errors.Join(err, fabric.Close()); err != nil {
		t.Fatal(err)
	}
	left()
	if len(r.Measurements) != 2*2*3*4 || !slices.Equal(r.Conditions.Nodes, []int{2, 3}) || !r.Conditions.Embedded || !r.Conditions.Verified {
		t.Errorf("%d measurements: %+v", len(r.Measurements), r.Conditions)
	}
	for _, m := range r.Measurements {
		if !(m.Seconds > 0 && m.Least <= m.Seconds && m.Seconds <= m.Most && m.BusGBs > 0 && m.Efficiency > 0) || (m.Path == Registered) != (m.Register > 0) {
			t.Errorf("%+v", m)
		}
	}
	if len(r.Hops) != 3 || len(r.Rails) != 6 || len(r.Verdict) == 0 {
		t.Errorf("%+v %+v %+v", r.Hops, r.Rails, r.Verdict)
	}
	for i, rail := range r.Rails {
		if rail.Node != i/2 || rail.Bytes == 0 {
			t.Errorf("rail %d: %+v", i, rail)
		}
	}
	if len(told) != 2*2*3 || told[0].Total != len(told) || told[len(told)-1].Done != len(told)-1 {
		t.Errorf("told %d times: %+v", len(told), told)
	}
}

// TestUnverified does not compare.
func TestUnverified(t *testing.T) {
	o := small(64)
	o.Unverified, o.Operations = true, []string{AllGather}
	c := newCluster(t, 2, o)
	c.o.damage = func(int, []float32) { t.Error("a result was looked at") }
	if err := errors.Join(c.run(c.within, 0, 1)...); err != nil {
		t.Error(err)
	}
}

// TestDifference: one wrong bit at one node is found, by which all end.
func TestDifference(t *testing.T) {
	left := nothingLeft(t)
	fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	o := small(1 << 10)
	o.damage = func(rank int, x []float32) {
		if rank == 2 {
			x[200] = -x[200]
		}
	}
	_, err = Embedded(t.Context(), o, fabric, nil)
	if !errors.Is(err, exchange.ErrVerification) || !strings.Contains(err.Error(), "node 2 ") || !strings.Contains(err.Error(), "element 200 ") {
		t.Errorf("%v", err)
	}
	fabric.Close()
	left()
}

// TestNodeLeaves: a node that ends in the middle ends all, and is named by them.
func TestNodeLeaves(t *testing.T) {
	for _, at := range []int{0, 3} {
		left := nothingLeft(t)
		leaving, leave := context.WithCancel(t.Context())
		o := small(64, 256, 1024)
		o.Nodes = []int{3}
		o.Tell = func(p Progress) {
			if p.Done == at {
				leave()
			}
		}
		c := newCluster(t, 3, o)
		errs := c.run(func(rank int) context.Context {
			if rank == 2 {
				return leaving
			}
			return c.within(rank)
		}, 0, 1, 2)
		for _, rank := range []int{0, 1} {
			if errs[rank] == nil || errors.Is(errs[rank], context.DeadlineExceeded) || !strings.Contains(errs[rank].Error(), "node 2 (127.0.0.1:3)") {
				t.Errorf("node %d: %v", rank, errs[rank])
			}
		}
		if !errors.Is(errs[2], context.Canceled) {
			t.Errorf("node 2: %v", errs[2])
		}
		c.fabric.Close()
		c.listen.Close()
		left()
	}
}

// TestLeaderLeaves: the others end, and name it.
func TestLeaderLeaves(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	o := small(64, 256)
	o.Tell = func(p Progress) {
		if p.Done == 1 {
			leave()
		}
	}
	c := newCluster(t, 2, o)
	errs := c.run(func(rank int) context.Context {
		if rank == 0 {
			return leaving
		}
		return c.within(rank)
	}, 0, 1)
	if !errors.Is(errs[0], context.Canceled) || errs[1] == nil || errors.Is(errs[1], context.DeadlineExceeded) || !strings.Contains(errs[1].Error(), "node 0 (") {
		t.Errorf("%v", errs)
	}
}

// TestNodeDoesNotCome: those that came end, and name the one that did not.
func TestNodeDoesNotCome(t *testing.T) {
	left := nothingLeft(t)
	c := newCluster(t, 3, small(64))
	c.wait = 3 * time.Second
	errs := c.run(c.within, 0, 1)
	for _, rank := range []int{0, 1} {
		if errs[rank] == nil || !strings.Contains(errs[rank].Error(), "node 2 (127.0.0.1:3)") && !(rank == 1 && strings.Contains(errs[1].Error(), "node 0 ")) {
			t.Errorf("node %d: %v", rank, errs[rank])
		}
	}
	c.listen.Close()
	if errs := c.run(c.within, 1); errs[1] == nil || !strings.Contains(errs[1].Error(), "node 0 (") {
		t.Errorf("without node 0: %v", errs[1])
	}
	c.fabric.Close()
	left()
}

// TestStrangers: nodes that do not belong are sent away with the reason, and those
// that do go on.
func TestStrangers(t *testing.T) {
	c := newCluster(t, 3, small(64))
	ended := make(chan []error, 1)
	go func() { ended <- c.run(c.within, 0) }()
	p := c.place(1)
	p.Peers = append(slices.Clone(p.Peers), "127.0.0.1:9")
	if err := follow(c.within(1), c.o, p); err == nil || !strings.Contains(err.Error(), "--peers") {
		t.Errorf("of another number: %v", err)
	}
	// Of two that say that they are node 1, the one that comes later is sent away.
	twice := make(chan error, 2)
	for range 2 {
		go func() { twice <- follow(c.within(1), c.o, c.place(1)) }()
	}
	if err := <-twice; err == nil || !strings.Contains(err.Error(), "another --rank") {
		t.Errorf("node 1 again: %v", err)
	}
	if err := errors.Join(c.run(c.within, 2)[2], <-twice, (<-ended)[0]); err != nil {
		t.Error(err)
	}
}

func TestWhatMakesNoSense(t *testing.T) {
	for _, o := range []Options{
		{Nodes: []int{1}}, {Nodes: []int{5}}, {Sizes: []uint64{6}}, {Sizes: []uint64{1 << 40}}, {Min: 8192, Max: 4096}, {Max: 1 << 62}, {Operations: []string{"broadcast"}},
		{Rounds: -1}, {Duration: time.Hour}, {Timeout: time.Millisecond},
	} {
		if o.Check(4) == nil {
			t.Errorf("%+v makes sense", o)
		}
	}
	for _, n := range []int{0, 1, maxNodes + 1} {
		if (Options{}).Check(n) == nil {
			t.Errorf("%d nodes make sense", n)
		}
	}
	for _, p := range []Place{{}, {Rank: 2, Peers: []string{"a:1", "b:1"}}, {Rank: -1, Peers: []string{"a:1"}}, {Peers: []string{"a"}}, {Peers: []string{"a:1"}, Wait: -1}} {
		if p.Check() == nil {
			t.Errorf("%+v makes sense", p)
		}
	}
}
