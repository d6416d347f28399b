package efa

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
)

// TestLostRegionsAreReported, with what they were and where they were made; until
// then they keep their domain open.
func TestLostRegionsAreReported(t *testing.T) {
	dev := must[*Device](t)(Embedded(fabric(t, device.FabricOptions{}), device.Options{}))
	pd := must[*PD](t)(dev.AllocPD())
	lost := make(chan string, 1)
	ReportLeaks(func(text string) { lost <- text })
	defer ReportLeaks(nil)
	heir := func() func() error {
		mr, err := pd.Register(make([]byte, 4096), LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		ctl, tag := mr.ctl, mr.life.Tag()
		return func() error {
			again := &MR{ctl: ctl}
			again.life.Adopt(objects, tag, &pd.life)
			return again.Close()
		}
	}()
	var text string
	for end := time.Now().Add(patience); text == "" && time.Now().Before(end); {
		runtime.GC()
		select {
		case text = <-lost:
		case <-time.After(10 * time.Millisecond):
		}
	}
	if !strings.HasPrefix(text, "mr lkey") || !strings.Contains(text, "leak_test.go:") {
		t.Errorf("the report: %q", text)
	}
	refused(t, pd.Close(), ErrBusy, "dropped without Close")
	if err := heir(); err != nil {
		t.Error(err)
	}
}
