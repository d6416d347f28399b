//go:build lab

package transfer_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestTwoNodesEFATransfer runs on both of two machines, over all their EFA
// devices.
func TestTwoNodesEFATransfer(t *testing.T) {
	names := efaNames(t)
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: lab run --nodes 2 --efa N")
	}
	nics, err := transfer.Named(transfer.EFAName, transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := transfer.Options{Rail: nics, Timeout: 30 * time.Second}
	layout := transfer.Layout{PageSize: 64 << 10, Pages: 256, Stride: 2, Seed: 11}
	at := net.JoinHostPort(strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")[0], "18631")
	var r *transfer.Result
	if os.Getenv("PEERDIRECT_NODE") == "0" {
		l, err := transfer.Listen(t.Context(), at, transfer.ListenOptions{Options: o})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		r, err = l.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	} else if r, err = transfer.To(t.Context(), at, transfer.SendOptions{Options: o, Layout: layout, Iterations: 2, Window: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if !r.Verified || r.Bytes != 2*layout.Bytes() || r.Conditions.NICs != len(names) || r.Conditions.Transport != "EFA SRD" || r.Conditions.Embedded {
		t.Errorf("%+v", r)
	}
	t.Logf("%s: %.1f MiB/s by %d NICs, %s", r.Role, r.PerSecond/(1<<20), r.Conditions.NICs, r.Conditions.Path)
}
