package ebpfprobes

import (
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
)

// place tells probes apart, on one kernel.
type place struct{ role, function, module string }

func (p Probe) place() place { return place{p.Role, p.Function, p.Module} }

// programRuns is what the kernel counted of one program.
type programRuns struct {
	probe Probe
	exit  bool
	runs  uint64
	ran   time.Duration
}

// runs reads the statistics of all programs that are attached.
func (a *attachments) runs() map[*ebpf.Program]programRuns {
	all := make(map[*ebpf.Program]programRuns)
	for _, site := range a.sites {
		for i, p := range site.programs {
			if s, err := p.Stats(); err == nil {
				all[p] = programRuns{probe: site.probe, exit: site.exits[i], runs: s.RunCount, ran: s.Runtime}
			}
		}
	}
	return all
}

// costs is the difference of two readings, by probe. Programs that are in only one of
// them were attached or detached meanwhile: what they cost is not known.
func costs(before, after map[*ebpf.Program]programRuns) []ProbeCost {
	sums := make(map[place]*ProbeCost)
	var all []*ProbeCost
	for p, to := range after {
		from, ok := before[p]
		if !ok {
			continue
		}
		c := sums[to.probe.place()]
		if c == nil {
			c = &ProbeCost{Probe: to.probe}
			sums[to.probe.place()] = c
			all = append(all, c)
		}
		hits := to.runs - from.runs
		c.Hits += hits
		c.Ran += to.ran - from.ran
		c.Way += time.Duration(hits) * (hitCost(to.probe.By, to.exit) + costStatistics)
	}
	list := make([]ProbeCost, 0, len(all))
	for _, c := range all {
		list = append(list, *c)
	}
	slices.SortFunc(list, dearest)
	return list
}

// onlineCPUs counts the CPUs of /sys/devices/system/cpu/online, as "0-3,8".
func onlineCPUs(root fs.FS) int {
	text, err := fs.ReadFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return runtime.NumCPU()
	}
	n, err := countList(strings.TrimSpace(string(text)))
	if err != nil || n == 0 {
		return runtime.NumCPU()
	}
	return n
}

func countList(list string) (n int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.Atoi(first)
		if err != nil {
			return 0, err
		}
		high, err := strconv.Atoi(last)
		if err != nil {
			return 0, err
		}
		if high < low {
			return 0, fmt.Errorf("%s ends before it begins", part)
		}
		n += high - low + 1
	}
	return n, nil
}
