package transfer

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
)

// embedded makes nodes, and checks that nothing is left of them in the end.
func embedded(t *testing.T, o EmbeddedOptions) *Embedded {
	t.Helper()
	o.Seed = 1
	objects, memory, goroutines := efa.Live(), verbs.Live(), runtime.NumGoroutine()
	e, err := NewEmbedded(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := len(e.Fabric().Devices()); n > 0 {
			t.Errorf("%d devices are left on the fabric", n)
		}
		e.Close()
		if diff := cmp.Diff(objects, efa.Live()); diff != "" {
			t.Errorf("objects of EFA before and after:\n%s", diff)
		}
		if diff := cmp.Diff(memory, verbs.Live()); diff != "" {
			t.Errorf("objects of verbs before and after:\n%s", diff)
		}
		deadline := time.Now().Add(30 * time.Second)
		for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			stacks := make([]byte, 1<<16)
			t.Errorf("%d goroutines, there were %d:\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	})
	return e
}

func TestNamesOfEmbeddedDevices(t *testing.T) {
	for name, want := range map[string]EmbeddedOptions{
		"embedded": {}, "embedded:nodes=3": {Nodes: 3},
		"embedded:nics=4,nodes=2,latency=20us,gbps=12.5,seed=0x10": {Nodes: 2, NICs: 4, Latency: 20 * time.Microsecond, Gbps: 12.5, Seed: 16},
	} {
		if got, ok, err := ParseEmbedded(name); got != want || !ok || err != nil {
			t.Errorf("%s: %+v, %v, %v", name, got, ok, err)
		}
	}
	for _, name := range []string{"", "rxe0", "efa_0,efa_1", "embedded0"} {
		if _, ok, err := ParseEmbedded(name); ok || err != nil {
			t.Errorf("%s is embedded: %v", name, err)
		}
	}
	for _, name := range []string{"embedded:", "embedded:nodes=0", "embedded:nodes=2,", "embedded:nics=65", "embedded:nics=x", "embedded:speed=1",
		"embedded:gbps=NaN", "embedded:gbps=-1", "embedded:latency=2h", "embedded:latency=5", "embedded:seed=-1"} {
		var wrong *OptionError
		if _, ok, err := ParseEmbedded(name); !ok || !errors.As(err, &wrong) || wrong.Option != "device" {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}
