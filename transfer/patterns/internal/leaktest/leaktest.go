// Package leaktest looks what a test has left behind.
package leaktest

import (
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
)

// Check gives a function that reports goroutines more than there are now, and objects
// of EFA devices. What was ended may take a while to go.
func Check(t *testing.T) (left func()) {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		if live := efa.Live(); len(live) > 0 {
			t.Errorf("objects are left: %v", live)
		}
		for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	}
}
