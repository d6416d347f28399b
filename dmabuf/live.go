package dmabuf

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// live counts what is open, by kind.
var live struct {
	sync.Mutex
	n map[string]int
}

// Live gives how many objects of each kind ("buffer", "memory") are open in
// this process. Kinds with none are left out.
func Live() map[string]int {
	live.Lock()
	defer live.Unlock()
	out := make(map[string]int, len(live.n))
	for k, n := range live.n {
		if n != 0 {
			out[k] = n
		}
	}
	return out
}

func count(kind string, d int) {
	live.Lock()
	if live.n == nil {
		live.n = make(map[string]int)
	}
	live.n[kind] += d
	live.Unlock()
}

var leaks atomic.Pointer[func(text string)]

// ReportLeaks has report called for each buffer and memory made from now on that
// the program loses without closing it, with what it was and where it was made.
// The call comes from the runtime's clean-up goroutine, some time after the last
// reference is gone; nothing is closed by it. A nil report ends the watch for new
// ones.
func ReportLeaks(report func(text string)) {
	if report == nil {
		leaks.Store(nil)
		return
	}
	leaks.Store(&report)
}

// openMemory counts memory, and begins the report of its loss.
func openMemory[T any](m *T, exporter string, size uint64) runtime.Cleanup {
	count("memory", 1)
	return watchLeak(m, fmt.Sprintf("memory of %s, %d bytes", exporter, size))
}

// closedMemory ends both.
func closedMemory(watch runtime.Cleanup) {
	watch.Stop()
	count("memory", -1)
}

// watchLeak begins the report of an object, where one is wanted.
func watchLeak[T any](object *T, what string) runtime.Cleanup {
	if leaks.Load() == nil {
		return runtime.Cleanup{}
	}
	return runtime.AddCleanup(object, func(text string) {
		if report := leaks.Load(); report != nil {
			(*report)(text)
		}
	}, fmt.Sprintf("%s, was dropped without Close; it was made at %s", what, caller()))
}

// caller is the nearest frame outside this package.
func caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, "github.com/peerdirect/peerdirect/dmabuf.") && !strings.HasSuffix(f.File, "_test.go")
		if !inside || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}
