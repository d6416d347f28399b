package railtest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
)

// exportedMemory writes into a piece of a dma-buf and out of another, both at
// odd places. A rail that takes none says so and names the way around.
func exportedMemory(t *testing.T, open Open) {
	exporter, err := dmabuf.Open("udmabuf")
	if err != nil {
		t.Fatal(err)
	}
	if err := exporter.Available(); err != nil {
		t.Skip("needs an exporter: ", err)
	}
	const (
		size   = 1 << 20
		length = 300_000
	)
	b := setup(t, open, length)
	before := live()
	mem, err := exporter.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	random(b.mem[0])
	in, out := transfer.NewExport(mem, 8192+100, length), transfer.NewExport(mem, size-length-1, length)
	target, err := b.Rail[1].RegisterExport(in)
	if errors.Is(err, errors.ErrUnsupported) {
		var refused *transfer.MemoryError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "--memory host") {
			t.Errorf("refused without a way around it: %v", err)
		}
		t.Log(err)
		closeAll(t, in, mem)
		same(t, before)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	source, err := b.Rail[1].RegisterExport(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*transfer.Export{in, out} {
		if err := e.Registered(); err != nil {
			t.Error(err)
		}
	}
	// In, by the other side.
	for at := uint64(0); at < length; at += length / 4 {
		b.post(0, transfer.Op{Kind: transfer.OpWrite, Peer: b.Peer[0], Local: b.region[0].At(at, length/4), Remote: target.Descriptor().At(at)})
		b.expect(0, transfer.Done)
	}
	b.settle(0)
	whole := make([]byte, size)
	if _, err := mem.ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole[8192+100:][:length], b.mem[0]) {
		t.Error("what came into the dma-buf differs")
	}
	beside := slices.Concat(whole[:8192+100], whole[8192+100+length:])
	if n := len(beside) - bytes.Count(beside, []byte{0}); n > 0 {
		t.Errorf("%d bytes beside the piece were written", n)
	}
	// Out again, from the other piece, which holds the first one's bytes now.
	if _, err := mem.WriteAt(b.mem[0], size-length-1); err != nil {
		t.Fatal(err)
	}
	clear(b.mem[0])
	b.post(1, transfer.Op{Kind: transfer.OpWrite, Peer: b.Peer[1], Local: source.At(1, length-1), Remote: b.region[0].Descriptor().At(1)})
	b.expect(1, transfer.Done)
	b.settle(1)
	if b.mem[0][0] = whole[8192+100]; !bytes.Equal(b.mem[0], whole[8192+100:][:length]) {
		t.Error("what came out of the dma-buf differs")
	}
	closeAll(t, target, source, in, out, mem)
	same(t, before)
}

func closeAll(t *testing.T, list ...interface{ Close() error }) {
	t.Helper()
	for _, c := range list {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// same checks that there are as many objects as before.
func same(t *testing.T, before map[string]int) {
	t.Helper()
	for kind, n := range live() {
		if n != before[kind] {
			t.Errorf("%d objects of kind %s, there were %d", n, kind, before[kind])
		}
	}
}
