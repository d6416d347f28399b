package transfer_test

import (
	"fmt"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/railtest"
)

// TestTheFakeRailIsARail keeps the suite honest too: it runs where no device is.
func TestTheFakeRailIsARail(t *testing.T) {
	railtest.Run(t, func(t testing.TB) railtest.Pair {
		a, b := transfer.FakeRails()
		return railtest.Pair{Rail: [2]transfer.Rail{a, b}, Peer: transfer.ConnectRails(t, a, b)}
	})
}

func TestFakeRailsJoinedAreARail(t *testing.T) {
	for _, nics := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(nics), func(t *testing.T) {
			railtest.Run(t, func(t testing.TB) railtest.Pair {
				a, b := transfer.JoinedFakeRails(t, nics)
				return railtest.Pair{Rail: [2]transfer.Rail{a, b}, Peer: transfer.ConnectRails(t, a, b)}
			})
		})
	}
}
