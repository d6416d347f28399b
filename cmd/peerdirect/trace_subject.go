package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// deviceFlag adds --device, completed from the machine's devices.
func deviceFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "device", "d", "", "only this `device` (default all)")
	completeDevices(cmd)
}

// pidFlag adds --pid.
func pidFlag(f *pflag.FlagSet, to *int, usage string) { f.Var((*processFlag)(to), "pid", usage) }

// processFlag is a process's number.
type processFlag int

func (p *processFlag) String() string { return strconv.Itoa(int(*p)) }

func (p *processFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no process: give its number, as ps shows it, or 0 for all", s)
	}
	*p = processFlag(n)
	return nil
}

func (p *processFlag) Type() string { return "number" }

// checkSubject judges what is to be traced, and the common flags.
func (o *traceOutputs) checkSubject(f *pflag.FlagSet, device string) error {
	if f.Changed("device") && device == "" {
		return errors.New("--device needs a name")
	}
	return o.check(f)
}

// tracedProcess is a process that is traced alone. The zero value is none: all are.
type tracedProcess struct {
	pid   int
	began string // tells it from another that has its number later
}

// findProcess is an error if there is no such process; 0 is all.
func findProcess(pid int) (tracedProcess, error) {
	if pid == 0 {
		return tracedProcess{}, nil
	}
	p := tracedProcess{pid: pid}
	text, err := os.ReadFile(p.stat())
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("--pid %d: no such process", pid)
	} else if err != nil {
		return p, fmt.Errorf("--pid %d: %w", pid, err)
	}
	var ended bool
	if p.began, ended = parseStat(string(text)); ended {
		return p, fmt.Errorf("--pid %d: the process has ended", pid)
	}
	return p, p.check(string(text))
}

// check refuses what has a number in /proc, but is no process that could call RDMA.
func (p tracedProcess) check(stat string) error {
	const kernelThread = 0x200000 // PF_KTHREAD of include/linux/sched.h
	if f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]); len(f) > 6 {
		if flags, err := strconv.ParseUint(f[6], 10, 32); err == nil && flags&kernelThread != 0 {
			return fmt.Errorf("--pid %d: a thread of the kernel, which makes no calls", p.pid)
		}
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return nil // it has ended just now, which is noticed soon
	}
	for line := range strings.Lines(string(status)) {
		if of, ok := strings.CutPrefix(line, "Tgid:"); ok && strings.TrimSpace(of) != strconv.Itoa(p.pid) {
			of = strings.TrimSpace(of)
			return fmt.Errorf("--pid %d: a thread of process %s: trace that, --pid %s", p.pid, of, of)
		}
	}
	return nil
}

func (p tracedProcess) stat() string { return "/proc/" + strconv.Itoa(p.pid) + "/stat" }

// ended tells whether the process is no more, though another may have its number. What
// cannot be read has not.
func (p tracedProcess) ended() bool {
	text, err := os.ReadFile(p.stat())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	began, ended := parseStat(string(text))
	return ended || began != p.began
}

// parseStat takes fields 22, 3 and 20 of /proc/PID/stat, behind a name that may hold
// anything: when a process began, and whether it has ended. One whose first thread has
// ended goes on while it has others.
func parseStat(text string) (began string, ended bool) {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return "", false
	}
	return f[19], f[0] == "X" || f[0] == "Z" && (f[17] == "0" || f[17] == "1")
}
