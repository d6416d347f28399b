package lab

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The kernel is not the only reader of the format: cpio reads it back.
func TestCPIO(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("needs cpio: 'apt-get install cpio'")
	}
	var archive bytes.Buffer
	w := newCPIO(&archive)
	w.dir("d")
	content := map[string]string{"d/empty": "", "d/one": "1", "d/four": "1234", "d/five": "12345"}
	for name, text := range content {
		w.file(name, 0o640, []byte(text))
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if archive.Len()%4 != 0 {
		t.Errorf("%d bytes are no multiple of 4", archive.Len())
	}
	dir := t.TempDir()
	cmd := exec.Command("cpio", "-i", "-d", "--no-preserve-owner")
	cmd.Dir, cmd.Stdin = dir, &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range content {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
	}
}

func TestCPIOFirstError(t *testing.T) {
	r, pipe := io.Pipe()
	failure := errors.New("disk full")
	r.CloseWithError(failure)
	w := newCPIO(pipe)
	w.file("f", 0o644, []byte("x"))
	if err := w.close(); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestWriteInitramfs(t *testing.T) {
	tree := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(tree, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "initramfs")
	if err := writeInitramfs(tree, out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a root without busybox: %v", err)
	}
	put("bin/busybox", "BUSYBOX")
	put("peerdirect/early/order", "first\nsecond\n")
	put("peerdirect/early/first.ko", "FIRST")
	if err := writeInitramfs(tree, out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a root without a module: %v", err)
	}
	put("peerdirect/early/second.ko", "SECOND")
	if err := writeInitramfs(tree, out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BUSYBOX", "FIRST", "SECOND", "switch_root", "TRAILER!!!"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is missing", want)
		}
	}
}
