package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTopoCapture(t *testing.T) {
	root := topoRoot(t, "sys/devices/pci0000:00/0000:00:1f.0/serial_number = SN-4711\n")
	folder := t.TempDir()
	_, want, _ := topoRun(t, nil, "--sysroot", root, "--pci-ids", "testdata/topo.ids")
	for _, name := range []string{"a.tar", "a.tgz", "a.tar.gz"} {
		file := filepath.Join(folder, name)
		code, stdout, stderr := topoRun(t, nil, "capture", "--sysroot", root, file)
		if code != exitOK || !strings.HasPrefix(stdout, "17 PCI functions: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "of 17 functions") {
			t.Errorf("exit %d: %s%s", code, stdout, stderr)
		}
		code, got, stderr := topoRun(t, nil, "--sysroot", file, "--pci-ids", "testdata/topo.ids")
		if code != exitOK || stderr != "" || strings.ReplaceAll(got, file, root) != want {
			t.Errorf("%s: exit %d, %s\n%s\nwant\n%s", name, code, stderr, got, want)
		}
	}
	plain, err := os.ReadFile(filepath.Join(folder, "a.tar"))
	if err != nil || bytes.Contains(plain, []byte("SN-4711")) {
		t.Errorf("the capture has a serial number; %v", err)
	}
	packed, err := os.ReadFile(filepath.Join(folder, "a.tgz"))
	if err != nil || len(packed) >= len(plain)/4 {
		t.Errorf("%d bytes packed, %d plain; %v", len(packed), len(plain), err)
	}
	// From one standard output to another standard input.
	code, stdout, stderr := topoRun(t, nil, "capture", "--sysroot", root, "-")
	if code != exitOK || stdout != string(plain) || !strings.HasPrefix(stderr, "17 PCI functions: ") {
		t.Errorf("exit %d, %d bytes, %s", code, len(stdout), stderr)
	}
	if code, got, stderr := topoRun(t, strings.NewReader(stdout), "--sysroot", "-", "--pairs"); code != exitOK || !strings.Contains(got, "mlx5_2") {
		t.Errorf("exit %d: %s%s", code, got, stderr)
	}
}

func TestTopoCaptureReplacesNothing(t *testing.T) {
	root := topoRoot(t, "")
	file := overrides(t, "dear to somebody")
	code, stdout, stderr := topoRun(t, nil, "capture", "--sysroot", root, file)
	if text, _ := os.ReadFile(file); code != exitFailed || stdout != "" || !strings.Contains(stderr, "--force") || string(text) != "dear to somebody" {
		t.Errorf("exit %d: %s%s; the file is %q", code, stdout, stderr, text)
	}
	if code, _, stderr := topoRun(t, nil, "capture", "--force", "--sysroot", root, file); code != exitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := topoRun(t, nil, "--sysroot", file); code != exitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 1 {
		t.Errorf("%v is left", entries)
	}
}

func TestTopoCaptureUsage(t *testing.T) {
	root, folder := topoRoot(t, ""), t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":            {[]string{"--sysroot", root}, exitUsage, "1 arg"},
		"two files":          {[]string{"a", "b"}, exitUsage, "1 arg"},
		"an empty name":      {[]string{"--sysroot", root, ""}, exitUsage, "name"},
		"a view":             {[]string{"--matrix", "a"}, exitUsage, "--matrix"},
		"nothing to capture": {[]string{"--sysroot", folder, folder + "/a"}, exitNoDevice, "holds sys"},
		"no such root":       {[]string{"--sysroot", folder + "/missing", folder + "/a"}, exitFailed, "missing"},
		"a folder":           {[]string{"--sysroot", root, folder}, exitFailed, "folder"},
		"no folder":          {[]string{"--sysroot", root, folder + "/missing/a"}, exitFailed, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := topoRun(t, nil, append([]string{"capture"}, c.args...)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 0 {
		t.Errorf("%v is left", entries)
	}
}
