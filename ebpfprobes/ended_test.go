package ebpfprobes

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestSums adds up what is alike, keeps apart what is not, and bounds the names.
func TestSums(t *testing.T) {
	type key struct{ name, what string }
	s := sums[key, uint64]{
		nameless: func(k key) key { k.name = ""; return k },
		add:      func(sum, more *uint64) { *sum += *more },
	}
	for i := range 3 * mostEnded {
		n := uint64(i)
		s.take(key{fmt.Sprint("p", i%(2*mostEnded)), []string{"a", "b"}[i%2]}, &n)
	}
	var sum uint64
	s.each(func(_ key, n *uint64) { sum += *n })
	if want := uint64(3*mostEnded) * (3*mostEnded - 1) / 2; sum != want || len(s.rows) > mostEnded+2 {
		t.Errorf("%d in %d rows, want %d in %d at most", sum, len(s.rows), want, mostEnded+2)
	}
	if n := *s.rows[key{"p0", "a"}]; n != 2*mostEnded {
		t.Errorf("of a name that was kept: %d, want %d", n, 2*mostEnded)
	}
}

func TestDeparted(t *testing.T) {
	const never = 1 << 30 // above every pid_max
	d := departedOf([]int{0, 1, never, never}, func(p *int) int { return *p })
	if d[0] || d[1] || !d[never] {
		t.Errorf("%v", d)
	}
}

