package peer

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
)

// iwarp is a side whose NIC is on the loopback address and speaks iWARP, with an
// interface of this MTU.
func iwarp(mtu int) NIC {
	n := roce(4096)
	n.Device, n.Transport, n.NetdevMTU = "siw0", transfer.IWARP, mtu
	return n
}

// TestOddMTUs: MTUs that are unknown, smaller than a probe and larger than IP's packets.
func TestOddMTUs(t *testing.T) {
	here := netip.MustParseAddr("127.0.0.1")
	for mtu, x := range map[int]struct {
		words string
		times int
	}{
		0:     {"MTUs are not known: 65536 bytes here, 0 there", 1},
		40:    {"MTUs are not known: 65536 bytes here, 40 there", 1},
		51:    {"MTUs are not known", 1},
		52:    {"packets of 52 bytes pass", 2}, // the smallest probe
		65536: {"packets of 65535 bytes pass", 2},
	} {
		r := newRun(context.Background(), RoleDialler, Options{})
		r.result.Local, r.result.Remote = iwarp(65536), iwarp(mtu)
		st := r.result.step(StepMTU)
		err := r.probes(t.Context(), st, here, here, narrow(t, 1<<16, 1<<16))
		if all := strings.Join(st.Evidence, "\n"); err != nil || strings.Count(all, x.words) != x.times {
			t.Errorf("MTU %d: %v\n%s", mtu, err, all)
		}
		if err := r.finish(); err != nil {
			t.Error(err)
		}
	}
}
