package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci/watch"
)

// shared is a buffer that one writes while another reads.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// await waits until there is what a test is about.
func await(t *testing.T, text *shared, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(text.String(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q does not come; there is\n%s", want, text.String())
		}
	}
}

// A NIC goes and comes back while its machine is watched.
func TestTopoWatch(t *testing.T) {
	folder := topoRoot(t, "")
	root, err := sysroot.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	o := topoOptions{json: true, interval: 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr shared
	ended := make(chan error, 1)
	go func() { ended <- o.followRoot(ctx, root, &stdout, &stderr) }()
	await(t, &stdout, `"address":"0000:85:00.0"`)
	entry := filepath.Join(folder, "sys/bus/pci/devices/0000:05:00.0")
	target, err := os.Readlink(entry)
	if err != nil {
		t.Fatal(err)
	}
	device, aside := filepath.Join(filepath.Dir(entry), target), filepath.Join(t.TempDir(), "aside")
	class := filepath.Join(folder, "sys/class/infiniband/mlx5_1")
	to, err := os.Readlink(class)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(class), os.Rename(device, aside), os.Remove(entry)); err != nil {
		t.Fatal(err)
	}
	await(t, &stdout, `"field":"rails","from":"0000:04:00.0 0000:05:00.0","to":"0000:04:00.0"`)
	await(t, &stdout, `"event":"removed","address":"0000:05:00.0"`)
	if err := errors.Join(os.Rename(aside, device), os.Symlink(target, entry), os.Symlink(to, class)); err != nil {
		t.Fatal(err)
	}
	await(t, &stdout, `"field":"rails","from":"0000:04:00.0","to":"0000:04:00.0 0000:05:00.0"`)
	cancel()
	if err := <-ended; err != nil || stderr.String() != "" {
		t.Errorf("%v, %s", err, stderr.String())
	}
	var events []string
	for line := range strings.Lines(stdout.String()) {
		var r watch.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Schema != watch.Schema {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Address != nil && *r.Address == "0000:05:00.0" && r.Source == "compare" && r.Event != watch.Changed {
			events = append(events, r.Event)
		}
	}
	if got := strings.Join(events, " "); got != "present removed added" {
		t.Errorf("it was %s", got)
	}
}

func TestTopoWatchText(t *testing.T) {
	root, err := sysroot.Open(topoRoot(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	o := topoOptions{interval: time.Minute}
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr shared
	ended := make(chan error, 1)
	go func() { ended <- o.followRoot(ctx, root, &stdout, &stderr) }()
	await(t, &stdout, "  0000:03:00.0 GPU0       present accelerator\n")
	cancel()
	if err := <-ended; err != nil || stderr.String() != "" {
		t.Errorf("%v, %s", err, stderr.String())
	}
}

// What cannot be watched ends at once, with its exit code.
func TestTopoWatchFailures(t *testing.T) {
	empty, err := sysroot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	machine, err := sysroot.Open(topoRoot(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	o := topoOptions{overrides: overrides(t, "GPU7 = mlx5_0"), interval: time.Minute}
	if o.pair.Overrides, err = readOverrides(o.overrides); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if err := o.followRoot(t.Context(), empty, &stdout, &stderr); exitCode(err) != exitNoDevice {
		t.Error(err)
	}
	if err := o.followRoot(t.Context(), machine, &stdout, &stderr); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "rails:1: no such device: GPU7") {
		t.Error(err)
	}
	if strings.Contains(stdout.String(), watch.Present) {
		t.Errorf("%s", &stdout)
	}
}
