package marker

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// attached raises the semaphore as the kernel does when a tracer attaches.
func attached(t testing.TB) {
	t.Helper()
	if !Built {
		t.Skip("needs cgo: without it there are no sites")
	}
	atomic.StoreUint32(semaphore, 1)
	t.Cleanup(func() { atomic.StoreUint32(semaphore, 0) })
}

func TestOn(t *testing.T) {
	if On() {
		t.Error("a tracer is attached")
	}
	attached(t)
	if !On() {
		t.Error("no tracer is attached")
	}
}

// The notes in sites and internal/perf's C say the same.
func TestMarkLayout(t *testing.T) {
	var m Mark
	for name, at := range map[string][2]uintptr{
		"device": {unsafe.Offsetof(m.device), 0}, "id": {unsafe.Offsetof(m.id), 8}, "ns": {unsafe.Offsetof(m.ns), 16},
		"bytes": {unsafe.Offsetof(m.bytes), 24}, "qp": {unsafe.Offsetof(m.qp), 32}, "opcode": {unsafe.Offsetof(m.opcode), 36},
		"status": {unsafe.Offsetof(m.status), 40}, "passed": {unsafe.Offsetof(m.passed), 44},
	} {
		if at[0] != at[1] {
			t.Errorf("%s is at %d; the notes say %d", name, at[0], at[1])
		}
	}
}

// A queue marks one operation after another, never two at once, and counts all of those
// between.
func TestOneAtATime(t *testing.T) {
	attached(t)
	var q Queue
	q.Name("nic0")
	if s := unsafe.String(q.mark.device, 5); s != "nic0\x00" {
		t.Errorf("device %q", s)
	}
	posted, marked, counted := 0, 0, 0
	for batch := range 1000 {
		n, taken := 1+batch%7, 1+batch%5
		at := q.Due(n)
		if at >= n {
			t.Fatalf("operation %d of %d is due", at, n)
		}
		taken = min(taken, n)
		if at >= 0 && at < taken {
			if q.Waiting() {
				t.Fatal("one is marked while another is in flight")
			}
			q.Choose(1, uint64(posted+at), 4096, 17)
			if !q.Chosen() {
				t.Fatal("not chosen")
			}
			q.Post()
			marked++
			counted += int(q.mark.passed) + 1
			if counted != posted+at+1 {
				t.Fatalf("operation %d was marked, and %d counted before it", posted+at, counted-1)
			}
		}
		q.Passed(taken)
		posted += taken
		if q.Waiting() && batch%3 == 0 {
			if q.Complete(0); q.Waiting() || q.Chosen() {
				t.Fatal("it has completed")
			}
		}
	}
	if marked < 1 || marked > posted/2 {
		t.Errorf("%d of %d operations were marked", marked, posted)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		operations int
		took       time.Duration
		want       int
	}{
		{1, Interval, 0},        // as often as it may be
		{1, 100 * Interval, 0},  // rarer: each
		{1, Interval / 100, 99}, // a burst
		{100, Interval, 99},
		{1 << 20, Interval, mostPassed - 1},
		{1, 0, mostPassed},
	} {
		if got := pace(c.operations, c.took); got != c.want {
			t.Errorf("%d in %v: %d; want %d", c.operations, c.took, got, c.want)
		}
	}
}

func TestMarkingAllocatesNothing(t *testing.T) {
	attached(t)
	var q Queue
	q.Name("nic0")
	if n := testing.AllocsPerRun(100, func() {
		q.left = 0
		q.Due(1)
		q.Choose(0, 1, 4096, 1)
		q.Post()
		q.Passed(1)
		q.Complete(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var sink int

// BenchmarkIdle is what a batch of 16 costs without a tracer.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		if On() {
			sink++
		}
	}
}

// BenchmarkMark is a marked operation without a tracer's breakpoints.
func BenchmarkMark(b *testing.B) {
	attached(b)
	var q Queue
	for b.Loop() {
		q.left = 0
		q.Due(1)
		q.Choose(0, 1, 4096, 1)
		q.Post()
		q.Passed(1)
		q.Complete(0)
	}
}
