//go:build lab

package transfer_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/railtest"
	"github.com/peerdirect/peerdirect/verbs"
)

// rcPair opens two rails on the lab's device, in one process.
func rcPair(t testing.TB, o transfer.RCOptions) railtest.Pair {
	t.Helper()
	if o.Device = os.Getenv("PEERDIRECT_DEVICE"); o.Device == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	var p railtest.Pair
	for i := range p.Rail {
		rail, err := transfer.OpenRC(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rail.Close() })
		p.Rail[i] = rail
	}
	p.Peer = transfer.ConnectRails(t, p.Rail[0], p.Rail[1])
	return p
}

func TestTheRCRailIsARail(t *testing.T) {
	for name, o := range map[string]transfer.RCOptions{
		"OneQueuePair":   {SendDepth: 32, RecvDepth: 16},
		"FourQueuePairs": {SendDepth: 8, RecvDepth: 16, Queues: 4},
	} {
		t.Run(name, func(t *testing.T) {
			railtest.Run(t, func(t testing.TB) railtest.Pair { return rcPair(t, o) })
		})
	}
}

// BenchmarkPost posts batches of 16 writes of 8 bytes and takes their
// completions.
func BenchmarkPost(b *testing.B) {
	p := rcPair(b, transfer.RCOptions{})
	buf, err := verbs.NewBuffer(1<<20, verbs.BufferOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { buf.Close() })
	region, err := p.Rail[0].Register(buf.Bytes())
	if err != nil {
		b.Fatal(err)
	}
	target, err := p.Rail[1].Register(buf.Bytes())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Rail[0].Close(); p.Rail[1].Close() })
	var ops [16]transfer.Op
	for i := range ops {
		at := uint64(i * 64)
		ops[i] = transfer.Op{Kind: transfer.OpWrite, Peer: p.Peer[0], Local: region.At(at, 8), Remote: target.Descriptor().At(1<<19 + at)}
	}
	var got [16]transfer.Completion
	posting := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if n, err := p.Rail[0].Post(ops[:]); n != len(ops) || err != nil {
			b.Fatal(n, err)
		}
		posting += time.Since(start)
		for left := len(ops); left > 0; {
			n, err := p.Rail[0].Poll(got[:])
			if err != nil {
				b.Fatal(err)
			}
			left -= n
			if n == 0 {
				runtime.Gosched()
			}
		}
	}
	b.ReportMetric(float64(posting.Nanoseconds())/float64(b.N*len(ops)), "ns/post")
}
