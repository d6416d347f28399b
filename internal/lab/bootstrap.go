package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var mmdebstrapOptions = []string{
	"--variant=minbase",
	`--aptopt=APT::Install-Recommends "false"`,
	// A third of the files, and nothing that a guest reads.
	"--dpkgopt=path-exclude=/usr/share/man/*",
	"--dpkgopt=path-exclude=/usr/share/locale/*",
	"--dpkgopt=path-exclude=/usr/share/doc/*",
	"--dpkgopt=path-include=/usr/share/doc/*/copyright",
}

// bootstrap is what mmdebstrap makes a tree of.
type bootstrap struct {
	release  string   // Debian's code name
	packages []string // besides its minimum
	sources  []string // lines of sources.list
	pin      string   // apt's preferences, "" for none
	hook     string   // a shell script that mmdebstrap runs last, with the root as its argument
	env      []string // for hook
}

// run makes the tree; steps go to log. It needs mmdebstrap and the network.
// lock is held for as long as anything that it started lives.
func (b *bootstrap) run(ctx context.Context, tree string, lock *os.File, log io.Writer) error {
	start := time.Now()
	mmdebstrap, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is not installed: 'apt-get install mmdebstrap'")
	}
	mode, format, target := "root", "directory", tree
	if os.Geteuid() != 0 {
		// In a user namespace, which has no way into a private home folder: an
		// archive comes out, and what is unpacked from it is the user's own.
		mode, format, target = "unshare", "tar", tree+".tar"
	}
	args := append([]string{"--mode=" + mode, "--format=" + format}, mmdebstrapOptions...)
	if b.pin != "" {
		args = append(args, `--setup-hook=mkdir -p "$1"/etc/apt/preferences.d && echo "$LAB_PIN" >"$1"/etc/apt/preferences.d/peerdirect`)
	}
	args = append(args, "--customize-hook="+b.hook, "--include="+strings.Join(b.packages, ","), b.release, target)
	args = append(args, b.sources...)
	cmd := exec.CommandContext(ctx, mmdebstrap, args...)
	cmd.Env = append(os.Environ(),
		"LAB_PIN="+b.pin,
		"INITRD=No", // the guests have an initramfs of ours
		"LC_ALL=C")
	cmd.Env = append(cmd.Env, b.env...)
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
		// It repeats the script that failed; what that said comes before.
		said := strings.ReplaceAll(output.String(), b.hook, "…")
		return fmt.Errorf("mmdebstrap: %w\n%s%s", err, tail(said, 15), buildRemedy(said))
	}
	if format == "tar" {
		return unpack(ctx, target, tree)
	}
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
