//go:build lab

package transfer

import (
	"errors"
	"os"
	"testing"

	"github.com/peerdirect/peerdirect/efa"
)

// TestEFATransfer is the transfer's tests over an EFA device under the kernel's
// driver: the same that run over RC.
func TestEFATransfer(t *testing.T) {
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	rail, err := labOptions().Rail.Open(Want{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
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
		{"ADamagedPageIsNamed", TestADamagedPageIsNamed},
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
