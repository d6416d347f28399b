// Package railtest is what every transfer.Rail must pass, whatever it runs on.
package railtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
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
