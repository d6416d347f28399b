package transfer_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/railtest"
	"github.com/peerdirect/peerdirect/verbs"
)

// openPair opens a rail on each and connects them.
func openPair(t testing.TB, a, b transfer.Opener) (p railtest.Pair) {
	t.Helper()
	for i, nics := range []transfer.Opener{a, b} {
		rail, err := nics.Open(transfer.Want{Depth: 16})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rail.Close() })
		p.Rail[i] = rail
	}
	p.Peer = transfer.ConnectRails(t, p.Rail[0], p.Rail[1])
	return p
}

// openRails opens so many rails on each of some NICs, for so many peers.
func openRails(t testing.TB, peers int, on ...transfer.Opener) (rails []transfer.Rail) {
	t.Helper()
	for _, nics := range on {
		rail, err := nics.Open(transfer.Want{Depth: 16, Peers: peers})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rail.Close() })
		rails = append(rails, rail)
	}
	return rails
}

// embeddedRails opens a rail on each of some nodes.
func embeddedRails(t testing.TB, o transfer.EmbeddedOptions, rails, peers int) []transfer.Rail {
	t.Helper()
	o.Nodes = rails
	e, err := transfer.NewEmbedded(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var nodes []transfer.Opener
	for i := range rails {
		nodes = append(nodes, e.Node(i))
	}
	return openRails(t, peers, nodes...)
}

func embeddedPair(t testing.TB, nics int) railtest.Pair {
	t.Helper()
	e, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 2, NICs: nics, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return openPair(t, e.Node(0), e.Node(1))
}

func TestTheEmbeddedEFARailIsARail(t *testing.T) {
	for _, nics := range []int{1, 4} {
		t.Run(fmt.Sprint(nics), func(t *testing.T) {
			railtest.Run(t, func(t testing.TB) railtest.Pair { return embeddedPair(t, nics) })
			railtest.RunPeers(t, func(t testing.TB, rails, peers int) []transfer.Rail {
				return embeddedRails(t, transfer.EmbeddedOptions{NICs: nics, Seed: 1}, rails, peers)
			})
		})
	}
}

func TestAPostToAnEmbeddedRailAllocatesNothing(t *testing.T) {
	for _, nics := range []int{1, 4} {
		p := embeddedPair(t, nics)
		mem := make([]byte, 1<<16)
		region, err := p.Rail[0].Register(mem)
		if err != nil {
			t.Fatal(err)
		}
		target, err := p.Rail[1].Register(make([]byte, 1<<16))
		if err != nil {
			t.Fatal(err)
		}
		var ops [16]transfer.Op
		for i := range ops {
			at := uint64(i * 64)
			ops[i] = transfer.Op{Kind: transfer.OpWrite, Peer: p.Peer[0], Local: region.At(at, 64), Remote: target.Descriptor().At(at)}
			if i%2 == 1 {
				ops[i].Kind = transfer.OpRead
			}
		}
		var got [16]transfer.Completion
		if n := testing.AllocsPerRun(100, func() {
			if n, err := p.Rail[0].Post(ops[:]); n != len(ops) || err != nil {
				t.Fatal(n, err)
			}
			for left := len(ops); left > 0; {
				n, err := p.Rail[0].Poll(got[:])
				if err != nil {
					t.Fatal(err)
				}
				if left -= n; n == 0 {
					runtime.Gosched()
				}
			}
		}); n != 0 {
			t.Errorf("%d NICs: %v allocations for a batch of writes and reads and their completions", nics, n)
		}
	}
}

func BenchmarkPostEmbedded(b *testing.B) {
	for _, nics := range []int{1, 4} {
		b.Run(fmt.Sprintf("nics=%d", nics), func(b *testing.B) { benchmarkPost(b, embeddedPair(b, nics)) })
	}
}

// benchmarkPost posts batches of 16 writes of 8 bytes and takes their
// completions.
func benchmarkPost(b *testing.B, p railtest.Pair) {
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

// TestPeersComeAndGoOnABadFabric is the suite where packets are late, lost and
// doubled, and answers get lost: what a device has accepted of a write may be
// nowhere yet when its writer is shut out.
func TestPeersComeAndGoOnABadFabric(t *testing.T) {
	railtest.RunPeers(t, func(t testing.TB, rails, peers int) []transfer.Rail {
		e, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: rails, Latency: 100 * time.Microsecond, Gbps: 5, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		e.Fabric().Faults().Set(device.FaultPlan{Seed: 4, Delay: 0.2, Loss: 0.02, Duplicate: 0.05, AckLoss: 0.05, RNR: 0.2})
		var nodes []transfer.Opener
		for i := range rails {
			nodes = append(nodes, e.Node(i))
		}
		return openRails(t, peers, nodes...)
	})
}
