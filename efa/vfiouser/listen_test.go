package vfiouser

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode.Type() != fs.ModeSocket || mode.Perm() != 0o600 {
		t.Errorf("the socket's mode is %s, want Srw-------", mode)
	}
	if _, err := Listen(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server got %v, want EADDRINUSE", err)
	}
	// A server that was killed leaves its socket behind.
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	if l, err = Listen(path); err != nil {
		t.Fatalf("a stale socket was not replaced: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket outlived its listener: %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path string
		want       error
	}{
		{"a file", file, syscall.EEXIST},
		{"a folder", dir, syscall.EEXIST},
		{"no folder", filepath.Join(dir, "none", "s"), fs.ErrNotExist},
		{"too long", filepath.Join(dir, strings.Repeat("x", 108)), syscall.ENAMETOOLONG},
	} {
		t.Run(test.name, func(t *testing.T) {
			if l, err := Listen(test.path); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
				if err == nil {
					l.Close()
				}
			}
		})
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}
