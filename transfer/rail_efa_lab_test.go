//go:build lab

package transfer_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/railtest"
)

// efaNames are the guest's EFA devices, under the kernel's driver.
func efaNames(t testing.TB) []string {
	t.Helper()
	names := os.Getenv("PEERDIRECT_EFA")
	if names == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	list := strings.Split(names, ",")
	rail, err := transfer.OpenEFA(transfer.EFAOptions{Device: list[0]})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEFARailIsARail(t *testing.T) {
	names := efaNames(t)
	for name, use := range map[string]string{"OneNIC": names[0], "AllNICs": strings.Join(names, ",")} {
		t.Run(name, func(t *testing.T) {
			nics, err := transfer.Named(use, transfer.RCOptions{})
			if err != nil {
				t.Fatal(err)
			}
			railtest.Run(t, func(t testing.TB) railtest.Pair { return openPair(t, nics, nics) })
			railtest.RunPeers(t, func(t testing.TB, rails, peers int) []transfer.Rail {
				return openRails(t, peers, slices.Repeat([]transfer.Opener{nics}, rails)...)
			})
		})
	}
}
