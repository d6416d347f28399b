package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runner runs the steps of one guide.
type runner struct {
	src      string // the clone
	dir      string // of the guide's output
	steps    []step
	hostOnly bool

	done, failed int
	left         []string // what was not run
}

// hostLimit bounds one step on this machine. What takes longest compiles a program.
const hostLimit = 10 * time.Minute

func (r *runner) run(ctx context.Context) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.work(), 0o755); err != nil {
		return err
	}
	var kinds []int // of machines, in the order of their first steps
	for i := range r.steps {
		s := &r.steps[i]
		if s.place == onHost || s.place == callsLab && !r.hostOnly {
			if err := r.host(ctx, s, i); err != nil {
				return err
			}
			continue
		}
		kind := slices.IndexFunc(lab, func(m machines) bool { return slices.Contains(m.places, s.place) })
		if kind < 0 || r.hostOnly {
			r.left = append(r.left, s.title())
		} else if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		if err := r.lab(ctx, lab[kind]); err != nil {
			return err
		}
	}
	return nil
}

// work is the folder in which the steps run.
func (r *runner) work() string { return filepath.Join(r.dir, "work") }

// script is a step as a shell runs it; its variables come before it.
func script(s *step) string { return "set -eu\n" + s.Text }

// host runs a step on this machine.
func (r *runner) host(ctx context.Context, s *step, number int) error {
	if s.file != "" {
		r.told(s, "", os.WriteFile(filepath.Join(r.work(), s.file), []byte(s.Text), 0o644))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hostLimit)
	defer cancel()
	log, err := os.Create(filepath.Join(r.dir, strconv.Itoa(number)+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "sh", "-c", script(s))
	cmd.Dir = r.work()
	cmd.Env = append(os.Environ(), "SRC="+r.src, "PATH="+filepath.Join(r.src, "bin")+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	// What it starts in the background ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) || ctx.Err() != nil {
		return fmt.Errorf("%s: %w", s.title(), errors.Join(err, ctx.Err()))
	}
	output, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	r.told(s, string(output), s.judge(string(output), cmd.ProcessState.ExitCode()))
	return nil
}

// told prints and counts how a step ended.
func (r *runner) told(s *step, output string, problem error) {
	if problem == nil {
		r.done++
		fmt.Println("ok       ", s.title())
		return
	}
	r.failed++
	fmt.Printf("NOT OK    %s\n          %v\n%s", s.title(), problem, indent(output))
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("          | " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// lab runs the steps of one kind of machines, in one run of the lab.
func (r *runner) lab(ctx context.Context, m machines) error {
	var mine []int
	for node, place := range m.places {
		var b strings.Builder
		// The folder is the host's, so that what a machine leaves there can be read.
		b.WriteString("cd /peerdirect/out/work\nSRC=/peerdirect/src\nNODE0=${PEERDIRECT_ADDRS%%,*} NODE1=${PEERDIRECT_ADDRS##*,}\nexport SRC NODE0 NODE1\n")
		for i := range r.steps {
			if s := &r.steps[i]; s.place == place {
				mine = append(mine, i)
				name := strconv.Itoa(i)
				if err := os.WriteFile(filepath.Join(r.dir, name+".sh"), []byte(script(s)), 0o644); err != nil {
					return err
				}
				fmt.Fprintf(&b, "for try in $(seq %d); do\n\tsh /peerdirect/out/%s.sh >/peerdirect/out/%[2]s.log 2>&1 </dev/null\n\tstatus=$?\n"+
					"\t[ $status = %d ] || [ $try = %[1]d ] && break\n\tsleep 2\ndone\necho $status >/peerdirect/out/%[2]s.exit\n", s.tries, name, s.exit)
			}
		}
		if err := os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("%s%d.sh", m.places[0], node)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	args := append([]string{"lab", "run", "--memory", "1536", "--timeout", "15m", "--out", r.dir}, m.flags...)
	args = append(args, "--", "sh", "-c", "sh /peerdirect/out/"+m.places[0]+"$PEERDIRECT_NODE.sh")
	cmd := exec.CommandContext(ctx, filepath.Join(r.src, "bin/peerdirect"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.src, os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	ended := cmd.Run() // its own complaint is on standard error; the steps tell the rest
	for _, i := range mine {
		name := filepath.Join(r.dir, strconv.Itoa(i))
		output, _ := os.ReadFile(name + ".log")
		code, err := os.ReadFile(name + ".exit")
		if err != nil {
			r.told(&r.steps[i], string(output), fmt.Errorf("it has not ended (the machines: %v)", ended))
			continue
		}
		exit, err := strconv.Atoi(strings.TrimSpace(string(code)))
		if err != nil {
			return err
		}
		r.told(&r.steps[i], string(output), r.steps[i].judge(string(output), exit))
	}
	return ctx.Err()
}
