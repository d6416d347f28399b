package doctor

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// memlock judges how much memory processes may pin. Registrations of dma-bufs do
// not count; those of host memory do, and so does what a NIC's library registers
// for its queues.
func memlock(_ context.Context, s *System) (all []Finding) {
	for _, p := range s.processes() {
		l, missing := p.limit("Max locked memory")
		if missing != nil {
			all = append(all, *missing)
			continue
		}
		all = append(all, p.memlock(l))
	}
	return all
}

// lowMemlock is what a limit lets be registered where nothing is left for buffers
// of the size that is worth a registration; the kernel's own default is 8 MiB.
const lowMemlock = 1 << 30

func (p process) memlock(l limit) Finding {
	f := Finding{Subject: p.subject, Evidence: []string{"/" + p.folder + "/limits: Max locked memory: " + l.String()}}
	total := p.s.memory()
	switch {
	case l.soft == unlimited:
		f.Summary = "any amount of memory may be pinned"
		return f
	case total > 0 && l.soft >= total:
		f.Summary = "as much memory may be pinned as there is"
		return f
	}
	set, err := p.capabilities()
	initial, known := p.initialUser()
	switch has := err == nil && set&(1<<capIPCLock) != 0; {
	case has && known && initial:
		f.Summary = "CAP_IPC_LOCK is in effect, to which the limit does not apply"
		return f
	case has && known:
		f.Evidence = append(f.Evidence, "CAP_IPC_LOCK is of a user namespace, where the kernel does not take it")
	case has:
		f.Verdict, f.Summary = Unknown, "whether its CAP_IPC_LOCK lifts the limit ("+bytesText(l.soft)+") cannot be told"
		f.Evidence = append(f.Evidence, "CAP_IPC_LOCK is in effect; whether in the first user namespace, where alone it counts, neither ns/user nor uid_map in /"+p.folder+" tells")
		f.Remedy = "run as root, or as the process's user (CAP_SYS_PTRACE)"
		return f
	}
	switch {
	case l.soft == 0:
		f.Verdict, f.Cause = Fail, CausePermission
		f.Summary = "no memory may be pinned (memlock 0): no host memory can be registered, nor queues made where a library owns their memory, as mlx5's does"
	case l.soft < lowMemlock:
		f.Verdict = Warn
		f.Summary = fmt.Sprintf("%s of host memory may be pinned; registrations beyond fail with ENOMEM (dma-bufs do not count)", bytesText(l.soft))
	default:
		f.Verdict = Note
		f.Summary = fmt.Sprintf("%s of host memory may be pinned, which is less than there is", bytesText(l.soft))
	}
	evidence, remedy, commands := p.raise(memlockSetting)
	f.Evidence = append(f.Evidence, evidence...)
	if f.Remedy, f.Commands = remedy, commands; l.hard == unlimited && p.folder == "proc/self" {
		f.Remedy, f.Commands = "the hard limit allows more: 'ulimit -l unlimited' in the shell that starts the program; for good, "+remedy, nil
	}
	return f
}

// memory is the machine's in bytes; 0 is unknown.
func (s *System) memory() uint64 {
	text, err := s.text("proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 54)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// nofile judges how many descriptors processes may have: each exported buffer and
// each completion channel is one.
func nofile(_ context.Context, s *System) (all []Finding) {
	const few = 1024
	for _, p := range s.processes() {
		l, missing := p.limit("Max open files")
		if missing != nil {
			all = append(all, *missing)
			continue
		}
		f := Finding{Subject: p.subject, Summary: bound(l.soft) + " files may be open",
			Evidence: []string{"/" + p.folder + "/limits: Max open files: " + l.String()}}
		if p.folder == "proc/self" {
			f.Evidence = append(f.Evidence, "the Go runtime has raised this process's soft limit to the hard one")
		}
		if l.soft < few {
			f.Verdict = Warn
			f.Summary = fmt.Sprintf("only %d files may be open; each exported buffer and each event channel is one", l.soft)
			evidence, remedy, commands := p.raise(nofileSetting(l.hard))
			f.Evidence, f.Remedy, f.Commands = append(f.Evidence, evidence...), remedy, commands
		}
		all = append(all, f)
	}
	return all
}

// capabilities tells what rights processes have of those that matter here.
func capabilities(_ context.Context, s *System) (all []Finding) {
	for _, p := range s.processes() {
		set, err := p.capabilities()
		if err != nil {
			all = append(all, s.missing(p.subject, path.Join(p.folder, "status"), err))
			continue
		}
		f := Finding{Subject: p.subject, Verdict: OK, Evidence: []string{fmt.Sprintf("/%s/status: CapEff: %016x", p.folder, set)}}
		var has, lacks []string
		for _, c := range []struct {
			bit  int
			name string
			use  string
		}{
			{capIPCLock, "CAP_IPC_LOCK", "the memlock limit does not apply"},
			{capNetRaw, "CAP_NET_RAW", "raw packet queue pairs"},
			{capNetAdmin, "CAP_NET_ADMIN", "keys of memory regions, links of devices"},
			{capSysResource, "CAP_SYS_RESOURCE", "limits may be raised"},
			{capSysPtrace, "CAP_SYS_PTRACE", "other users' processes can be looked at"},
			{capSysAdmin, "CAP_SYS_ADMIN", "types of kernel modules for tracing, extended config space"},
			{capPerfmon, "CAP_PERFMON", "tracing"},
			{capBPF, "CAP_BPF", "tracing"},
		} {
			if set&(1<<c.bit) != 0 {
				has = append(has, strings.TrimPrefix(c.name, "CAP_"))
				continue
			}
			lacks = append(lacks, strings.TrimPrefix(c.name, "CAP_"))
			f.Evidence = append(f.Evidence, c.name+" is missing, for: "+c.use)
		}
		f.Summary = "capabilities: " + strings.Join(has, ", ")
		if len(lacks) > 0 {
			f.Verdict = Note
			f.Summary = "capabilities: " + list0(has) + "; without " + strings.Join(lacks, ", ")
		}
		if initial, known := p.initialUser(); known && !initial {
			f.Verdict = Note
			f.Summary += "; of a user namespace only, which the kernel takes for few of these"
			f.Evidence = append(f.Evidence, "/"+p.folder+"/ns/user is not "+firstUserNamespace)
		}
		all = append(all, f)
	}
	return all
}

func list0(names []string) string {
	if len(names) == 0 {
		return "none that matter here"
	}
	return strings.Join(names, ", ")
}
