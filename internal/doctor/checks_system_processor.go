package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// clock judges what the kernel reads time from: completions are polled against it,
// and every measured latency has its cost in it.
func clock(_ context.Context, s *System) []Finding {
	const folder = "sys/devices/system/clocksource/clocksource0/"
	now, err := s.text(folder + "current_clocksource")
	if err != nil {
		return []Finding{s.missing("clock source", folder+"current_clocksource", err)}
	}
	available, _ := s.text(folder + "available_clocksource")
	f := Finding{Subject: "clock source", Summary: now, Evidence: []string{"/" + folder + "current_clocksource: " + now, "/" + folder + "available_clocksource: " + available}}
	switch now {
	case "tsc", "arch_sys_counter", "hyperv_clocksource_tsc_page":
		f.Summary += ": a register of the processor, read without a system call"
	case "kvm-clock":
		f.Verdict = Note
		f.Summary += ": the hypervisor's, by the processor's counter: read without a system call where that counter is stable"
	case "hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen":
		f.Verdict = Warn
		f.Summary += ": each reading of time is a system call, and of a device where it is hpet or acpi_pm"
		if slices.Contains(strings.Fields(available), "tsc") {
			f.Remedy = "take the processor's counter, if the kernel's log does not say that it is unstable; for good with clocksource=tsc on the kernel's command line"
			f.Commands = []string{"echo tsc >/" + folder + "current_clocksource"}
		} else {
			f.Remedy = "the kernel has given up the processor's counter, or was never offered it: its log tells why ('dmesg | grep -i tsc'); of a virtual machine the hypervisor decides"
		}
	default:
		f.Verdict = Unknown
		f.Summary += ": what reading it costs is not known here"
	}
	return []Finding{f}
}

// governor judges how processors choose their frequency.
func governor(_ context.Context, s *System) []Finding {
	const folder = "sys/devices/system/cpu/cpufreq"
	policies, err := fs.ReadDir(s.Root, folder)
	if err != nil {
		if there, known := s.exists("sys/devices/system/cpu"); known && there {
			return []Finding{{Subject: "frequency", Verdict: Note, Summary: "the kernel does not govern it: firmware or a hypervisor does", Evidence: []string{why(folder, err)}}}
		}
		return []Finding{s.missing("frequency", folder, err)}
	}
	count := map[string]int{}
	driver := ""
	for _, p := range policies {
		if g, err := s.text(path.Join(folder, p.Name(), "scaling_governor")); err == nil {
			count[g]++
			driver, _ = s.text(path.Join(folder, p.Name(), "scaling_driver"))
		}
	}
	if len(count) == 0 {
		return []Finding{{Subject: "frequency", Verdict: Note, Summary: "the kernel does not govern it: there is no policy", Evidence: []string{"/" + folder}}}
	}
	f := Finding{Subject: "frequency"}
	var all []string
	for g, n := range count {
		all = append(all, fmt.Sprintf("%s on %d", g, n))
		v := Note
		switch {
		case g == "performance":
			v = OK
		case g == "conservative", g == "powersave" && driver != "intel_pstate" && driver != "amd-pstate-epp":
			v = Warn
		}
		f.Verdict = max(f.Verdict, v)
	}
	slices.Sort(all)
	f.Summary = "governor " + strings.Join(all, ", ")
	f.Evidence = []string{"/" + folder + "/policy*/scaling_governor; scaling_driver: " + driver}
	switch f.Verdict {
	case Note:
		f.Summary += ": frequency follows load, and a completion that comes after a pause is met at a low one"
	case Warn:
		f.Summary += ": processors stay at, or leave but slowly, their lowest frequency"
	}
	if f.Verdict != OK {
		f.Remedy = "let processors run at their highest frequency (until the next start; tuned or a service of yours keeps it)"
		f.Commands = []string{"for g in /" + folder + "/policy*/scaling_governor; do echo performance >\"$g\"; done"}
	}
	return []Finding{f}
}

// idle tells how long a sleeping processor takes to wake: who waits for the event
// of a completion waits for that too.
func idle(_ context.Context, s *System) []Finding {
	const folder = "sys/devices/system/cpu/cpu0/cpuidle"
	const slow = 20 // us
	states, err := fs.ReadDir(s.Root, folder)
	if err != nil {
		if there, known := s.exists("sys/devices/system/cpu/cpu0"); known && there {
			return []Finding{{Subject: "idle states", Verdict: Note, Summary: "the kernel has none to choose from: a hypervisor decides", Evidence: []string{why(folder, err)}}}
		}
		return []Finding{s.missing("idle states", folder, err)}
	}
	f := Finding{Subject: "idle states"}
	deepest, name := uint64(0), ""
	for _, state := range states {
		at := path.Join(folder, state.Name())
		text, err := s.text(path.Join(at, "latency"))
		us, failed := strconv.ParseUint(text, 10, 32)
		if err != nil || failed != nil {
			continue
		}
		called, _ := s.text(path.Join(at, "name"))
		off, _ := s.text(path.Join(at, "disable"))
		f.Evidence = append(f.Evidence, fmt.Sprintf("/%s: %s, %d us, disable %s", at, called, us, off))
		if off != "1" && us >= deepest {
			deepest, name = us, called
		}
	}
	f.Summary = fmt.Sprintf("waking from the deepest, %s, takes %d us", name, deepest)
	if name == "" {
		f.Verdict, f.Summary = Note, "none that tells how long waking takes"
	}
	if deepest >= slow {
		f.Verdict = Note
		f.Summary += ", which a completion that is waited for pays; one that is polled for does not"
		f.Remedy = "hold /dev/cpu_dma_latency open with a bound written to it while it matters, or switch off deep states: 'cpupower idle-set -D 10'"
	}
	return []Finding{f}
}

// balancing tells whether the kernel moves pages between NUMA nodes by itself.
func balancing(_ context.Context, s *System) []Finding {
	const name = "proc/sys/kernel/numa_balancing"
	text, err := s.text(name)
	nodes, failed := fs.ReadDir(s.Root, "sys/devices/system/node")
	n := 0
	for _, e := range nodes {
		if strings.HasPrefix(e.Name(), "node") {
			n++
		}
	}
	f := Finding{Subject: "NUMA balancing", Evidence: []string{"/" + name + ": " + text, fmt.Sprintf("/sys/devices/system/node: %d nodes", n)}}
	switch {
	case failed == nil && n < 2:
		f.Summary = "there is one node"
		f.Evidence = f.Evidence[1:]
	case err != nil:
		if there, known := s.exists("proc/sys/kernel"); s.Live && known && there {
			f.Summary = "the kernel is built without it"
			f.Evidence = []string{why(name, err)}
			break
		}
		return []Finding{s.missing("NUMA balancing", name, err)}
	case text == "0":
		f.Summary = "off"
	default:
		f.Verdict = Warn
		f.Summary = "on: the kernel takes pages from the tables now and then to see who uses them, and their users fault; it moves none that are pinned"
		f.Remedy = "switch it off where memory is placed on purpose; for good in /etc/sysctl.d"
		f.Commands = []string{"sysctl -w kernel.numa_balancing=0", "echo kernel.numa_balancing=0 >/etc/sysctl.d/90-numa-balancing.conf"}
	}
	return []Finding{f}
}
