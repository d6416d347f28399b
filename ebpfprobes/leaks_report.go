package ebpfprobes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/symbols"
)

// siteKey tells rows apart.
type siteKey struct {
	process  symbols.ID
	kernel   bool
	command  string // of the kernel's own only
	device   uint32
	resource Resource
	exporter string
	stack    *stack
	inKernel int32 // number of the kernel's stack; negative is none
}

// siteHistory is what is kept of a row from report to report.
type siteHistory struct {
	history []sample
	ended   uint64
}

// liveObject is an object of the kernel's table.
type liveObject struct {
	key birthKey
	objects.LifecycleObject
}

// objects reads the table of live objects.
func (s *LeakSession) objects() ([]liveObject, error) {
	all, err := table(s.maps["objects"], func(address uint64, o objects.LifecycleObject) liveObject {
		return liveObject{birthKey{address, o.Born}, o}
	})
	if err != nil {
		return nil, &Error{Op: "read", Object: "objects", Err: err}
	}
	return all, nil
}

// Report ends an interval, and tells what is alive: those first that leak most. Intervals
// should be of one length.
func (s *LeakSession) Report() ([]LeakRow, error) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	devices, err := s.names("devices")
	if err != nil {
		return nil, err
	}
	all, err := s.objects()
	if err != nil {
		return nil, err
	}
	// The stacks of all that was found have been sent by now.
	if err := s.catchUp(); err != nil {
		return nil, err
	}
	s.stacks.mu.Lock()
	defer s.stacks.mu.Unlock()
	rows := s.group(all, devices)
	s.judge(rows)
	list := make([]LeakRow, 0, len(rows))
	for key, r := range rows {
		r.Stack, r.StackNote = s.tellStack(key)
		r.KernelStack = s.kernelStack(key)
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b LeakRow) int {
		switch {
		case a.Verdict != b.Verdict:
			return int(b.Verdict) - int(a.Verdict)
		case a.Grown != b.Grown:
			return int(b.Grown - a.Grown)
		case a.Bytes != b.Bytes && a.Bytes > b.Bytes, a.Bytes == b.Bytes && a.Alive > b.Alive:
			return -1
		case a.Bytes != b.Bytes, a.Alive != b.Alive:
			return 1
		}
		return strings.Compare(fmt.Sprint(a.PID, a.Resource, a.Oldest), fmt.Sprint(b.PID, b.Resource, b.Oldest))
	})
	return list, nil
}

func (s *LeakSession) tellStack(key siteKey) ([]Frame, string) {
	if key.kernel {
		return nil, "the kernel's own"
	}
	return s.stacks.tell(key.stack)
}

// kernelStack names the kernel's functions.
func (s *LeakSession) kernelStack(key siteKey) (frames []Frame) {
	var addresses [64]uint64
	if key.inKernel < 0 || s.maps["stacks"].Lookup(uint32(key.inKernel), &addresses) != nil {
		return nil
	}
	for _, a := range addresses {
		if a == 0 {
			break
		}
		f := Frame{Address: a}
		f.Function, f.File, f.Offset = s.kernel.Of(a)
		frames = append(frames, f)
	}
	return frames
}

// group counts objects by what made them, and moves the histories on.
func (s *LeakSession) group(all []liveObject, devices map[uint32]string) map[siteKey]*LeakRow {
	rows := make(map[siteKey]*LeakRow)
	alive := make(map[birthKey]bool, len(all))
	survivors := make(map[birthKey]*siteHistory)
	for _, o := range all {
		alive[o.key] = true
		key := siteKey{
			process: symbols.ID{PID: int(o.Tgid), Began: o.Process}, kernel: o.Kernel != 0,
			device: o.Device, resource: Resource(o.Resource), exporter: text(o.Exporter[:]),
			inKernel: max(o.KernelStack, -1),
		}
		if key.kernel {
			key.command = text(o.Comm[:])
		} else {
			key.stack = s.stacks.unwind(o.key)
		}
		r := rows[key]
		if r == nil {
			r = &LeakRow{
				PID: key.process.PID, Command: text(o.Comm[:]), Kernel: key.kernel, Device: devices[key.device],
				Resource: key.resource, Exporter: key.exporter, Oldest: s.at(o.Born),
			}
			rows[key] = r
			if s.sites[key] == nil {
				s.sites[key] = new(siteHistory)
			}
		}
		r.Alive++
		r.Bytes += o.Size
		if at := s.at(o.Born); at.Before(r.Oldest) {
			r.Oldest = at
		}
		if s.seen[o.key] {
			r.Survivors++
			survivors[o.key] = s.sites[key]
		} else {
			r.Born++
		}
		if r.Resource == DMABuffer && s.seen[o.key] {
			s.inodes[key] = append(s.inodes[key], o.Inode)
		}
	}
	for k, site := range s.last {
		if !alive[k] {
			site.ended++
		}
	}
	s.seen, s.last = alive, survivors
	s.stacks.keep(alive)
	for key, site := range s.sites {
		now := sample{ended: site.ended}
		site.ended = 0
		if r := rows[key]; r != nil {
			now.survivors, r.Ended = r.Survivors, now.ended
		}
		site.history = append(site.history, now)
		if most := 3*s.window + 1; len(site.history) > most {
			site.history = site.history[len(site.history)-most:]
		}
		if rows[key] == nil && !slices.ContainsFunc(site.history, func(h sample) bool { return h.survivors > 0 }) {
			delete(s.sites, key)
		}
	}
	return rows
}

// judge asks whether owners are there, and gives each row its verdict.
func (s *LeakSession) judge(rows map[siteKey]*LeakRow) {
	living := make(map[symbols.ID]bool)
	for key, r := range rows {
		if key.kernel {
			continue
		}
		if _, ok := living[key.process]; !ok {
			living[key.process] = key.process.Alive()
		}
		r.Gone = !living[key.process]
	}
	s.search(rows)
	for key, r := range rows {
		site := s.sites[key]
		if first := site.history[max(0, len(site.history)-1-s.window)]; len(site.history) > 0 {
			r.Grown = int64(r.Survivors) - int64(first.survivors)
		}
		for _, inode := range s.inodes[key] {
			switch held, known := s.holders.holds(inode); {
			case !known:
				r.Unsearched++
			case !held:
				r.Unheld++
			}
		}
		switch {
		case key.kernel:
			r.Verdict = verdict(site.history, s.window)
		case r.Gone && r.Survivors > 0 && (r.Resource != DMABuffer || r.Unheld > 0):
			r.Verdict = Abandoned
		default:
			r.Verdict = verdict(site.history, s.window)
		}
	}
	clear(s.inodes)
}
