package transfer_test

import (
	"fmt"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/railtest"
)

// TestFakeRailsAreRails keeps the suite honest too: it runs where no device is.
func TestFakeRailsAreRails(t *testing.T) {
	for _, nics := range []int{0, 1, 2, 5} {
		t.Run(fmt.Sprintf("joined=%d", nics), func(t *testing.T) {
			railtest.Run(t, func(t testing.TB) railtest.Pair {
				r := transfer.FakeRails(t, 2, 1, nics)
				return railtest.Pair{Rail: [2]transfer.Rail(r), Peer: transfer.ConnectRails(t, r[0], r[1])}
			})
			railtest.RunPeers(t, func(t testing.TB, rails, peers int) []transfer.Rail {
				return transfer.FakeRails(t, rails, peers, nics)
			})
		})
	}
}
