package railtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

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
