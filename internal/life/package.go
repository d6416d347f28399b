// Package life keeps the lives of objects that stand on each other: which of a
// package's are open, what stands on what, and which a program lost without closing
// them. What an object is, and how it is made and destroyed, is its package's.
package life

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// Package is what one package knows of its objects.
type Package struct {
	inside string // begins the names of its functions
	leaks  atomic.Pointer[func(text string)]

	mu   sync.Mutex
	live map[string]int
}

// In makes the knowledge of a package of this module: "verbs".
func In(path string) *Package {
	return &Package{inside: "github.com/peerdirect/peerdirect/" + path + ".", live: make(map[string]int)}
}

// Live gives how many objects of each kind are open. Kinds with none are left out.
func (p *Package) Live() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]int, len(p.live))
	for kind, n := range p.live {
		if n != 0 {
			out[kind] = n
		}
	}
	return out
}

// Count adds d to what is open of a kind.
func (p *Package) Count(kind string, d int) {
	p.mu.Lock()
	p.live[kind] += d
	p.mu.Unlock()
}

// ReportLeaks has report called for each object that is watched from now on and is
// lost. nil ends the watch for new ones.
func (p *Package) ReportLeaks(report func(text string)) {
	if report == nil {
		p.leaks.Store(nil)
		return
	}
	p.leaks.Store(&report)
}

// Watch begins the report of an object, where one is wanted, until the cleanup is
// stopped: "WHAT was dropped without Close; it was made at FILE:LINE".
func Watch[T any](p *Package, object *T, what string) runtime.Cleanup {
	return watch(p, object, func() string { return what })
}

// watch asks what was lost when it is; the function must not lead to the object.
func watch[T any](p *Package, object *T, lost func() string) runtime.Cleanup {
	if p.leaks.Load() == nil {
		return runtime.Cleanup{}
	}
	made := p.caller()
	return runtime.AddCleanup(object, func(lost func() string) {
		what := lost()
		if report := p.leaks.Load(); report != nil {
			(*report)(fmt.Sprintf("%s was dropped without Close; it was made at %s", what, made))
		}
	}, lost)
}

// caller is the nearest frame outside of the package and this one.
func (p *Package) caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, p.inside) || strings.Contains(f.Function, "/internal/life.")
		if !inside || strings.HasSuffix(f.File, "_test.go") || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}
