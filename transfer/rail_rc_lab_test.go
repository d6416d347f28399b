//go:build lab

package transfer_test

import (
	"os"
	"slices"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/railtest"
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
			railtest.RunPeers(t, func(t testing.TB, rails, peers int) []transfer.Rail {
				return openRails(t, peers, slices.Repeat([]transfer.Opener{o}, rails)...)
			})
		})
	}
}

func BenchmarkPost(b *testing.B) { benchmarkPost(b, rcPair(b, transfer.RCOptions{})) }
