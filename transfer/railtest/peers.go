package railtest

import (
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// Rails makes rails that reach each other and are not connected, each for so
// many peers. The suite closes them.
type Rails func(t testing.TB, rails, peers int) []transfer.Rail

// RunPeers runs the suite of what comes and goes: peers by offers, and reads.
// Every rail must pass it whose Offer is not ErrUnsupported.
func RunPeers(t *testing.T, open Rails) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open Rails)
	}{
		{"ReadsBringTheBytes", readsBring},
		{"AnOfferThatIsWrongIsRefused", wrongOffers},
		{"ANumberIsNoPeerBeforeAndAfter", noPeerYet},
		{"AfterDisconnectNothingLands", nothingLands},
		{"WhatIsInFlightToALeavingPeerComesBack", leavingComesBack},
		{"NumbersAreUsedAgain", numbersAgain},
		{"OthersGoOnWhenOneLeaves", othersGoOn},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

// field is some rails with a region each.
type field struct {
	t      testing.TB
	rail   []transfer.Rail
	mem    [][]byte
	region []*transfer.Region
	queue  [][]transfer.Completion
}

func newField(t testing.TB, open Rails, rails, peers, size int) *field {
	t.Helper()
	f := &field{t: t, rail: open(t, rails, peers), queue: [][]transfer.Completion{}}
	for i, r := range f.rail {
		buf, err := verbs.NewBuffer(size, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { buf.Close() })
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Errorf("closing rail %d: %v", i, err)
			}
		})
		region, err := r.Register(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		f.mem, f.region, f.queue = append(f.mem, buf.Bytes()), append(f.region, region), append(f.queue, nil)
	}
	return f
}

// connect connects two rails by their offers.
func (f *field) connect(a, b int) (pa, pb transfer.Peer) {
	f.t.Helper()
	pa, oa := f.offer(a)
	pb, ob := f.offer(b)
	f.acceptBoth(a, pa, oa, b, pb, ob)
	return pa, pb
}

// acceptBoth has two rails accept each other, at the same time: some wait for the
// other side.
func (f *field) acceptBoth(a int, pa transfer.Peer, oa []byte, b int, pb transfer.Peer, ob []byte) {
	f.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.rail[b].Accept(pb, oa) }()
	if err := errors.Join(f.rail[a].Accept(pa, ob), <-ended); err != nil {
		f.t.Fatalf("rails %d and %d: %v", a, b, err)
	}
}

func (f *field) offer(i int) (transfer.Peer, []byte) {
	f.t.Helper()
	p, offer, err := f.rail[i].Offer()
	if err != nil {
		f.t.Fatalf("rail %d: %v", i, err)
	}
	if len(offer) > transfer.MaxOffer {
		f.t.Fatalf("an offer of %d bytes", len(offer))
	}
	return p, offer
}

// disconnect tells whether the peer's device is shut out.
func (f *field) disconnect(i int, p transfer.Peer) (fenced bool) {
	f.t.Helper()
	err := f.rail[i].Disconnect(p)
	if err != nil && !errors.Is(err, transfer.ErrNotFenced) {
		f.t.Fatalf("rail %d: %v", i, err)
	}
	return err == nil
}

func (f *field) op(kind transfer.OpKind, from int, p transfer.Peer, to int, at, there uint64, length uint32, id uint64) transfer.Op {
	return transfer.Op{Kind: kind, Peer: p, ID: id, Local: f.region[from].At(at, length), Remote: f.region[to].Descriptor().At(there)}
}

// poll takes what is there into the queue.
func (f *field) poll(i int) int {
	f.t.Helper()
	var got [16]transfer.Completion
	n, err := f.rail[i].Poll(got[:])
	if err != nil {
		f.t.Fatal(err)
	}
	f.queue[i] = append(f.queue[i], got[:n]...)
	return n
}

// next gives the next completion of a rail.
func (f *field) next(i int) transfer.Completion {
	f.t.Helper()
	for end := time.Now().Add(patience); len(f.queue[i]) == 0; {
		if f.poll(i) > 0 {
			break
		}
		if time.Now().After(end) {
			f.t.Fatalf("rail %d gave nothing", i)
		}
		time.Sleep(50 * time.Microsecond)
	}
	c := f.queue[i][0]
	f.queue[i] = f.queue[i][1:]
	return c
}

func (f *field) expect(i int, kind transfer.CompletionKind, p transfer.Peer) transfer.Completion {
	f.t.Helper()
	c := f.next(i)
	if c.Kind != kind || c.Peer != p {
		f.t.Fatalf("rail %d gave %+v, want kind %d of peer %d", i, c, kind, p)
	}
	return c
}

func (f *field) post(i int, ops ...transfer.Op) int {
	f.t.Helper()
	n, err := f.rail[i].Post(ops)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// before takes what a peer sent before it was disconnected, and nothing else.
func (f *field) before(i int, p transfer.Peer) {
	f.t.Helper()
	for f.poll(i) > 0 {
	}
	for _, c := range f.queue[i] {
		if c.Kind != transfer.Notice && c.Kind != transfer.Message || c.Peer != p {
			f.t.Fatalf("rail %d gave %+v", i, c)
		}
	}
	f.queue[i] = nil
}

// quiet checks that a rail has nothing more to give.
func (f *field) quiet(i int) {
	f.t.Helper()
	for range 20 {
		f.poll(i)
		time.Sleep(time.Millisecond)
	}
	if len(f.queue[i]) > 0 {
		f.t.Errorf("rail %d gave %d more: %+v", i, len(f.queue[i]), f.queue[i])
	}
}

func noPeerYet(t *testing.T, open Rails) {
	f := newField(t, open, 2, 1, 4096)
	for round := range 3 {
		pa, oa := f.offer(0)
		refused := func(when string) {
			t.Helper()
			if n, err := f.rail[0].Post([]transfer.Op{f.op(transfer.OpWrite, 0, pa, 1, 0, 0, 8, 1)}); n != 0 || err == nil {
				t.Errorf("round %d: a write was taken %s", round, when)
			}
		}
		refused("before the peer was accepted")
		if _, _, err := f.rail[0].Offer(); err == nil {
			t.Error("a second offer of a rail for one peer")
		}
		if round == 0 { // nobody accepts
			f.disconnect(0, pa)
			refused("after an offer was taken back")
			continue
		}
		pb, ob := f.offer(1)
		f.acceptBoth(0, pa, oa, 1, pb, ob)
		f.disconnect(0, pa)
		f.disconnect(1, pb)
		refused("after the peer was disconnected")
		if err := f.rail[0].Disconnect(pa); err == nil {
			t.Error("a peer was disconnected twice")
		}
	}
	f.quiet(0)
}
