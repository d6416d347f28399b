package transfer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
)

// joinedPair are two connected rails of several NICs with a region each.
type joinedPair struct {
	net    *fakeNet
	rail   [2]*Joined
	peer   Peer
	region [2]*Region
}

func newJoinedPair(t *testing.T, nics int) *joinedPair {
	t.Helper()
	p := &joinedPair{net: newFakeNet()}
	for i := range p.rail {
		p.rail[i] = joinFakes(t, p.net, nics, fakeOptions{depth: 16})
	}
	p.peer = ConnectRails(t, p.rail[0], p.rail[1])[0]
	for i, r := range p.rail {
		buf, err := verbs.NewBuffer(64<<10, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); buf.Close() })
		if p.region[i], err = r.Register(buf.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *joinedPair) writes(n int) []Op {
	ops := make([]Op, n)
	for i := range ops {
		at := uint64(64 * i)
		ops[i] = Op{Kind: OpWrite, Peer: p.peer, ID: uint64(i), Local: p.region[0].At(at, 64), Remote: p.region[1].Descriptor().At(at)}
	}
	return ops
}

// drain takes completions until so many operations have come back.
func (p *joinedPair) drain(t *testing.T, n int) (got []Completion) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out [5]Completion
	for left := n; left > 0; {
		k, err := p.rail[0].Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range out[:k] {
			if c.Kind != Lost {
				left--
			}
			got = append(got, c)
		}
		if k == 0 {
			if err := p.rail[0].Wait(ctx); err != nil {
				t.Fatalf("%d operations have not come back: %v", left, err)
			}
		}
	}
	return got
}

func TestABatchIsSpreadOverAllNICs(t *testing.T) {
	p := newJoinedPair(t, 4)
	count := make(map[uint32]int)
	p.net.damage = func(op *Op, _ []byte) { count[op.Remote.Key]++ }
	if n, err := p.rail[0].Post(p.writes(16)); n != 16 || err != nil {
		t.Fatal(n, err)
	}
	p.drain(t, 16)
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if len(count) != 4 {
		t.Fatalf("writes by NICs with the keys %v", count)
	}
	for key, n := range count {
		if n != 4 {
			t.Errorf("the NIC with key %d had %d of 16 writes", key, n)
		}
	}
}

func TestAPeerLostOnOneNICIsLost(t *testing.T) {
	p := newJoinedPair(t, 3)
	bad := p.region[1].rkeys[1]
	p.net.drop = func(op *Op) bool { return op.Remote.Key == bad }
	ops := p.writes(30)
	if n, err := p.rail[0].Post(ops); n != len(ops) || err != nil {
		t.Fatal(n, err)
	}
	told, flushed, done := 0, 0, 0
	for _, c := range p.drain(t, len(ops)) {
		switch {
		case c.Kind == Done:
			done++
		case errors.Is(c.Err, ErrFlushed):
			flushed++
		default:
			told++
			if !strings.Contains(c.Err.Error(), "the cable is cut") {
				t.Errorf("%v", c.Err)
			}
		}
	}
	if told != 1 || done+flushed != 29 || flushed == 0 || done == 0 {
		t.Errorf("the cause was told %d times, %d flushed, %d done", told, flushed, done)
	}
	// What comes now is given back, though two NICs still work.
	if n, err := p.rail[0].Post(ops[:4]); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	for _, c := range p.drain(t, 4) {
		if c.Kind != Failed || !errors.Is(c.Err, ErrFlushed) {
			t.Errorf("%+v", c)
		}
	}
}

func TestRailsThatCannotBeJoined(t *testing.T) {
	n := newFakeNet()
	iwarp := struct{ Rail }{n.rail(1, fakeOptions{})}
	if _, err := Join(named{iwarp, "iWARP"}, n.rail(2, fakeOptions{})); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("iWARP: %v", err)
	}
	if _, err := Join(named{iwarp, "iWARP"}); err != nil {
		t.Errorf("iWARP alone: %v", err)
	}
	if _, err := Join(); err == nil {
		t.Error("no rails were joined")
	}
	for name, nics := range map[string][]Opener{"none": nil, "two kinds": {RCOptions{}, otherKind{}}} {
		var wrong *OptionError
		if _, err := Several(nics...); !errors.As(err, &wrong) || wrong.Option != "device" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type named struct {
	Rail
	transport string
}

func (n named) Info() Info { return Info{Transport: n.transport} }

type otherKind struct{ Opener }

func (otherKind) Kind() Kind { return KindEFA }

// TestAKeyListOfAnotherLength: a peer's region has a key for each NIC.
func TestAKeyListOfAnotherLength(t *testing.T) {
	p := newJoinedPair(t, 3)
	op := p.writes(1)
	d := p.region[1].Descriptor()
	d.Keys = d.Keys[:2]
	op[0].Remote = d.At(0)
	if n, err := p.rail[0].Post(op); n != 0 || err == nil || !strings.Contains(err.Error(), "2 NICs, the rail has 3") {
		t.Errorf("took %d: %v", n, err)
	}
}

func TestTheFirstPostOfAJoinedRailAllocatesNothing(t *testing.T) {
	j := &Joined{members: []*member{{rail: sink{}, depth: 64}, {rail: sink{}, depth: 64}}, got: make([]Completion, 64)}
	p := &joinedPeer{stage: peerOpen, of: []Peer{0, 0}, flight: make([]int, 2)}
	j.peers = []*joinedPeer{p}
	for _, m := range j.members {
		m.peers = j.peers
		m.grow()
	}
	r := Region{length: 1 << 20, lkeys: []uint32{1, 2}, rkeys: []uint32{3, 4}}
	ops := make([]Op, 16)
	for i := range ops {
		ops[i] = Op{Kind: OpWrite, Local: r.At(0, 8), Remote: r.Descriptor().At(0)}
	}
	var out [16]Completion
	if n := testing.AllocsPerRun(100, func() {
		clear(p.flight)
		if n, err := j.Post(ops); n != 16 || err != nil {
			t.Fatal(n, err)
		}
		j.Poll(out[:])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// sink takes everything.
type sink struct{ Rail }

func (sink) Post(ops []Op) (int, error)     { return len(ops), nil }
func (sink) Poll([]Completion) (int, error) { return 0, nil }
