package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// The accelerators' driver is the project's own, so it is not part of the roots:
// its source changes with the project, and a root takes minutes. It is an entry of
// the cache for each kernel, made in seconds with the root's compiler.

//go:embed recipe/accel
var acceleratorSource embed.FS

//go:embed recipe/module.sh
var moduleScript string

const (
	acceleratorFolder = "recipe/accel"
	acceleratorModule = "peerdirect_accel.ko"
)

// moduleName names the cache entry of the module for a root.
func moduleName(r *root) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, filepath.Base(r.dir), r.Release)
	io.WriteString(h, moduleScript)
	err := fs.WalkDir(acceleratorSource, acceleratorFolder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := acceleratorSource.ReadFile(path)
		fmt.Fprintln(h, path, len(b))
		h.Write(b)
		return err
	})
	return "accel-" + r.Kernel.Series + "-" + hex.EncodeToString(h.Sum(nil))[:12], err
}

// openModule gives the folder that holds the accelerators' module for a root,
// building it if need be.
func openModule(ctx context.Context, r *root, log io.Writer) (*entry, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	name, err := moduleName(r)
	if err != nil {
		return nil, err
	}
	wait := func() { fmt.Fprintf(log, "lab: waiting for another process that builds %s\n", acceleratorModule) }
	e, err := acquire(ctx, cache, name, wait, func(dir string, lock *os.File) error {
		return buildModule(ctx, r, dir, lock, log)
	})
	if err != nil {
		return nil, fmt.Errorf("%s for linux %s: %w", acceleratorModule, r.Release, err)
	}
	return e, nil
}

// buildModule builds the module in a mount namespace in which its sources lie in
// the root, which stays as it is.
func buildModule(ctx context.Context, r *root, dir string, lock *os.File, log io.Writer) error {
	start := time.Now()
	work, err := os.MkdirTemp("", "peerdirect-lab-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source, err := fs.Sub(acceleratorSource, acceleratorFolder)
	if err != nil {
		return err
	}
	// Not MkdirTemp's own folder, which CopyFS would not make.
	work = filepath.Join(work, "accel")
	if err := os.CopyFS(work, source); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", moduleScript, "sh", r.tree(), work, r.Release)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.ExtraFiles = []*os.File{lock} // held for as long as anything works in dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	} else {
		id := func(host int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: host, Size: 1}} }
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = id(os.Geteuid()), id(os.Getegid())
	}
	runtime.LockOSThread() // Pdeathsig means the thread
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("building it: %w\n%s", err, tail(string(bytes.TrimSpace(out)), 15))
	}
	module, err := os.ReadFile(filepath.Join(work, acceleratorModule))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, acceleratorModule), module, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(log, "lab: %s for linux %s is built, %.0f s\n", acceleratorModule, r.Release, time.Since(start).Seconds())
	return nil
}
