// Package leaktest looks what a test has left behind.
package leaktest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/verbs"
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

// Held checks at the end of the test that the process holds what it held before:
// objects of every kind, and descriptors.
func Held(t *testing.T) {
	t.Helper()
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close() // the runtime opens its poller with the first, for good
	}
	before := held(t)
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for held(t) != before && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		if diff := cmp.Diff(before, held(t)); diff != "" {
			t.Errorf("before and after:\n%s", diff)
		}
	})
}

func held(t *testing.T) string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("verbs %v efa %v dmabuf %v descriptors %d", verbs.Live(), efa.Live(), dmabuf.Live(), len(fds))
}
