//go:build lab

package pages

import (
	"os"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
)

// TestEFAPages is the tests of transfers over an EFA device under the kernel's
// driver: the same that run over RC.
func TestEFAPages(t *testing.T) {
	writesByEFA(t)
	rail, err := labOptions().Rail.Open(transfer.Want{})
	if err != nil {
		t.Fatal(err)
	}
	if i := rail.Info(); i.Transport != "EFA SRD" || i.Embedded {
		t.Errorf("%+v", i)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"PagesArrive", pagesArrive},
		{"ADamagedPageIsNamed", damagedPageIsNamed},
		{"GarbageOnThePortHarmsNobodyElse", TestGarbageOnThePortHarmsNobodyElse},
		{"ASenderThatIsKilled", TestASenderThatIsKilled},
		{"AReceiverThatIsKilled", TestAReceiverThatIsKilled},
		{"AnInterruptIsToldToTheOther", TestAnInterruptIsToldToTheOther},
		{"APeerThatStandsStill", TestAPeerThatStandsStill},
	} {
		t.Run(test.name, test.run)
	}
	if live := efa.Live(); len(live) > 0 {
		t.Errorf("objects are left: %v", live)
	}
}

// TestTwoNodesEFAPages runs on both of two machines, over all their EFA devices.
func TestTwoNodesEFAPages(t *testing.T) {
	if os.Getenv("PEERDIRECT_NODES") != "2" {
		t.Skip("needs two machines: lab run --nodes 2 --efa N")
	}
	writesByEFA(t)
	nics, err := transfer.Named(transfer.EFAName, transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := twoNodes(t, Options{Rail: nics, Peers: 2})
	if n := len(strings.Split(os.Getenv("PEERDIRECT_EFA"), ",")); r.Conditions.NICs != n || r.Conditions.Transport != "EFA SRD" || r.Conditions.Embedded {
		t.Error(show(r))
	}
}
