package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The cache is a folder of entries, each the outcome of one recipe:
//
//	root-7.3-1f2e3d4c5b6a       whole, or absent: it was renamed into place
//	root-7.3-1f2e3d4c5b6a.part  being built, or left by a build that died
//	root-7.3-1f2e3d4c5b6a.lock  flock: shared by those who use or look,
//	                            exclusive for who builds or removes
//	kvm.json                    what became of KVM, see accel.go
//
// A lock belongs to an open file, so a process that dies releases it.

// CacheDir gives the folder that holds the lab's roots. It need not exist.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for the lab's cache: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "peerdirect", "lab"), nil
}

// lockFile takes the lock at path, exclusive or shared, waiting for it unless
// wait is nil; wait is called once if there is something to wait for. It fails
// with errInUse if it would have to wait and may not.
func lockFile(ctx context.Context, path string, exclusive bool, wait func()) (*os.File, error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, err
		}
		err = flock(ctx, f, how, wait)
		if err != nil {
			f.Close()
			return nil, err
		}
		// Who removes an entry removes its lock file while holding it: a lock
		// on a file that no longer has the name guards nothing.
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return f, nil
		}
		f.Close()
	}
}

// errInUse says that another process uses what was to be removed.
var errInUse = errors.New("in use by another process")

func flock(ctx context.Context, f *os.File, how int, wait func()) error {
	waited := false
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case err == syscall.EINTR:
			continue
		case err != syscall.EWOULDBLOCK:
			return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		case wait == nil:
			return errInUse
		case !waited:
			waited = true
			wait()
		}
		// A blocking flock cannot be cancelled; builds take minutes, so a look
		// now and then is as good.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// entry is a finished folder of the cache, kept from removal until Close.
type entry struct {
	dir  string
	lock *os.File
}

func (e *entry) Close() error { return e.lock.Close() }

// acquire gives the entry called name, made by build if it is not there. build
// gets an empty folder; what it leaves is renamed into place if it succeeds,
// and removed if not. lock is what keeps others away: a child that inherits it
// keeps them away for as long as it lives. Of several processes that ask at once one builds, and
// the others wait and take what it made; wait is called before waiting.
func acquire(ctx context.Context, cache, name string, wait func(), build func(dir string, lock *os.File) error) (*entry, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, name)
	for {
		shared, err := lockFile(ctx, dir+".lock", false, wait)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(dir); err == nil {
			return &entry{dir, shared}, nil
		}
		shared.Close()

		exclusive, err := lockFile(ctx, dir+".lock", true, wait)
		if err != nil {
			return nil, err
		}
		if err := buildLocked(dir, exclusive, build); err != nil {
			exclusive.Close()
			return nil, err
		}
		// Turning an exclusive lock into a shared one is not atomic, so go
		// round: someone may remove the entry in between.
		exclusive.Close()
	}
}

func buildLocked(dir string, lock *os.File, build func(dir string, lock *os.File) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil // another process was faster
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.Mkdir(part, 0o755); err != nil {
		return err
	}
	if err := build(part, lock); err != nil {
		os.RemoveAll(part)
		return err
	}
	return os.Rename(part, dir)
}

// Clean removes every entry of the cache and gives the bytes freed. An entry in
// use stays, and is named in the error.
func Clean(ctx context.Context) (freed int64, err error) {
	cache, err := CacheDir()
	if err != nil {
		return 0, err
	}
	return cleanDir(ctx, cache)
}

func cleanDir(ctx context.Context, cache string) (freed int64, err error) {
	items, err := os.ReadDir(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var problems []error
	for _, item := range items {
		name, isLock := strings.CutSuffix(item.Name(), ".lock")
		if !isLock {
			continue // removed along with its lock, or below
		}
		n, err := cleanEntry(ctx, filepath.Join(cache, name))
		freed += n
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", filepath.Join(cache, name), err))
		}
	}
	if len(problems) == 0 {
		os.Remove(filepath.Join(cache, "kvm.json"))
		os.Remove(cache) // fails, rightly, if someone just began a build
	}
	return freed, errors.Join(problems...)
}

func cleanEntry(ctx context.Context, dir string) (freed int64, err error) {
	lock, err := lockFile(ctx, dir+".lock", true, nil)
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	for _, d := range []string{dir, dir + ".part"} {
		freed += diskUsage(d)
		// Rename first: an interrupted removal must not leave half a root under
		// the name of a whole one.
		if d == dir {
			os.Rename(dir, dir+".part")
			d = dir + ".part"
		}
		if err := os.RemoveAll(d); err != nil {
			return 0, err
		}
	}
	return freed, os.Remove(dir + ".lock")
}

// diskUsage adds up the blocks under dir, in bytes; what it cannot read counts
// as nothing.
func diskUsage(dir string) (bytes int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return bytes
}
