package usdt

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/peerdirect/peerdirect/internal/marker"
)

// own is this test's own file, which has the probes of package marker.
func own(t testing.TB) []byte {
	t.Helper()
	if !marker.Built {
		t.Skip("needs cgo: without it there are no probes in this file")
	}
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOwnProbes(t *testing.T) {
	b := own(t)
	probes, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	nop := map[string][]byte{"amd64": {0x90, 0xc3}, "arm64": {0x1f, 0x20, 0x03, 0xd5}}[runtime.GOARCH]
	names := ""
	for _, p := range probes {
		if p.Provider != "peerdirect" {
			continue
		}
		names += p.Name + " "
		if code := b[p.Site:][:len(nop)]; !bytes.Equal(code, nop) {
			t.Errorf("%s is at %x", p.Name, code)
		}
		if p.Semaphore == 0 || p.Semaphore%2 != 0 || p.Semaphore != probes[0].Semaphore || !bytes.Equal(b[p.Semaphore:][:2], []byte{0, 0}) {
			t.Errorf("%s has its semaphore at %#x", p.Name, p.Semaphore)
		}
	}
	if names != "post complete " {
		t.Errorf("probes %q", names)
	}
}

func TestFilesWithout(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "text": "#!/bin/sh\n" + string(make([]byte, 100)), "short": "\x7fELF\x02\x01"} {
		var format *FormatError
		if p, err := Read(bytes.NewReader([]byte(text)), int64(len(text))); p != nil || !errors.As(err, &format) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	f, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Read(f, info.Size()); !errors.Is(err, ErrNone) {
		t.Errorf("/bin/true: %v, %v", p, err)
	}
}
