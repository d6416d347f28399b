package ebpfprobes

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The way from a function of the kernel into a program and out again, per run. The
// kernel's statistics leave it out, and nothing measures it on a running machine.
//
// fentry 48 ns and kprobe 110 ns, with a small program: Linux 6.12 on x86 at
// tcp_sendmsg, github.com/iopsystems/rezolus pull request 1155. That a return costs
// twice a kprobe is an estimate. A system call's tracepoint 76 ns: an empty program at the
// beginning and one at the end of write() made it 214 to 365 ns, Linux 6.2 on x86,
// github.com/eunomia-bpf/bpftime, benchmark/syscall/README.md. That all other system calls
// take the longer way, too, while one is traced, is in nobody's account. In a process, entry and return: measured by this
// project on a plain instruction, 742 ns and 1,190 ns.
const (
	costFentry     = 50 * time.Nanosecond
	costKprobe     = 110 * time.Nanosecond
	costKretprobe  = 220 * time.Nanosecond
	costTracepoint = 76 * time.Nanosecond // a raw one, as errors has, is less
	costUprobe     = 742 * time.Nanosecond
	costUretprobe  = 1190 * time.Nanosecond
	// costStatistics is what the kernel's statistics add to a run while they are on: two
	// readings of the clock, mostly outside of what they measure. An estimate.
	costStatistics = 40 * time.Nanosecond
)

// hitCost is the way into and out of a program.
func hitCost(by By, exit bool) time.Duration {
	switch {
	case by == ByKprobe && exit:
		return costKretprobe
	case by == ByKprobe:
		return costKprobe
	case by == ByUprobe && exit:
		return costUretprobe
	case by == ByUprobe:
		return costUprobe
	case by == ByTracepoint:
		return costTracepoint
	}
	return costFentry
}

// ProbeCost is what one probe's programs cost the machine during a measurement.
type ProbeCost struct {
	Probe Probe
	Hits  uint64        // runs of its programs
	Ran   time.Duration // inside of them, as the kernel measured
	Way   time.Duration // into and out of them: a fixed cost a run
}

// Total is the whole cost.
func (c ProbeCost) Total() time.Duration { return c.Ran + c.Way }

// Overhead is what tracing cost during a measurement, or several, summed over all CPUs.
type Overhead struct {
	Began  time.Time     // of the first measurement
	Over   time.Duration // how long was measured
	CPUs   int           // that are online
	Probes []ProbeCost   // the dearest first
}

// Add makes one of two measurements.
func (o *Overhead) Add(more Overhead) {
	if o.Over == 0 {
		o.Began = more.Began
	}
	o.Over += more.Over
	o.CPUs = more.CPUs
	probes := slices.Clone(o.Probes)
	for _, c := range more.Probes {
		at := slices.IndexFunc(probes, func(p ProbeCost) bool { return p.Probe.place() == c.Probe.place() })
		if at < 0 {
			probes = append(probes, c)
			continue
		}
		probes[at].Hits += c.Hits
		probes[at].Ran += c.Ran
		probes[at].Way += c.Way
	}
	slices.SortFunc(probes, dearest)
	o.Probes = probes
}

func dearest(a, b ProbeCost) int {
	if d := cmp.Compare(b.Total(), a.Total()); d != 0 {
		return d
	}
	return strings.Compare(a.Probe.Role+a.Probe.Function, b.Probe.Role+b.Probe.Function)
}

// Total is the processors' time that the probes took.
func (o Overhead) Total() (sum time.Duration) {
	for _, c := range o.Probes {
		sum += c.Total()
	}
	return sum
}

// Share is the part of the machine's processors' time that the probes took.
func (o Overhead) Share() float64 { return o.share(o.Total()) }

func (o Overhead) share(cost time.Duration) float64 {
	if o.Over <= 0 || o.CPUs <= 0 {
		return 0
	}
	return float64(cost) / (float64(o.Over) * float64(o.CPUs))
}

// OverBudget chooses what to detach so that the share falls to a budget: of probes that are
// not needed those of phases first, then the others, the dearest before cheaper ones.
// With all of that gone the needed probes may still cost more: then within is false.
func (o Overhead) OverBudget(budget float64) (drop []ProbeCost, within bool) {
	left := o.Total()
	candidates := slices.DeleteFunc(slices.Clone(o.Probes), func(c ProbeCost) bool {
		return c.Probe.Needed || c.Hits == 0
	})
	slices.SortStableFunc(candidates, func(a, b ProbeCost) int {
		switch {
		case a.Probe.phase != b.Probe.phase && a.Probe.phase:
			return -1
		case a.Probe.phase != b.Probe.phase:
			return 1
		}
		return dearest(a, b)
	})
	for _, c := range candidates {
		if o.share(left) <= budget {
			break
		}
		drop = append(drop, c)
		left -= c.Total()
	}
	return drop, o.share(left) <= budget
}

// Measure lets the kernel measure what the attached programs cost for a while. The
// measurement costs itself, so it should not go on all the time. It needs CAP_SYS_ADMIN.
// If the context ends earlier, so does the measurement, without an error, and so it does
// when the session detaches. While it is detached there is nothing to measure: the
// overhead is none, over no time.
//
// The kernel measures for all its programs as long as a descriptor is open, which it
// closes itself if this process is killed.
func (s *session) Measure(ctx context.Context, window time.Duration) (Overhead, error) {
	o := Overhead{Began: time.Now(), CPUs: onlineCPUs(os.DirFS("/"))}
	s.mu.Lock()
	detached := s.detached
	s.mu.Unlock()
	if detached == nil {
		return o, nil
	}
	statistics, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return Overhead{}, &Error{Op: "enable", Object: "run-time statistics", Err: err}
	}
	defer statistics.Close()
	s.mu.Lock()
	before := s.attached.runs()
	s.mu.Unlock()
	o.Began = time.Now()
	over := time.NewTimer(window)
	defer over.Stop()
	select {
	case <-ctx.Done():
	case <-detached:
		// What has been detached cannot be asked what it cost.
		return Overhead{Began: o.Began, CPUs: o.CPUs}, nil
	case <-over.C:
	}
	s.mu.Lock()
	after := s.attached.runs()
	s.mu.Unlock()
	o.Over = time.Since(o.Began)
	o.Probes = costs(before, after)
	return o, nil
}

// Shed detaches one probe and keeps it off when the session attaches again; why is
// what Probes then tells. Calls that are in flight at that moment count as lost.
func (s *session) Shed(p Probe, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Needed {
		return &Error{Op: "detach", Object: p.Function, Err: errors.New("there is no trace without it")}
	}
	if s.shed == nil {
		s.shed = make(map[place]string)
	}
	s.shed[p.place()] = why
	for i := range s.probes {
		if s.probes[i].place() == p.place() {
			s.probes[i].Usable, s.probes[i].Why, s.probes[i].By = No, why, ""
		}
	}
	missed, err := s.attached.drop(p.place())
	s.missed += missed
	err = errors.Join(err, s.raise())
	if err == nil && hasStandIn(s.table, p.Role) {
		err = s.attach()
	}
	return err
}
