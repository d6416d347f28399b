package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

//go:embed recipe/modules.sh
var modulesScript string

// recipeVersion changes when this package makes a different root out of the
// same packages and script.
const recipeVersion = 1

// root is a built root file system, kept from removal until Close.
type root struct {
	*entry
	Kernel  Kernel
	Release string // uname -r
}

func (r *root) tree() string      { return filepath.Join(r.dir, "tree") }
func (r *root) kernel() string    { return filepath.Join(r.tree(), "boot", "vmlinuz-"+r.Release) }
func (r *root) initramfs() string { return filepath.Join(r.dir, "initramfs") }

// entryName names the cache entry of k by all that decides what is in it, save
// the versions a mirror has on the day: those are recorded in the entry.
func (k Kernel) entryName() string {
	h := sha256.New()
	fmt.Fprintln(h, recipeVersion, k.Series, k.packages(), k.sources("MIRROR"), k.pin(), mmdebstrapOptions)
	io.WriteString(h, modulesScript)
	io.WriteString(h, earlyInit)
	return "root-" + k.Series + "-" + hex.EncodeToString(h.Sum(nil))[:12]
}

// BuiltSchema is the version of [Built]'s JSON.
const BuiltSchema = "peerdirect.lab.built/1"

// Built describes a root in the cache.
type Built struct {
	Schema  string  `json:"schema"`  // BuiltSchema
	Kernel  string  `json:"kernel"`  // series
	Release string  `json:"release"` // uname -r
	Dir     string  `json:"dir"`
	Seconds float64 `json:"build_seconds"` // 0 if it was there
}

// Build makes the root of kernel k unless the cache has it. Progress goes to
// log, a line a step. It needs mmdebstrap, a Debian mirror, about 1.5 GB of
// disk and a minute or two; errors name what lacks.
func Build(ctx context.Context, k Kernel, log io.Writer) (Built, error) {
	start := time.Now()
	r, built, err := openRoot(ctx, k, log)
	if err != nil {
		return Built{}, err
	}
	defer r.Close()
	module, err := openModule(ctx, r, log)
	if err != nil {
		return Built{}, err
	}
	defer module.Close()
	b := Built{Schema: BuiltSchema, Kernel: k.Series, Release: r.Release, Dir: r.dir}
	if built {
		b.Seconds = time.Since(start).Seconds()
	}
	return b, nil
}

// openRoot gives the root of k, building it if need be, and whether it did.
func openRoot(ctx context.Context, k Kernel, log io.Writer) (r *root, built bool, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, false, fmt.Errorf("the lab has no guests for %s yet, only amd64: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, false, err
	}
	wait := func() { fmt.Fprintf(log, "lab: waiting for another process that builds linux %s\n", k.Series) }
	e, err := acquire(ctx, cache, k.entryName(), wait, func(dir string, lock *os.File) error {
		built = true
		return buildRoot(ctx, k, dir, lock, log)
	})
	if err != nil {
		return nil, false, fmt.Errorf("lab for linux %s: %w", k.Series, err)
	}
	release, err := readRelease(filepath.Join(e.dir, "tree"))
	if err != nil {
		e.Close()
		return nil, false, err
	}
	return &root{entry: e, Kernel: k, Release: release}, built, nil
}

func readRelease(tree string) (string, error) {
	b, err := os.ReadFile(filepath.Join(tree, "peerdirect", "release"))
	return strings.TrimSpace(string(b)), err
}

func buildRoot(ctx context.Context, k Kernel, dir string, lock *os.File, log io.Writer) error {
	start := time.Now()
	mirror, err := hostMirror(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "lab: building a root for linux %s from Debian %s; once, a minute or two\n", k.Series, k.release)
	tree := filepath.Join(dir, "tree")
	b := bootstrap{
		release: k.release, packages: k.packages(), sources: k.sources(mirror), pin: k.pin(),
		hook: modulesScript, env: []string{"LAB_KERNEL=" + k.Series},
	}
	if err := b.run(ctx, tree, lock, log); err != nil {
		return err
	}
	if err := writeInitramfs(tree, filepath.Join(dir, "initramfs")); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	release, err := readRelease(tree)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "lab: linux %s is built, %.0f s\n", release, time.Since(start).Seconds())
	return nil
}
