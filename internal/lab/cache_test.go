package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAcquireBuildsOnce(t *testing.T) {
	cache := t.TempDir()
	var builds, waits atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			e, err := acquire(t.Context(), cache, "x", func() { waits.Add(1) }, func(dir string, _ *os.File) error {
				builds.Add(1)
				time.Sleep(50 * time.Millisecond)
				return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer e.Close()
			if _, err := os.Stat(filepath.Join(e.dir, "whole")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if builds.Load() != 1 {
		t.Errorf("%d builds of one entry", builds.Load())
	}
	if waits.Load() == 0 {
		t.Error("nobody was told of waiting")
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	failure := errors.New("no")
	_, err := acquire(t.Context(), cache, "x", func() {}, func(dir string, _ *os.File) error {
		os.WriteFile(filepath.Join(dir, "half"), nil, 0o644)
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"x", "x.part"} {
		if _, err := os.Stat(filepath.Join(cache, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// What a build that was killed left is not taken for whole, nor built upon.
func TestInterruptedBuild(t *testing.T) {
	cache := t.TempDir()
	part := filepath.Join(cache, "x.part")
	os.MkdirAll(part, 0o755)
	os.WriteFile(filepath.Join(part, "half"), nil, 0o644)
	e, err := acquire(t.Context(), cache, "x", func() {}, func(dir string, _ *os.File) error {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("the build found %v", left)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if _, err := os.Stat(part); err == nil {
		t.Error("the remains are still there")
	}
}

// A child of a builder that was killed still writes: nobody builds before it
// has ended.
func TestOrphanHoldsLock(t *testing.T) {
	cache := t.TempDir()
	start := time.Now()
	_, err := acquire(t.Context(), cache, "x", func() {}, func(_ string, lock *os.File) error {
		child := exec.Command("sleep", "0.5")
		child.ExtraFiles = []*os.File{lock}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		go child.Wait()
		return errors.New("killed")
	})
	if err == nil {
		t.Fatal("no error")
	}
	e, err := acquire(t.Context(), cache, "x", func() {}, func(string, *os.File) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if waited := time.Since(start); waited < 500*time.Millisecond {
		t.Errorf("built after %s, while the child lived", waited)
	}
}

func TestAcquireCancelled(t *testing.T) {
	cache := t.TempDir()
	held, err := lockFile(t.Context(), filepath.Join(cache, "x.lock"), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = acquire(ctx, cache, "x", cancel, func(string, *os.File) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClean(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "lab")
	if freed, err := cleanDir(t.Context(), cache); freed != 0 || err != nil {
		t.Fatalf("an absent cache: %d, %v", freed, err)
	}
	make := func(name string) *entry {
		e, err := acquire(t.Context(), cache, name, func() {}, func(dir string, _ *os.File) error {
			return os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1<<20), 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	make("idle").Close()
	used := make("used")
	freed, err := cleanDir(t.Context(), cache)
	if !errors.Is(err, errInUse) {
		t.Errorf("an entry in use: %v", err)
	}
	if freed < 1<<20 || freed > 2<<20 {
		t.Errorf("freed %d bytes", freed)
	}
	if _, err := os.Stat(used.dir); err != nil {
		t.Error("what was in use is gone")
	}
	used.Close()
	if _, err := cleanDir(t.Context(), cache); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cache); err == nil {
		t.Error("the folder is left")
	}
}

// Removing an entry and its lock file while others acquire it never gives two
// builders, nor an entry without content.
func TestCleanWhileAcquiring(t *testing.T) {
	cache := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var building atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				e, err := acquire(ctx, cache, "x", func() {}, func(dir string, _ *os.File) error {
					if building.Add(1) != 1 {
						t.Error("two builders")
					}
					defer building.Add(-1)
					return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
				})
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(e.dir, "whole")); err != nil {
					t.Error(err)
				}
				e.Close()
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := cleanEntry(ctx, filepath.Join(cache, "x")); err != nil && !errors.Is(err, errInUse) {
				t.Error(err)
			}
		}
	})
	all.Wait()
}

func TestEntryNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kernels {
		name := k.entryName()
		if name != k.entryName() || seen[name] {
			t.Errorf("%s names %s", name, k.Series)
		}
		seen[name] = true
	}
}
