package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// TestAWorkerWithoutRails: while all rails of one worker are down, what it has is
// carried by another's, and nothing waits for it.
func TestAWorkerWithoutRails(t *testing.T) {
	p := newPairOf(t, 2, 2, Options{CoolDown: time.Hour, MaxPiece: 4096})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p.transfer(ctx)
	p.nics["efa_1"].Faults().Set(device.FaultPlan{LinkDown: true})
	for range 20 {
		p.transfer(ctx)
	}
	if s := p.e[0].Stats(); s[1].Up != 0 || s[1].Losses == 0 {
		t.Errorf("the rail was not lost: %+v", s)
	}
}

// TestGenerationsWrap: a rail that failed comes again though its generations
// begin anew.
func TestGenerationsWrap(t *testing.T) {
	p := newPairOf(t, 2, 1, Options{CoolDown: time.Millisecond, MaxPiece: 4096})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const last = 1<<32 - 1
	for side, peer := range p.peer { // as if they had come so far
		for _, r := range p.e[side].rails {
			if !r.w.call(func() { peer.at[r.w.index].links[r.local].generation = last - 1 }) {
				t.Fatal("no worker")
			}
		}
	}
	for n := range 4 {
		r := p.e[0].rails[n%2]
		r.w.call(func() { p.peer[0].at[r.w.index].links[r.local].fail(errors.New("by the test")) })
		p.transfer(ctx)
		for deadline := time.Now().Add(time.Minute); p.e[0].Stats()[n%2].Up == 0 || p.e[1].Stats()[n%2].Up == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("failure %d: the rail did not come again", n)
			}
		}
		p.transfer(ctx)
	}
	r := p.e[0].rails[0]
	r.w.call(func() {
		if g := p.peer[0].at[0].links[0].generation; g != 0 {
			t.Errorf("generation %d; it was to wrap", g)
		}
	})
}

// TestWaitsForANoticeEndWithThePeer: what a lost peer's transfers had placed is
// placed, but they end, also those of which nothing but the notice is left.
func TestWaitsForANoticeEndWithThePeer(t *testing.T) {
	p := newPairOf(t, 1, 1, Options{})
	a := p.peer[0].at[0]
	a.w.call(func() { a.links[0].credits = 0 })
	w, err := p.peer[0].Write(t.Context(), Move{Local: p.region[0], Remote: p.target, Segments: []Segment{{Length: 4096}}, Notify: Counts(1)})
	if err != nil {
		t.Fatal(err)
	}
	for moved := uint64(0); moved < 4096; moved, _ = w.Progress() {
		time.Sleep(time.Millisecond)
	}
	if w.Ended() {
		t.Fatal("it ended without a notice")
	}
	p.peer[1].Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Wait(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// TestManyPeers: more peers than fit in a byte, of one engine, all used.
func TestManyPeers(t *testing.T) {
	const nodes, each = 60, 5
	fabric, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: nodes + 1, PeerTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer fabric.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hub, err := New(Options{Rails: Specs(fabric.Node(nodes), transfer.Want{Peers: nodes*each + 8, Depth: 64}, 1), CoolDown: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hub.Close(); err != nil {
			t.Error(err)
		}
	}()
	var engines []*Engine
	var peers []*Peer
	for i := range nodes * each {
		e, err := New(Options{Rails: Specs(fabric.Node(i%nodes), transfer.Want{Peers: 2, Depth: 16}, 1)})
		if err != nil {
			t.Fatalf("engine %d: %v", i, err)
		}
		defer e.Close()
		d, l := Pipe()
		joined := make(chan error, 1)
		go func() {
			_, err := e.Connect(ctx, l, false)
			joined <- err
		}()
		p, err := hub.Connect(ctx, d, true)
		if err := errors.Join(err, <-joined); err != nil {
			t.Fatalf("peer %d: %v", i, err)
		}
		engines, peers = append(engines, e), append(peers, p)
	}
	if n := len(hub.Peers()); n != nodes*each {
		t.Errorf("%d peers", n)
	}
	mem, err := verbs.NewBuffer(16*len(peers), verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	defer hub.Close() // before the memory goes
	region, err := hub.Register(mem.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range peers {
		if err := p.Grant("hub", region, Write); err != nil {
			t.Fatal(err)
		}
		own, err := verbs.NewBuffer(16, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		defer engines[i].Close()
		binary.BigEndian.PutUint64(own.Bytes(), uint64(i+1))
		local, err := engines[i].Register(own.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		target, err := engines[i].Peers()[0].Target(ctx, "hub")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engines[i].Peers()[0].Write(ctx, Move{Local: local, Remote: target, Segments: []Segment{{Remote: uint64(16 * i), Length: 16}}, Notify: Counts(1)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range peers {
		if err := p.Counter(1).Wait(ctx, 1); err != nil {
			t.Fatalf("peer %d: %v", i, err)
		}
		if got := binary.BigEndian.Uint64(mem.Bytes()[16*i:]); got != uint64(i+1) {
			t.Errorf("peer %d wrote %d", i, got)
		}
	}
}
