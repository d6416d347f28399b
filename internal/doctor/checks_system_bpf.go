package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// tracingFacts tells what of the kernel decides whether it can be traced.
func tracingFacts(_ context.Context, s *System) (all []Finding) {
	const lockdown = "sys/kernel/security/lockdown"
	if text, err := s.text(lockdown); err == nil {
		f := Finding{Subject: "lockdown", Summary: "off", Evidence: []string{"/" + lockdown + ": " + text}}
		switch {
		case strings.Contains(text, "[confidentiality]"):
			f.Verdict, f.Summary = Warn, "confidentiality: no program may read the kernel's memory, so nothing can be traced"
			f.Remedy = "boot without lockdown=confidentiality on the kernel's command line"
		case strings.Contains(text, "[integrity]"):
			f.Verdict, f.Summary = Note, "integrity: tracing works; configuration space and memory of devices cannot be written, and unsigned modules not loaded"
		}
		all = append(all, f)
	}
	const types = "sys/kernel/btf/vmlinux"
	if there, known := s.exists(types); !known {
		all = append(all, s.missing("types (BTF)", types, fs.ErrNotExist))
	} else if !there {
		all = append(all, Finding{Subject: "types (BTF)", Verdict: Note, Summary: "the kernel does not carry its types: 'peerdirect trace probes' tells what is left",
			Evidence: []string{"/" + types + ": it is not there (CONFIG_DEBUG_INFO_BTF)"}})
	} else {
		all = append(all, Finding{Subject: "types (BTF)", Summary: "the kernel carries its types", Evidence: []string{"/" + types}})
	}
	for _, c := range []struct{ name, subject, means string }{
		{"proc/sys/kernel/unprivileged_bpf_disabled", "unprivileged BPF", "1 and 2: BPF takes CAP_BPF; tracing always does"},
		{"proc/sys/kernel/perf_event_paranoid", "perf events", "above 2, as Debian and Ubuntu have it, kprobes take CAP_SYS_ADMIN too"},
	} {
		text, err := s.text(c.name)
		if err != nil {
			all = append(all, s.missing(c.subject, c.name, err))
			continue
		}
		f := Finding{Subject: c.subject, Summary: strings.ReplaceAll(strings.TrimPrefix(c.name, "proc/sys/"), "/", ".") + " is " + text,
			Evidence: []string{"/" + c.name + ": " + text, c.means}}
		all = append(all, f)
	}
	return all
}

// tracing asks whether this process could trace now: nothing is attached.
func tracing(_ context.Context, s *System) []Finding {
	f := Finding{Subject: "tracing", Summary: "every needed place can be attached to"}
	err := ebpfprobes.Lacking(ebpfprobes.Probes())
	if err == nil {
		return []Finding{f}
	}
	f.Verdict, f.Evidence = Note, strings.Split(err.Error(), "\n")
	set, _ := process{s: s, folder: "proc/self"}.capabilities()
	privileged := set&(1<<capSysAdmin) != 0 || set&(1<<capBPF) != 0 && set&(1<<capPerfmon) != 0
	f.Remedy = "'peerdirect trace probes' tells what would be attached, and why not"
	switch {
	case errors.Is(err, fs.ErrPermission) && !privileged:
		f.Summary = "this process may not: run peerdirect trace as root, or with CAP_BPF and CAP_PERFMON"
	case errors.Is(err, ebpfprobes.ErrLocked):
		f.Verdict, f.Summary = Warn, "the kernel's lockdown forbids it"
	default:
		f.Summary = "a needed place is missing in this kernel, or its module is not loaded yet"
	}
	return []Finding{f}
}
