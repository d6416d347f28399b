package doctor

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Of a running machine a node is looked at as it is: here files that behave as nodes
// do which something is wrong with.
func TestTryNode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "nothing-behind"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := running(t, "null/dev = 1:3", "other/dev = 231:192", "etc/group = root:x:0:\\nrdma:x:4711:")
	for name, c := range map[string]struct {
		node node
		want string
		why  string // in the remedy
	}{
		"allowed":               {node{"dev/null", "null/dev", "it is null", Fail, true}, "ok : it may be opened", ""},
		"allowed, not opened":   {node{"dev/null", "", "it is null", Fail, false}, "ok : it may be opened", ""},
		"made for another":      {node{"dev/null", "other/dev", "it is null", Fail, true}, "fail : its numbers are not the device's", "let udev make it"},
		"nothing behind it":     {node{strings.TrimPrefix(dir, "/") + "/nothing-behind", "", "it is empty", Warn, true}, "warn : it cannot be opened (no such device or address): it is empty", "no device behind it"},
		"gone in the meantime":  {node{strings.TrimPrefix(dir, "/") + "/gone", "", "it is gone", Note, true}, "note : it cannot be opened (no such file or directory)", ""},
		"not opened, so unseen": {node{strings.TrimPrefix(dir, "/") + "/nothing-behind", "", "it is empty", Warn, false}, "ok : it may be opened", ""},
	} {
		f := Finding{Summary: "it is there"}
		s.tryNode(c.node, &f)
		want(t, told([]Finding{f}), c.want)
		want(t, f.Remedy, c.why)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// Who may not open a node is told of whom it is.
func TestTryNodeRefused(t *testing.T) {
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string, mode os.FileMode, group int) string {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if group != 0 {
			if err := os.Chown(at, 0, group); err != nil {
				return ""
			}
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(at, "/")
	}
	closed, grouped := file("closed", 0, 0), file("grouped", 0o660, 4711)
	s := running(t, "etc/group = root:x:0:\\nrdma:x:4711:")
	try := func(name string) Finding {
		f := Finding{}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			// The thread ends with the goroutine, and nothing else runs as nobody.
			runtime.LockOSThread()
			if os.Geteuid() == 0 {
				unix.SetfsuidRetUid(65534)
			}
			s.tryNode(node{name, "", "it is for others", Fail, true}, &f)
		}()
		<-ended
		return f
	}
	f := try(closed)
	want(t, told([]Finding{f}), "fail : it cannot be opened (permission denied): it is for others")
	want(t, f.Remedy, "run as root")
	if grouped == "" {
		return // who is not root gives no file away
	}
	f = try(grouped)
	want(t, f.Remedy, "be of group rdma")
	want(t, lines(f.Commands), `usermod -aG rdma "${SUDO_USER:-$USER}"`)
}
