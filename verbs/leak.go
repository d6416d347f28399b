package verbs

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
)

var leaks atomic.Pointer[func(text string)]

// ReportLeaks has report called for each object made from now on that the
// program loses without closing it, with the object's name and where it was
// made. The call comes from the runtime's clean-up goroutine, some time after
// the last reference is gone; nothing is closed by it, because the order in
// which objects are found lost is not the order in which they can be closed.
// A nil report ends the watch for new objects.
func ReportLeaks(report func(text string)) {
	if report == nil {
		leaks.Store(nil)
		return
	}
	leaks.Store(&report)
}

// watch begins the report of an object, where one is wanted.
func (o *object) watch() {
	if leaks.Load() == nil {
		return
	}
	o.tag.made = caller()
	o.cleanup = runtime.AddCleanup(o, (*tag).report, o.tag)
}

func (t *tag) report() {
	t.lost.Store(true)
	if report := leaks.Load(); report != nil {
		(*report)(fmt.Sprintf("%s was dropped without Close; it was made at %s", *t.label.Load(), t.made))
	}
}

// caller is the nearest frame outside this package.
func caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, "github.com/peerdirect/peerdirect/verbs.") && !strings.HasSuffix(f.File, "_test.go")
		if !inside || !more {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
	}
}
