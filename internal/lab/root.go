package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

var mmdebstrapOptions = []string{
	"--variant=minbase",
	`--aptopt=APT::Install-Recommends "false"`,
	// A third of the files, and nothing that a guest reads.
	"--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*",
	"--dpkgopt=path-exclude=/usr/share/doc/*",
	"--dpkgopt=path-include=/usr/share/doc/*/copyright",
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
	mmdebstrap, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is not installed: 'apt-get install mmdebstrap'")
	}
	mirror, err := hostMirror(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "lab: building a root for linux %s from Debian %s; once, a minute or two\n", k.Series, k.release)

	tree := filepath.Join(dir, "tree")
	mode, format, target := "root", "directory", tree
	if os.Geteuid() != 0 {
		// In a user namespace, which has no way into a private home folder: an
		// archive comes out, and what is unpacked from it is the user's own.
		mode, format, target = "unshare", "tar", tree+".tar"
	}
	args := append([]string{"--mode=" + mode, "--format=" + format}, mmdebstrapOptions...)
	if k.pin() != "" {
		args = append(args, `--setup-hook=mkdir -p "$1"/etc/apt/preferences.d && echo "$LAB_PIN" >"$1"/etc/apt/preferences.d/peerdirect`)
	}
	args = append(args, "--customize-hook="+modulesScript, "--include="+strings.Join(k.packages(), ","), k.release, target)
	args = append(args, k.sources(mirror)...)
	cmd := exec.CommandContext(ctx, mmdebstrap, args...)
	cmd.Env = append(os.Environ(),
		"LAB_KERNEL="+k.Series,
		"LAB_PIN="+k.pin(),
		"INITRD=No", // the guests have an initramfs of ours
		"LC_ALL=C")
	// What goes on after we were killed still writes into dir: hold the lock
	// for as long.
	cmd.ExtraFiles = []*os.File{lock}
	var output bytes.Buffer
	steps := &stepWriter{log: log, all: &output, start: start}
	cmd.Stdout, cmd.Stderr = steps, steps
	// Like a terminal, interrupt all of them: mmdebstrap alone would wait for
	// its children, and only then clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	if mode == "root" {
		// mmdebstrap mounts this machine's /dev inside the root. In a mount
		// namespace of its own, whatever happens to it, none of that is there
		// when the folder is removed.
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	runtime.LockOSThread() // Pdeathsig means the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // who did not listen
			return context.Cause(ctx)
		}
		return fmt.Errorf("mmdebstrap: %w\n%s%s", err, tail(output.String(), 15), buildRemedy(output.String()))
	}
	if format == "tar" {
		if err := unpack(ctx, target, tree); err != nil {
			return err
		}
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

// unpack turns an archive into a tree that belongs to the user, and removes it.
// Device nodes, which a user cannot make, are the guest's to make.
func unpack(ctx context.Context, archive, tree string) error {
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "tar", "-x", "-f", archive, "-C", tree, "--no-same-owner", "--exclude=./dev/*").CombinedOutput()
	if err != nil {
		return fmt.Errorf("unpacking the root: %w: %s%s", err, bytes.TrimSpace(out), buildRemedy(string(out)))
	}
	return os.Remove(archive)
}

// buildRemedy adds to mmdebstrap's own words what to do about them.
func buildRemedy(output string) string {
	for _, r := range []struct{ sign, remedy string }{
		{"No space left on device", "the disk is full: a root takes 1.5 GB; 'peerdirect lab clean' frees those built before"},
		{"Could not resolve", "the mirror's name does not resolve: is the network up?"},
		{"Could not connect", "the mirror does not answer: is the network up, does apt-get update work?"},
		{"NO_PUBKEY", "the mirror's key is unknown here: 'apt-get install debian-archive-keyring'"},
		{"not signed", "the mirror's key is unknown here: 'apt-get install debian-archive-keyring'"},
		{"subuid", "building without root needs a range in /etc/subuid and /etc/subgid, and 'apt-get install uidmap'"},
		{"newuidmap", "building without root needs 'apt-get install uidmap'"},
	} {
		if strings.Contains(output, r.sign) {
			return "\n" + r.remedy
		}
	}
	return ""
}

// stepWriter keeps all of mmdebstrap's output for an error message, and shows
// of it the lines that tell how far it is.
type stepWriter struct {
	log   io.Writer
	all   *bytes.Buffer
	line  []byte
	start time.Time
}

func (w *stepWriter) Write(p []byte) (int, error) {
	w.all.Write(p)
	w.line = append(w.line, p...)
	for {
		i := bytes.IndexByte(w.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := string(w.line[:i])
		w.line = w.line[i+1:]
		step, ok := strings.CutPrefix(line, "peerdirect: ")
		if !ok {
			step, ok = strings.CutPrefix(line, "I: ")
			ok = ok && strings.HasSuffix(step, "...") && !strings.Contains(step, "signal")
		}
		if ok {
			fmt.Fprintf(w.log, "lab: %4.0f s  %s\n", time.Since(w.start).Seconds(), strings.TrimSuffix(step, "..."))
		}
	}
}

// tail gives the last n lines of s, each ended.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n") + "\n"
}
