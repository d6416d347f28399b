package dmabuf

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const page = 4096

// leavesNothing compares what is open at the test's end with now.
func leavesNothing(t testing.TB) {
	t.Helper()
	live, fds := fmt.Sprint(Live()), descriptors(t)
	t.Cleanup(func() {
		if now := fmt.Sprint(Live()); now != live {
			t.Errorf("objects left: %s, before: %s", now, live)
		}
		if now := descriptors(t); now != fds {
			t.Errorf("descriptors left: %d, before: %d", now, fds)
		}
	})
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		// Go's runtime opens its poller when it first needs it.
		if link, _ := os.Readlink("/proc/self/fd/" + e.Name()); !strings.HasPrefix(link, "anon_inode:[event") {
			n++
		}
	}
	return n
}

// refused checks an error's class, and that its text says what a person needs.
func refused(t testing.TB, err, class error, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got %v, want %v", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}

func pattern(n int, seed byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i) ^ byte(i>>8) ^ seed
	}
	return p
}

// exhaust leaves the process with room for that many descriptors.
func exhaust(t *testing.T, room int) (undo func()) {
	t.Helper()
	// Go's runtime gives up where it cannot open its poller, which it does with
	// the first file.
	if _, err := os.ReadFile("/proc/self/maps"); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var held []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		held = append(held, fd)
	}
	for _, fd := range held[:room] {
		unix.Close(fd)
	}
	return func() {
		for _, fd := range held[room:] {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
