package ebpfprobes

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeProc makes a /proc of processes that have the dma-bufs mapped that are given by
// process, and descriptors of other things.
func fakeProc(t testing.TB, processes, descriptors int, mapped map[int][]uint64) string {
	t.Helper()
	proc := t.TempDir()
	for pid := 1; pid <= processes; pid++ {
		folder := filepath.Join(proc, fmt.Sprint(pid))
		if err := os.MkdirAll(filepath.Join(folder, "fd"), 0o700); err != nil {
			t.Fatal(err)
		}
		for fd := range descriptors {
			if err := os.Symlink("/dev/null", filepath.Join(folder, "fd", fmt.Sprint(fd))); err != nil {
				t.Fatal(err)
			}
		}
		text := "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n" +
			"7f0000003000-7f0000004000 r-xp 00000000 08:01 44                         /usr/lib/dmabuf:\n"
		for _, inode := range mapped[pid] {
			text += fmt.Sprintf("7f0000000000-7f0000001000 rw-s 00000000 00:0b %d                         /dmabuf:frame 1\nbroken\n", inode)
		}
		if err := os.WriteFile(filepath.Join(folder, "maps"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("1", filepath.Join(proc, "self")); err != nil {
		t.Fatal(err)
	}
	return proc
}

// TestHoldersThatAreHidden: what nobody is seen to hold is not known to be held by nobody
// where a process may not be looked at, and is not looked for again at once.
func TestHoldersThatAreHidden(t *testing.T) {
	proc := fakeProc(t, 3, 1, nil)
	for _, folder := range []string{filepath.Dir(proc), proc} {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range []string{"1", "2", "3"} {
		for _, name := range []string{"", "fd", "maps"} {
			if err := os.Chmod(filepath.Join(proc, pid, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.LockOSThread() // files are looked at as nobody by this thread alone
	defer runtime.UnlockOSThread()
	if was, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Fatal(err)
	} else {
		defer unix.SetfsuidRetUid(was)
	}
	makers := map[uint64]int{50: 0}
	var seen, hidden holderSearch
	seen.look(proc, makers, time.Hour)
	if held, known := seen.holds(50); held || !known {
		t.Errorf("all may be looked at: held %v, known %v", held, known)
	}
	func() {
		was, _ := unix.SetfsuidRetUid(os.Geteuid())
		defer unix.SetfsuidRetUid(was)
		for _, name := range []string{"fd", "maps"} {
			if err := os.Chmod(filepath.Join(proc, "2", name), 0); err != nil {
				t.Fatal(err)
			}
		}
	}()
	for range 2 {
		hidden.look(proc, makers, time.Hour)
		if held, known := hidden.holds(50); held || known || len(hidden.left) != 0 {
			t.Errorf("one may not: held %v, known %v, %d to look at", held, known, len(hidden.left))
		}
	}
}

// TestHolders: makers are asked first, all processes only for what nobody is known to
// hold, and no report takes longer than its budget and one process.
func TestHolders(t *testing.T) {
	const processes = 9
	proc := fakeProc(t, processes, 1, map[int][]uint64{1: {42, 44}, 2: {43}, 9: {45}})
	var h holderSearch
	type answer struct{ held, known bool }
	check := func(when string, want map[uint64]answer) {
		t.Helper()
		for inode, w := range want {
			if held, known := h.holds(inode); (answer{held, known}) != w {
				t.Errorf("%s: %d: held %v, known %v; want %+v", when, inode, held, known, w)
			}
		}
	}
	h.look(proc, map[uint64]int{42: 1, 43: 2}, 0)
	check("by their makers", map[uint64]answer{42: {true, true}, 43: {true, true}, 44: {false, false}})
	if len(h.left) > 0 {
		t.Errorf("looks through all processes for what their makers hold")
	}
	// The maker of 44 is another, that of 50 has ended: nobody holds it.
	makers := map[uint64]int{44: 2, 50: 0}
	looks := 0
	for ; looks < 2*processes; looks++ {
		h.look(proc, makers, 0)
		if _, known := h.holds(50); known {
			break
		}
		if held, known := h.holds(44); known && !held {
			t.Fatal("44 is held, and said not to be")
		}
	}
	if looks < processes-1 {
		t.Errorf("went through %d processes in %d looks without time", processes, looks+1)
	}
	check("after a whole pass", map[uint64]answer{44: {true, true}, 50: {false, true}, 42: {false, false}})
	if h.look(proc, makers, time.Hour); len(h.left) > 0 {
		t.Error("looks again at once for what nobody holds")
	}
	h.unheld[50] = time.Now().Add(-2 * askAgain)
	h.look(proc, makers, 0)
	if len(h.left) != processes-1 {
		t.Errorf("%d processes are left of a pass after a minute", len(h.left))
	}
	h.look(proc, map[uint64]int{}, time.Hour)
	check("when it has ended", map[uint64]answer{44: {false, false}, 50: {false, false}})
}

// BenchmarkHolders is what a report takes on a machine with 4,000 processes of 32
// descriptors each, where 64 dma-bufs have outlived their makers.
func BenchmarkHolders(b *testing.B) {
	const processes = 4000
	mapped, makers := make(map[int][]uint64), make(map[uint64]int)
	for i := range 64 {
		mapped[1+i*60] = append(mapped[1+i*60], uint64(100+i))
		makers[uint64(100+i)] = 0
	}
	proc := fakeProc(b, processes, 32, mapped)
	for name, budget := range map[string]time.Duration{"pass": time.Hour, "budget": HolderBudget} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var h holderSearch
				h.look(proc, makers, budget)
			}
		})
	}
	b.Run("known", func(b *testing.B) {
		var h holderSearch
		h.look(proc, makers, time.Hour)
		b.ReportAllocs()
		for b.Loop() {
			h.look(proc, makers, HolderBudget)
		}
	})
	b.Run("makers", func(b *testing.B) {
		alive := make(map[uint64]int)
		for pid, inodes := range mapped {
			alive[inodes[0]] = pid
		}
		var h holderSearch
		h.look(proc, alive, time.Hour)
		b.ReportAllocs()
		for b.Loop() {
			h.look(proc, alive, HolderBudget)
		}
	})
}
