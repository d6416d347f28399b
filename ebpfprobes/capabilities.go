package ebpfprobes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// capabilities are the ways to attach that this kernel has and this process may use.
type capabilities struct {
	fentry, kprobe error // why not; nil is yes
	modules        error // why not by fentry in modules, though in the kernel itself
}

// findCapabilities asks the kernel, which alone knows what it allows.
func findCapabilities() capabilities {
	if err := mayRead(); err != nil {
		return capabilities{fentry: err, kprobe: err}
	}
	return capabilities{fentry: features.HaveProgramType(ebpf.Tracing), kprobe: mayKprobe(), modules: mayOpenTypes()}
}

// anyVersion is put for the kernel's version, for which no kernel since 5.0 asks: to find it
// out, cilium/ebpf opens /proc/self/mem, which a process that has its privileges from its
// file's capabilities must not.
const anyVersion = 1

// ErrLocked is why nothing can be traced where the kernel keeps its memory to itself.
var ErrLocked = fmt.Errorf("the kernel's lockdown (confidentiality) forbids programs to read its memory, whoever loads them: "+
	"boot without lockdown=confidentiality: %w", errors.ErrUnsupported)

// mayRead loads a program that reads the kernel's memory, as all of tracing do.
func mayRead() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, License: "GPL", KernelVersion: anyVersion, Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, 8), asm.Mov.Imm(asm.R3, 0),
		asm.FnProbeReadKernel.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}})
	switch {
	case err == nil:
		return p.Close()
	case errors.Is(err, unix.EPERM):
		return unprivileged()
	case errors.Is(features.HaveProgramType(ebpf.Kprobe), ebpf.ErrNotSupported):
		return nil // that there are no kprobes is found out below
	case errors.Is(err, unix.EINVAL):
		// Every kernel from 5.5 on has the function, and takes it away for this alone.
		return ErrLocked
	}
	return fmt.Errorf("load a program: %w", err)
}

// mayKprobe tells why kprobes cannot be attached, or would never run.
func mayKprobe() error {
	// The kernel's own list of event sources: without CONFIG_KPROBES it is not there.
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); errors.Is(err, os.ErrNotExist) {
		return errors.New("this kernel is built without kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)")
	}
	if err := features.HaveProgramType(ebpf.Kprobe); errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	const enabled = "/sys/kernel/debug/kprobes/enabled" // only root can read it
	if text, err := os.ReadFile(enabled); err == nil && bytes.HasPrefix(text, []byte("0")) {
		return fmt.Errorf("kprobes are switched off, so that they would never run: 'echo 1 >%s'", enabled)
	}
	// Debian's and Ubuntu's kernels have a level above upstream's 2, for all events.
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size: uint32(unix.PERF_ATTR_SIZE_VER0), Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel}, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		level, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
		return kprobesRefused(string(bytes.TrimSpace(level)), filtered(), err)
	}
	return unix.Close(fd)
}

// kprobesRefused tells why, at that level of kernel.perf_event_paranoid.
func kprobesRefused(level string, filtered bool, err error) error {
	if n, e := strconv.Atoi(level); e == nil && n <= 2 {
		// Such a level lets CAP_PERFMON do it.
		by := "it may be a security module"
		if filtered {
			by = "the seccomp filter of a container's runtime or of a service has to allow perf_event_open"
		}
		return fmt.Errorf("kprobes are refused, though kernel.perf_event_paranoid is %s: %s: %w", level, by, err)
	}
	return fmt.Errorf("kprobes are refused, as kernel.perf_event_paranoid is %s: it takes CAP_SYS_ADMIN, or 'sysctl kernel.perf_event_paranoid=2': %w", level, err)
}

// filtered tells whether a seccomp filter judges this process's system calls.
func filtered() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && bytes.Contains(status, []byte("\nSeccomp:\t2\n"))
}

// mayOpenTypes tells why the kernel's handles of modules' types, which fentry in a module
// needs, cannot be had.
func mayOpenTypes() error {
	types := new(btf.HandleIterator)
	types.Next()
	err := types.Err()
	types.Handle.Close()
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("fentry in modules takes CAP_SYS_ADMIN: %w", unix.EPERM)
	}
	return err
}

// way chooses how to attach to a function that exists.
func (c capabilities) way(f kernel.Function) (By, error) {
	fentry := c.fentry
	if fentry == nil && f.Module != "" {
		fentry = c.modules
	}
	switch {
	case f.Typed && fentry == nil:
		return ByFentry, nil
	case c.kprobe == nil:
		return ByKprobe, nil
	case !f.Typed || fentry == c.kprobe:
		return "", c.kprobe
	}
	return "", fmt.Errorf("%w; %w", fentry, c.kprobe)
}

// unprivileged tells which privilege is missing.
func unprivileged() error {
	lacks := "this process has them in a user namespace only"
	switch l := lacked(); {
	case l != "":
		lacks = "this process lacks " + l
	case filtered():
		lacks += ", or a seccomp filter, of a container's runtime or a service, refuses bpf"
	}
	return fmt.Errorf("tracing takes root, or CAP_BPF and CAP_PERFMON: %s: %w", lacks, unix.EPERM)
}

// lacked names the privileges that are not in effect; CAP_SYS_ADMIN has both.
func lacked() string {
	var sets [2]unix.CapUserData
	if unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]) != nil {
		return ""
	}
	has := func(c int) bool { return sets[c/32].Effective&(1<<(c%32)) != 0 }
	var lacks []string
	if !has(unix.CAP_SYS_ADMIN) {
		if !has(unix.CAP_BPF) {
			lacks = append(lacks, "CAP_BPF")
		}
		if !has(unix.CAP_PERFMON) {
			lacks = append(lacks, "CAP_PERFMON")
		}
	}
	return strings.Join(lacks, " and ")
}