func TestEndedErrors(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	cause := &CommandFailure{What: "efa_com_create_qp", Err: syscall.ENOMEM}
	var e endedErrors
	row := ErrorRow{ErrorSort: ErrorSort{PID: 7, Device: "rxe0", What: "create qp (write)", Err: syscall.ENOMEM}, Command: "a",
		Count: 3, First: at(10), Last: at(20), Number: 1}
	e.add(row)
	first := e.list()
	row.PID, row.Count, row.First, row.Last, row.Number, row.Cause = 8, 4, at(5), at(30), 2, cause
	e.add(row)
	row.PID, row.First, row.Last, row.Number, row.Cause = 9, at(12), at(15), 3, nil // older than what is known
	e.add(row)
	row.Err = syscall.EINVAL
	e.add(row)
	if len(first) != 1 || first[0].Count != 3 {
		t.Errorf("what was given before has changed: %+v", first)
	}
	for _, r := range e.list() {
		want := ErrorRow{ErrorSort: row.ErrorSort, Command: "a", Ended: true, Count: 4, First: at(12), Last: at(15), Number: 3}
		if r.Err == syscall.ENOMEM {
			want.Err, want.Count, want.First, want.Last, want.Number, want.Cause = syscall.ENOMEM, 11, at(5), at(30), 2, cause
		}
		want.PID = 0
		if r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if n := len(e.list()); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestEndedTransitions(t *testing.T) {
	var e endedTransitions
	row := QPTransition{PID: 7, Command: "a", Device: "rxe0", Change: Modified, From: StateReset, To: StateInit, Count: 2, Sum: 30, Longest: 20}
	e.add(row)
	row.PID, row.Count, row.Sum, row.Longest = 8, 1, 5, 5
	e.add(row)
	row.To = StateError
	e.add(row)
	for _, r := range e.list() {
		want := row
		if r.To == StateInit {
			want.To, want.Count, want.Sum, want.Longest = StateInit, 3, 35, 20
		}
		want.PID, want.Ended = 0, true
		if r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if n := len(e.list()); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestEndedCompletions(t *testing.T) {
	var e endedCompletions
	add := func(pid int, command string, queue uint64, n uint64) {
		h := Histogram{Count: n, Sum: time.Duration(n) * 100, Longest: 100, Slots: make([]uint64, 64)}
		h.Slots[40] = n
		e.add(CompletionRow{CompletionKey: CompletionKey{PID: pid, Device: "rxe0", Queue: queue, Number: int64(queue)},
			Command: command, Times: h, Failed: 1, Bytes: 10, Untimed: 2, Repeated: 3})
	}
	const living = 1
	add(0, "a", 1, 3)
	add(0, "a", 2, 4)
	add(living, "a", 3, 5) // queues that were given up
	add(living, "a", 4, 6)
	add(1<<30, "a", 5, 7) // and the process has ended since
	e.bury(departed{1 << 30: true})
	want := map[int]CompletionRow{0: {Failed: 3, Bytes: 30, Untimed: 6, Repeated: 9}, living: {Failed: 2, Bytes: 20, Untimed: 4, Repeated: 6}}
	for _, r := range e.list() {
		w := want[r.PID]
		count := map[int]uint64{0: 14, living: 11}[r.PID]
		if r.Times.Count != count || r.Times.Slots[40] != count || r.Times.Longest != 100 || r.Queue != 0 || r.Number != -1 || r.Command != "a" ||
			r.Failed != w.Failed || r.Bytes != w.Bytes || r.Untimed != w.Untimed || r.Repeated != w.Repeated {
			t.Errorf("%+v, want %d of %+v", r, count, w)
		}
		delete(want, r.PID)
	}
	if len(want) > 0 {
		t.Errorf("not there: %+v", want)
	}
	e.addFailure(CompletionFailure{PID: 7, Command: "a", QP: 1, Queue: 2, Status: 5, Count: 2})
	e.addFailure(CompletionFailure{PID: 8, Command: "a", QP: 3, Queue: 4, Status: 5, Count: 3})
	if f := e.listFailures(); len(f) != 1 || f[0] != (CompletionFailure{Command: "a", Status: 5, Count: 5}) {
		t.Errorf("%+v", f)
	}
}

// TestWallClock keeps a difference that is the same, and takes one that is not.
func TestWallClock(t *testing.T) {
	const second = int64(time.Second)
	var c wallClock
	for i, step := range []struct{ offset, doubt, want int64 }{
		{5 * second, 0, 5 * second},
		{5*second + sameOffset, 0, 5 * second},
		{5*second - sameOffset, 0, 5 * second},
		{5*second + sameOffset + 1, 0, 5*second + sameOffset + 1},
		{5*second - 40*sameOffset, 50 * sameOffset, 5*second + sameOffset + 1}, // read by a thread that had to wait
		{-3600 * second, 0, -3600 * second},
	} {
		if got := c.keep(step.offset, step.doubt); got != step.want {
			t.Errorf("%d: %d, want %d", i, got, step.want)
		}
	}
	now := new(wallClock).at(uint64(monotonic()))
	if d := time.Since(now); d > time.Minute || d < -time.Minute {
		t.Errorf("now is %v", now)
	}
}

// TestJoints: exits come before entries, and functions of one program and library go
// together where the kernel can do that.
func TestJoints(t *testing.T) {
	targets := []target{
		{file: "a", offset: 1, point: userPoint{entry: "poll", exit: "poll_end"}},
		{file: "a", offset: 2, point: userPoint{entry: "build", cookie: 7}},
		{file: "b", offset: 3, point: userPoint{entry: "build", cookie: 8}},
		{file: "a", offset: 4, point: userPoint{entry: "build", cookie: 9}},
		{file: "a", offset: 5, point: userPoint{exit: "opcode_end"}},
	}
	for together, want := range map[bool]string{
		true: "[{a poll_end true [1] [0] [0]} {a poll false [1] [0] [0]} {a build false [2 4] [7 9] [1 3]}" +
			" {b build false [3] [8] [2]} {a opcode_end true [5] [0] [4]}]",
		false: "[{a poll_end true [1] [0] [0]} {a poll false [1] [0] [0]} {a build false [2] [7] [1]}" +
			" {b build false [3] [8] [2]} {a build false [4] [9] [3]} {a opcode_end true [5] [0] [4]}]",
	} {
		if got := fmt.Sprint(joints(targets, together)); got != want {
			t.Errorf("together %v:\n%s\nwant\n%s", together, got, want)
		}
	}
}
