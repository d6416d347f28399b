//go:build linux && amd64

// Package instructions counts the instructions that a program executes between
// breakpoints of its own: exactly, on any machine, whatever else runs there. It
// steps the thread that hit the breakpoint with ptrace(2), so a counted part
// runs some ten thousand times slower than it would.
package instructions

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Count runs a command and gives the instructions of each part between an odd
// breakpoint and the next (runtime.Breakpoint in Go, int3 in C on amd64), in the
// order in which they ran. The breakpoints' own are counted: some ten a part.
//
// One thread may be at a breakpoint at a time; signals reach the command as they
// come. counts, if not nil, says of the address of each instruction whether it is
// to be counted.
func Count(cmd *exec.Cmd, counts func(pc uint64) bool) (parts []uint64, err error) {
	// ptrace knows threads, not processes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	defer func() {
		if err != nil {
			unix.Kill(pid, unix.SIGKILL)
		}
		// The child was reaped here, so all that is left is to have its output.
		cmd.Wait()
	}()
	var status unix.WaitStatus
	if _, err := wait(pid, &status); err != nil {
		return nil, fmt.Errorf("wait for %s: %w", cmd.Path, err)
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return nil, fmt.Errorf("trace %s: %w", cmd.Path, err)
	}
	stepped, steps := 0, uint64(0) // the thread that is counted
	for tid, signal := pid, 0; ; {
		step := unix.PtraceCont
		if tid == stepped {
			step = stepWith
		}
		if err := step(tid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("continue thread %d: %w", tid, err)
		}
		if tid, err = wait(-1, &status); err != nil {
			return nil, fmt.Errorf("wait for %s: %w", cmd.Path, err)
		}
		signal = 0
		switch {
		case status.Exited() || status.Signaled():
			if tid != pid {
				continue
			}
			if status.ExitStatus() != 0 {
				return nil, fmt.Errorf("%s ended with %v", cmd.Path, describe(status))
			}
			if stepped != 0 {
				return nil, fmt.Errorf("%s ended within a part that is counted", cmd.Path)
			}
			return parts, nil
		case !status.Stopped():
		case status.StopSignal() == unix.SIGTRAP && status.TrapCause() > 0:
			// A thread was made: it stops by itself and is continued then.
		case status.StopSignal() == unix.SIGTRAP && breakpoint(tid):
			if stepped == 0 {
				stepped, steps = tid, 0
			} else if tid == stepped {
				parts, stepped = append(parts, steps), 0
			}
		case status.StopSignal() == unix.SIGTRAP && tid == stepped:
			if counts != nil {
				pc, err := counter(tid)
				if err != nil {
					return nil, fmt.Errorf("registers of thread %d: %w", tid, err)
				}
				if !counts(pc) {
					continue
				}
			}
			steps++
		case status.StopSignal() == unix.SIGSTOP:
		default:
			signal = int(status.StopSignal())
		}
	}
}

func stepWith(tid, signal int) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SINGLESTEP, uintptr(tid), 0, uintptr(signal), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// wait is wait4, of threads too, but not of what other threads of ours started.
func wait(pid int, status *unix.WaitStatus) (tid int, err error) {
	for {
		tid, err = unix.Wait4(pid, status, unix.WALL|unix.WNOTHREAD, nil)
		if !errors.Is(err, unix.EINTR) {
			return tid, err
		}
	}
}

func describe(s unix.WaitStatus) string {
	if s.Signaled() {
		return s.Signal().String()
	}
	return fmt.Sprintf("status %d", s.ExitStatus())
}

// breakpoint tells whether a thread stopped because it executed a breakpoint,
// and not because it was stepped: x86 gives SI_KERNEL for int3 (siginfo_t.si_code
// of include/uapi/asm-generic/siginfo.h).
func breakpoint(tid int) bool {
	const siKernel = 0x80
	var info [128]byte
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETSIGINFO, uintptr(tid), 0, addr(&info), 0, 0); errno != 0 {
		return false
	}
	code := int32(info[8]) | int32(info[9])<<8 | int32(info[10])<<16 | int32(info[11])<<24
	return code == siKernel
}

// WithoutScheduler is a count of this same program, run as a command, that leaves
// out what the scheduler does when it takes the processor from a goroutine: its
// monitor does so every 10 ms, and a part that is stepped takes long. What begins
// the function that was stopped runs again and is counted: a few percent.
func WithoutScheduler() func(pc uint64) bool {
	away := false
	return func(pc uint64) bool {
		// The next instruction's address: the program is linked at fixed addresses.
		f := runtime.FuncForPC(uintptr(pc))
		if f == nil {
			return !away
		}
		name := f.Name()
		if !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "internal/runtime/") && !strings.HasPrefix(name, "internal/abi") {
			away = false
		} else if strings.HasPrefix(name, "runtime.morestack") {
			away = true
		}
		return !away
	}
}
