package ring_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/patterns/internal/local"
	"github.com/peerdirect/peerdirect/transfer/patterns/ring"
	"github.com/peerdirect/peerdirect/verbs"
)

// BenchmarkAllReduce is of two nodes, straight and by slots: the time of an operation
// at both, on embedded devices, and what it allocates there, devices included.
func BenchmarkAllReduce(b *testing.B) {
	for _, bytes := range []int{4 << 10, 8 << 20} {
		b.Run(fmt.Sprintf("direct/%d", bytes), func(b *testing.B) { benchmark(b, bytes, true) })
		b.Run(fmt.Sprintf("slots/%d", bytes), func(b *testing.B) { benchmark(b, bytes, false) })
	}
}

func benchmark(b *testing.B, bytes int, direct bool) {
	ctx := context.Background()
	cluster, err := local.New(transfer.EmbeddedOptions{Nodes: 2}, engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	var peers [2]*engine.Peer
	if peers[0], peers[1], err = cluster.Join(ctx, 0, 1); err != nil {
		b.Fatal(err)
	}
	var rings [2]*ring.Ring
	var do [2]func() error
	both := func(f func(i int) error) {
		var errs [2]error
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() { errs[i] = f(i) })
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			b.Fatal(err)
		}
	}
	both(func(i int) error {
		var err error
		if rings[i], err = ring.Join(ctx, cluster.Nodes[i], peers[i], peers[i], i, 2, ring.Options{}); err != nil {
			return err
		}
		buf, err := verbs.NewBuffer(bytes, verbs.BufferOptions{})
		if err != nil {
			return err
		}
		b.Cleanup(func() { buf.Close() })
		x := unsafe.Slice((*float32)(unsafe.Pointer(&buf.Bytes()[0])), bytes/4)
		if do[i] = func() error { return rings[i].AllReduce(ctx, x) }; !direct {
			return do[i]()
		}
		region, err := cluster.Nodes[i].Register(buf.Bytes())
		if err != nil {
			return err
		}
		v, err := rings[i].Vector(ctx, region, buf.Bytes(), nil)
		if err != nil {
			return err
		}
		do[i] = func() error { return v.AllReduce(ctx, bytes/4) }
		return do[i]()
	})
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	b.ResetTimer()
	both(func(i int) error {
		for range b.N {
			if err := do[i](); err != nil {
				return err
			}
		}
		return nil
	})
	b.StopTimer()
	both(func(i int) error { return rings[i].Close(ctx) })
}
