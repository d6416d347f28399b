//go:build lab

package ebpfprobes

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

// TestWindowsOpenAndClose opens windows on a process that polls all the time, by one call
// a function and by one call a program, and tells how long it took. Both see the same.
func TestWindowsOpenAndClose(t *testing.T) {
	devices, _ := filepath.Glob("/sys/class/infiniband/rxe*")
	if len(devices) == 0 {
		t.Skip("needs rxe: run it in the lab")
	}
	path := filepath.Join(t.TempDir(), "poller")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-o", path, "testdata/poller.c", "-libverbs", "-lefa").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(path, filepath.Base(devices[0]), "rc", "poll", "64", "10000000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the poller says %q: %v", line, err)
	}
	s, err := Completions(CompletionFilter{PID: cmd.Process.Pid, Polled: true, Window: time.Second, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.polled.end() // windows are opened below
	in.Write([]byte("\n"))
	can := s.polled.multi
	t.Logf("the kernel attaches to many functions at once: %v", can)
	for _, multi := range []bool{false, true} {
		if multi && !can {
			break
		}
		p := &polled{session: s, pid: cmd.Process.Pid, multi: multi}
		if err := p.loadPrograms(); err != nil {
			t.Fatal(err)
		}
		if err := p.look(); err != nil && !errors.Is(err, provider.ErrUnknown) {
			t.Fatal(err)
		}
		p.window(t.Context(), time.Millisecond) // opens the library
		p.sampling = Sampling{}
		const windows = 4
		for range windows {
			p.window(t.Context(), 10*time.Millisecond)
		}
		for _, q := range p.tell() {
			if q.Usable != Yes && !strings.HasSuffix(q.Role, ": "+string(provider.EndPoll)) {
				t.Errorf("many at once %v: %v", multi, q)
			}
		}
		n := p.sampling
		t.Logf("many at once %v: %d functions, %d calls; a window is opened in %v and closed in %v; followed %v", multi,
			len(p.targets), len(joints(p.targets, multi)), n.Opening/windows, n.Closing/windows, n.Followed/windows)
		if err := p.unload(); err != nil {
			t.Error(err)
		}
	}
	var posts uint64
	if err := s.variables["posts"].Get(&posts); err != nil || posts == 0 {
		t.Errorf("%d work requests were seen: %v", posts, err)
	}
}
