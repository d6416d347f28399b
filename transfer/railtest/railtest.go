// Package railtest is what every transfer.Rail must pass, whatever it runs on.
package railtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// Pair is two rails that are connected to each other.
type Pair struct {
	Rail [2]transfer.Rail
	Peer [2]transfer.Peer // how rail i calls the other
}

// Open makes a new pair. What it opens besides the rails it closes by
// t.Cleanup; the suite closes the rails.
type Open func(t testing.TB) Pair

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open Open)
	}{
		{"WritesArriveByteForByte", writesArrive},
		{"ABatchMayBeLargerThanTheQueues", largerThanTheQueues},
		{"EveryNoticeComesOnce", everyNoticeOnce},
		{"MessagesArriveWhole", messagesArrive},
		{"WhatWaitsIsWoken", waitIsWoken},
		{"ExportedMemoryIsWrittenAndRead", exportedMemory},
		{"OperationsOutsideARegionAreRefused", outsideRefused},
		{"AFailureIsToldOnceAndAllComesBack", failureOnce},
		{"TheEndOfThePeerIsNoticed", peerEnds},
		{"CloseLeavesNothing", closeLeavesNothing},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

const patience = 20 * time.Second

// bench is a pair with a region on each rail.
type bench struct {
	Pair
	t      testing.TB
	mem    [2][]byte
	region [2]*transfer.Region
	queue  [2][]transfer.Completion // polled and not yet asked for
}

func setup(t testing.TB, open Open, size int) *bench {
	t.Helper()
	b := &bench{Pair: open(t), t: t}
	for i := range 2 {
		buf, err := verbs.NewBuffer(size, verbs.BufferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { buf.Close() })
		t.Cleanup(func() {
			if err := b.Rail[i].Close(); err != nil {
				t.Errorf("closing rail %d: %v", i, err)
			}
		})
		b.mem[i] = buf.Bytes()
		if b.region[i], err = b.Rail[i].Register(b.mem[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// next gives the next completion of a rail; data of messages is copied.
func (b *bench) next(i int) transfer.Completion {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(b.queue[i]) == 0 {
		var got [16]transfer.Completion
		n, err := b.Rail[i].Poll(got[:])
		if err != nil {
			b.t.Fatal(err)
		}
		for _, c := range got[:n] {
			c.Data = bytes.Clone(c.Data)
			b.queue[i] = append(b.queue[i], c)
		}
		if n == 0 {
			if err := b.Rail[i].Wait(ctx); err != nil {
				b.t.Fatalf("rail %d gave nothing: %v", i, err)
			}
		}
	}
	c := b.queue[i][0]
	b.queue[i] = b.queue[i][1:]
	return c
}

func (b *bench) expect(i int, kind transfer.CompletionKind) transfer.Completion {
	b.t.Helper()
	c := b.next(i)
	if c.Kind != kind {
		b.t.Fatalf("rail %d gave %+v, want kind %d", i, c, kind)
	}
	return c
}

// post posts all of it, taking completions whenever there is no room; it gives
// how many it took.
func (b *bench) post(i int, ops ...transfer.Op) (completed int) {
	b.t.Helper()
	for len(ops) > 0 {
		n, err := b.Rail[i].Post(ops)
		if err != nil {
			b.t.Fatal(err)
		}
		if ops = ops[n:]; n == 0 {
			b.expect(i, transfer.Done)
			completed++
		}
	}
	return completed
}

func (b *bench) write(from int, at, to uint64, length uint32, id uint64) transfer.Op {
	return transfer.Op{Kind: transfer.OpWrite, Peer: b.Peer[from], ID: id,
		Local: b.region[from].At(at, length), Remote: b.region[1-from].Descriptor().At(to)}
}

// settle waits until what is Done has come to the other side: Done alone does
// not say so.
func (b *bench) settle(from int) {
	b.t.Helper()
	b.post(from, transfer.Op{Kind: transfer.OpNotify, Peer: b.Peer[from]})
	b.expect(1-from, transfer.Notice)
	b.expect(from, transfer.Done)
}

func random(mem []byte) {
	r := rand.New(rand.NewPCG(1, uint64(len(mem))))
	for i := 0; i+8 <= len(mem); i += 8 {
		binary.LittleEndian.PutUint64(mem[i:], r.Uint64())
	}
}

func writesArrive(t *testing.T, open Open) {
	const size = 1 << 20
	b := setup(t, open, size)
	for dir := range 2 {
		random(b.mem[dir])
		want := bytes.Clone(b.mem[1-dir])
		// Lengths around packets and pages, at odd places, in an odd order.
		var at uint64
		done := 0
		for n, length := range []uint32{1, 7, 64, 255, 4095, 4096, 4097, 9000, 65536, 200_001} {
			to := size - at - uint64(length) - uint64(n)
			copy(want[to:], b.mem[dir][at:at+uint64(length)])
			done += b.post(dir, b.write(dir, at, to, length, uint64(n)))
			at += uint64(length) + 3
		}
		for ; done < 10; done++ {
			b.expect(dir, transfer.Done)
		}
		b.settle(dir)
		if !bytes.Equal(b.mem[1-dir], want) {
			t.Errorf("direction %d: the bytes differ", dir)
		}
	}
}

func largerThanTheQueues(t *testing.T, open Open) {
	const piece = 256
	b := setup(t, open, 1<<20)
	random(b.mem[0])
	count := min(3*b.Rail[0].Depth()+1, len(b.mem[0])/piece)
	ops := make([]transfer.Op, count)
	want := make([]byte, len(b.mem[0]))
	for i := range ops {
		to := count - 1 - i
		ops[i] = b.write(0, uint64(i*piece), uint64(to*piece), piece, uint64(i))
		copy(want[to*piece:], b.mem[0][i*piece:(i+1)*piece])
	}
	if n, err := b.Rail[0].Post(ops); err != nil || n == 0 || n > b.Rail[0].Depth() {
		t.Fatalf("posting %d operations on queues of %d took %d: %v", count, b.Rail[0].Depth(), n, err)
	} else {
		ops = ops[n:]
	}
	done := b.post(0, ops...)
	for ; done < count; done++ {
		b.expect(0, transfer.Done)
	}
	b.settle(0)
	if !bytes.Equal(b.mem[1], want) {
		t.Error("the bytes differ")
	}
}

// everyNoticeOnce sends more notices than the peer has receives, keeping count
// of those as a caller must, and checks that a notice after the completions of
// writes finds their bytes.
func everyNoticeOnce(t *testing.T, open Open) {
	b := setup(t, open, 64<<10)
	receives := b.Rail[1].Receives()
	count := 3*receives + 1
	seen := make([]int, count)
	for sent, got := 0, 0; got < count; {
		for sent < count && sent-got < receives/2 {
			at := uint64(sent * 8 % (64 << 10))
			binary.LittleEndian.PutUint64(b.mem[0][at:], uint64(sent)+1)
			b.post(0, b.write(0, at, at, 8, 1))
			b.expect(0, transfer.Done)
			op := transfer.Op{Kind: transfer.OpNotify, Peer: b.Peer[0], Imm: 0xfffe0000 | uint32(sent), ID: 2}
			if sent%2 == 1 { // with bytes of its own
				op.Local, op.Remote = b.region[0].At(at, 8), b.region[1].Descriptor().At(at)
			}
			b.post(0, op)
			b.expect(0, transfer.Done)
			sent++
		}
		c := b.expect(1, transfer.Notice)
		n := int(c.Imm & 0xffff)
		if c.Imm>>16 != 0xfffe || n >= sent {
			t.Fatalf("a notice that nobody sent: %#x", c.Imm)
		}
		if at := n * 8 % (64 << 10); binary.LittleEndian.Uint64(b.mem[1][at:]) != uint64(n)+1 {
			t.Fatalf("notice %d came before the bytes whose completion preceded it", n)
		}
		seen[n]++
		got++
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("notice %d came %d times", n, times)
		}
	}
}

func messagesArrive(t *testing.T, open Open) {
	b := setup(t, open, 1<<20)
	random(b.mem[0])
	random(b.mem[1])
	for n, length := range []uint32{transfer.MinMessage, 17, 1000, transfer.MessageSize} {
		for dir := range 2 {
			at := uint64(n * 5000)
			b.post(dir, transfer.Op{Kind: transfer.OpSend, Peer: b.Peer[dir], Local: b.region[dir].At(at, length), ID: 9})
			b.expect(dir, transfer.Done)
			c := b.expect(1-dir, transfer.Message)
			if c.Peer != b.Peer[1-dir] || !bytes.Equal(c.Data, b.mem[dir][at:at+uint64(length)]) {
				t.Errorf("a message of %d bytes arrived as %d others", length, len(c.Data))
			}
		}
	}
	for _, length := range []uint32{0, transfer.MinMessage - 1, transfer.MessageSize + 1} {
		if n, err := b.Rail[0].Post([]transfer.Op{{Kind: transfer.OpSend, Peer: b.Peer[0], Local: b.region[0].At(0, length)}}); n != 0 || err == nil {
			t.Errorf("a message of %d bytes was taken", length)
		}
	}
}

func waitIsWoken(t *testing.T, open Open) {
	b := setup(t, open, 4096)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	err := b.Rail[1].Wait(ctx)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for nothing gave %v", err)
	}
	woken := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		woken <- b.Rail[1].Wait(ctx)
	}()
	time.Sleep(50 * time.Millisecond) // until it sleeps
	b.post(0, transfer.Op{Kind: transfer.OpNotify, Peer: b.Peer[0], Imm: 5})
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if c := b.expect(1, transfer.Notice); c.Imm != 5 {
		t.Errorf("%+v", c)
	}
}

func outsideRefused(t *testing.T, open Open) {
	b := setup(t, open, 4096)
	good := b.write(0, 0, 0, 64, 1)
	for name, bad := range map[string]transfer.Op{
		"local":    b.write(0, 4090, 0, 64, 2),
		"remote":   b.write(0, 0, 4090, 64, 2),
		"past":     b.write(0, 5000, 0, 0, 2),
		"id":       b.write(0, 0, 0, 64, 1<<48),
		"no kind":  {Peer: b.Peer[0]},
		"stranger": {Kind: transfer.OpNotify, Peer: 77},
	} {
		n, err := b.Rail[0].Post([]transfer.Op{good, bad, good})
		if n != 1 || err == nil {
			t.Errorf("%s: a batch whose second operation is wrong took %d: %v", name, n, err)
			continue
		}
		if c := b.expect(0, transfer.Done); c.ID != 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func failureOnce(t *testing.T, open Open) {
	b := setup(t, open, 64<<10)
	ops := []transfer.Op{b.write(0, 0, 0, 4096, 0)}
	for i := range 6 {
		op := b.write(0, 0, 0, 4096, uint64(1+i))
		op.Remote = nobodys(b.region[1].Descriptor()).At(0)
		ops = append(ops, op)
	}
	b.post(0, ops...)
	told, back := 0, make(map[uint64]int)
	for left := len(ops); left > 0 || told == 0; {
		c := b.next(0)
		switch c.Kind {
		case transfer.Lost: // or an operation tells it
		case transfer.Done, transfer.Failed: // iWARP: Done comes before the peer looks at the key
			back[c.ID]++
			left--
		default:
			t.Fatalf("%+v", c)
		}
		if (c.Err == nil) != (c.Kind == transfer.Done) {
			t.Errorf("%+v", c)
		}
		if c.Err != nil && !errors.Is(c.Err, transfer.ErrFlushed) {
			told++
			t.Logf("told: %v", c.Err)
		}
	}
	for i := range ops {
		if back[uint64(i)] != 1 {
			t.Errorf("operation %d came back %d times", i, back[uint64(i)])
		}
	}
	if told != 1 {
		t.Errorf("the cause was told %d times", told)
	}
	// A lost peer still takes operations, and gives them back.
	b.post(0, b.write(0, 0, 0, 64, 99), b.write(0, 0, 0, 64, 99))
	for range 2 {
		if c := b.next(0); c.Kind != transfer.Failed || c.ID != 99 || !errors.Is(c.Err, transfer.ErrFlushed) {
			t.Errorf("after the loss: %+v", c)
		}
	}
	var rest [4]transfer.Completion
	if n, err := b.Rail[0].Poll(rest[:]); n != 0 || err != nil {
		t.Errorf("then there were %d more: %+v, %v", n, rest[:n], err)
	}
}

// nobodys is a region with keys that are no region's.
func nobodys(d transfer.Descriptor) transfer.Descriptor {
	d.Keys = slices.Clone(d.Keys)
	for i := range d.Keys {
		d.Keys[i] += 0x1357900
	}
	return d
}

func peerEnds(t *testing.T, open Open) {
	b := setup(t, open, 64<<10)
	if err := b.Rail[1].Close(); err != nil {
		t.Fatal(err)
	}
	b.post(0, b.write(0, 0, 0, 4096, 7), b.write(0, 0, 0, 4096, 8))
	told, back := 0, 0
	for back < 2 || told == 0 {
		c := b.next(0)
		if c.Kind == transfer.Done {
			// iWARP: the bytes were on their way when the end showed.
			t.Log("a write to a peer that has ended completed")
		}
		if c.Kind != transfer.Lost {
			back++
		}
		if c.Err != nil && !errors.Is(c.Err, transfer.ErrFlushed) {
			told++
			t.Logf("told: %v", c.Err)
		}
	}
	if told != 1 {
		t.Errorf("the end was told %d times", told)
	}
}

// live counts the open objects of every library that rails are made on.
func live() map[string]int {
	n := make(map[string]int)
	for lib, objects := range map[string]map[string]int{"verbs ": verbs.Live(), "efa ": efa.Live(), "dmabuf ": dmabuf.Live()} {
		for kind, count := range objects {
			n[lib+kind] = count
		}
	}
	return n
}

func closeLeavesNothing(t *testing.T, open Open) {
	// Once before counting: what is made once for the process is made.
	for range 2 {
		p := open(t)
		for _, r := range p.Rail {
			r.Close()
		}
	}
	objects, goroutines := live(), runtime.NumGoroutine()
	var rails []transfer.Rail
	for range 3 {
		t.Run("cycle", func(t *testing.T) {
			b := setup(t, open, 64<<10)
			b.post(0, b.write(0, 0, 0, 4096, 7)) // in flight
			rails = append(rails, b.Rail[:]...)
		})
	}
	for _, r := range rails {
		if err := r.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		if _, err := r.Post(make([]transfer.Op, 1)); err == nil {
			t.Error("a closed rail takes operations")
		}
		if _, err := r.Poll(make([]transfer.Completion, 1)); err == nil {
			t.Error("a closed rail is polled")
		}
	}
	for kind, n := range live() {
		if n != objects[kind] {
			t.Errorf("%d objects of kind %s, there were %d", n, kind, objects[kind])
		}
	}
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		stacks := make([]byte, 1<<16)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("%d goroutines, there were %d:\n%s", n, goroutines, strings.TrimSpace(string(stacks)))
	}
}
