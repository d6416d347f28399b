package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// exampleTimeout ends an example that hangs; on a loaded machine none is near it.
const exampleTimeout = 5 * time.Minute

// examplePlace is where examples run: what their names stand for, and the command.
type examplePlace struct {
	name    string
	program string            // of peerdirect
	names   *strings.Replacer // of addresses and processes
	prepare func(t *testing.T, dir, command string)
	wrap    func(e example, line string) string // the line as it runs there; nil is as it is
	refused bool                                // the place lacks what they need, and they have to say so
}

// run runs all examples of a command that are for the place, in a folder of their
// own, in the order of the help.
func (p *examplePlace) run(t *testing.T) {
	byCommand := map[string][]example{}
	var commands []string
	for _, e := range listedExamples(t) {
		if e.place != p.name {
			continue
		}
		if byCommand[e.command] == nil {
			commands = append(commands, e.command)
		}
		byCommand[e.command] = append(byCommand[e.command], e)
	}
	if len(commands) == 0 {
		t.Errorf("no example is for %s", p.name)
	}
	for _, command := range commands {
		t.Run(strings.ReplaceAll(command, " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			if p.prepare != nil {
				p.prepare(t, dir, command)
			}
			var behind []*exampleRun
			defer func() { // the last first, as a shell's jobs
				for i := len(behind) - 1; i >= 0; i-- {
					behind[i].end(t)
				}
			}()
			for _, e := range byCommand[command] {
				r := p.start(t, dir, e)
				if p.refused {
					r.exit, r.background, r.interrupt = strconv.Itoa(exitNoDevice), false, false
				}
				if r.background {
					behind = append(behind, r)
					r.listens(t)
					continue
				}
				r.end(t)
				if p.refused && !strings.Contains("\n"+r.errs.String(), "\npeerdirect: ") {
					t.Errorf("%s is refused without a word", r.line)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// exampleRun is an example that runs.
type exampleRun struct {
	example
	shell       string
	cmd         *exec.Cmd
	out, errs   bytes.Buffer
	said, ended chan struct{}
	err         error
}

// start begins an example. sudo and ssh are this shell's user and machine.
func (p *examplePlace) start(t *testing.T, dir string, e example) *exampleRun {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "peerdirect")
	if err := os.Symlink(p.program, bin); err != nil {
		t.Fatal(err)
	}
	r := &exampleRun{example: e, said: make(chan struct{}), ended: make(chan struct{})}
	line := p.names.Replace(e.line)
	if p.wrap != nil {
		line = p.wrap(e, line)
	}
	r.shell = "sudo() { \"$@\"; }\nssh() { shift; \"$@\"; }\n" +
		"peerdirect() { '" + bin + "' \"$@\" " + strings.Join(e.args, " ") + "; }\n" + line
	ctx, cancel := context.WithTimeout(t.Context(), exampleTimeout)
	r.cmd = exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", r.shell)
	r.cmd.Dir = dir
	r.cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel = func() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
	r.cmd.WaitDelay = 10 * time.Second
	// Pipes of our own: the command's words are told as they come.
	outRead, errRead := r.pipe(t, &r.cmd.Stdout), r.pipe(t, &r.cmd.Stderr)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.cmd.Stdout.(io.Closer).Close()
	r.cmd.Stderr.(io.Closer).Close()
	first := make(chan struct{}, 2)
	copied := make(chan struct{}, 2)
	for read, to := range map[*os.File]*bytes.Buffer{outRead: &r.out, errRead: &r.errs} {
		go func() {
			io.Copy(io.MultiWriter(to, tellFirst(first)), read)
			read.Close()
			copied <- struct{}{}
		}()
	}
	go func() {
		defer close(r.said)
		select {
		case <-first:
		case <-r.ended:
		}
	}()
	go func() {
		defer cancel()
		<-copied
		<-copied
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r
}

func (r *exampleRun) pipe(t *testing.T, end *io.Writer) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	*end = write
	return read
}

// tellFirst tells that something was written.
type tellFirst chan struct{}

func (c tellFirst) Write(p []byte) (int, error) {
	select {
	case c <- struct{}{}:
	default:
	}
	return len(p), nil
}

// spoken waits until the example printed something, or ended.
func (r *exampleRun) spoken() { <-r.said }

// listens waits until the example waits for others.
func (r *exampleRun) listens(t *testing.T) {
	t.Helper()
	if r.port == "" {
		r.spoken()
		return
	}
	port, err := strconv.ParseUint(r.port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: \w+:%04X \w+:0000 0A `, port)) // LISTEN
	for look := time.NewTicker(20 * time.Millisecond); ; {
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			if text, err := os.ReadFile(table); err == nil && row.Match(text) {
				return
			}
		}
		select {
		case <-look.C:
		case <-r.ended:
			return
		}
	}
}

// end waits for the end, and looks whether it is the right one.
func (r *exampleRun) end(t *testing.T) {
	t.Helper()
	if r.interrupt {
		r.spoken()
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT) // Ctrl-C: all of the line's processes get it
	}
	<-r.ended
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(r.err, &exit) {
		code = exit.ExitCode()
	} else if r.err != nil {
		t.Errorf("%s: %v", r.line, r.err)
	}
	want := r.exit
	if want == "any" && code >= 0 && code != exitUsage {
		want = strconv.Itoa(code)
	}
	out, errs := r.out.String(), r.errs.String()
	switch {
	case strconv.Itoa(code) != want:
		t.Errorf("%s\nexit %d, want %s\n%s%s", r.shell, code, want, out, errs)
	case strings.Contains(errs, "panic:") || strings.Contains(errs, "DATA RACE"):
		t.Errorf("%s\n%s", r.shell, errs)
	case want == "0" && !strings.Contains(r.line, "|") && r.silent != (out == ""):
		t.Errorf("%s\nprinted %q; silent: %t\n%s", r.shell, out, r.silent, errs)
	case strings.Contains(r.line, "--json") && !strings.Contains(r.line, "|"):
		d := json.NewDecoder(strings.NewReader(out))
		for err := error(nil); err != io.EOF; {
			var v any
			if err = d.Decode(&v); err != nil && err != io.EOF {
				t.Fatalf("%s\n%v\n%s", r.shell, err, out)
			}
		}
	}
	t.Logf("%s\n%s%s", r.line, out, errs)
}
