package dmabuf

import (
	"fmt"
	"runtime"

	"github.com/peerdirect/peerdirect/internal/life"
)

var objects = life.In("dmabuf")

// Live gives how many objects of each kind ("buffer", "memory") are open in
// this process. Kinds with none are left out.
func Live() map[string]int { return objects.Live() }

// ReportLeaks has report called for each buffer and memory made from now on that
// the program loses without closing it, with what it was and where it was made.
// The call comes from the runtime's clean-up goroutine, some time after the last
// reference is gone; nothing is closed by it. A nil report ends the watch for new
// ones.
func ReportLeaks(report func(text string)) { objects.ReportLeaks(report) }

// openMemory counts memory, and begins the report of its loss.
func openMemory[T any](m *T, exporter string, size uint64) runtime.Cleanup {
	objects.Count("memory", 1)
	return life.Watch(objects, m, fmt.Sprintf("memory of %s, %d bytes", exporter, size))
}

// closedMemory ends both.
func closedMemory(watch runtime.Cleanup) {
	watch.Stop()
	objects.Count("memory", -1)
}
