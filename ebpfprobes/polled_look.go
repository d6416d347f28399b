package ebpfprobes

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

var errGone = errors.New("the process is gone")

// target is a function of a mapped library.
type target struct {
	role   provider.Role
	file   string
	offset uint64 // in the file
	point  userPoint
	probe  int // its place in probes
}

// worthLooking tells whether to look for functions again: extended queues that were made
// since the last look have theirs known only then. Looking costs more than a window, so
// it comes ever more rarely, and whenever another library was loaded.
func (p *polled) worthLooking() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	process, err := provider.OpenProcess(p.pid)
	if err != nil {
		return true
	}
	w := p.sampling.Windows
	return !slices.Equal(process.Providers(), p.seen) || w&(w-1) == 0
}

// look finds the functions in the libraries that the process has mapped now.
func (p *polled) look() error {
	process, err := provider.OpenProcess(p.pid)
	if err != nil {
		p.mu.Lock()
		p.targets, p.probes = nil, []Probe{{
			Purpose: "completions", Role: "polled queues", Function: fmt.Sprintf("process %d", p.pid), Usable: No, Why: err.Error(),
		}}
		p.mu.Unlock()
		return fmt.Errorf("%w: %w", errGone, err)
	}
	code := process.Providers()
	live, liveErr := process.Live()
	devices := make(map[uint64]string)
	for _, c := range live {
		devices[c.Address] = c.Device
	}
	seen := code
	// libibverbs loads every provider there is to find one that fits.
	if len(live) > 0 {
		code = slices.DeleteFunc(slices.Clone(code), func(m provider.Mapping) bool {
			return !slices.ContainsFunc(live, func(c provider.Context) bool { return c.Library == m })
		})
	}
	var (
		targets []target
		probes  []Probe
		errs    []error
	)
	for _, m := range code {
		found, probed, err := functions(process, m, live, liveErr)
		for i := range found {
			found[i].probe += len(probes)
		}
		targets, probes, errs = append(targets, found...), append(probes, probed...), append(errs, err)
	}
	if len(code) == 0 {
		errs = append(errs, liveErr)
		probes = append(probes, Probe{
			Purpose: "completions", Role: "polled queues", Function: "libNAME-rdmavNN.so", Usable: No, Why: liveErr.Error(),
		})
	}
	// What ends comes before what begins, and what is posted last: else completions would
	// be taken for those of other posts.
	slices.SortStableFunc(targets, func(a, b target) int { return rank(a.role) - rank(b.role) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets, p.probes, p.seen = targets, probes, seen
	if p.devices == nil {
		p.devices = devices
	}
	maps.Copy(p.devices, devices)
	if len(targets) == 0 {
		return errors.Join(errs...)
	}
	return nil
}

func rank(r provider.Role) int {
	switch r {
	case provider.PostSend:
		return 3
	case provider.EndPoll:
		return 1
	}
	if strings.HasPrefix(string(r), "wr_") {
		return 2
	}
	return 0
}

// functions gives those of one library: what the process's pointers lead to, and what
// the library's table has besides, for queues that are made later.
func functions(process *provider.Process, m provider.Mapping, live []provider.Context, liveErr error) (targets []target, probes []Probe, err error) {
	name := path.Base(m.Path)
	add := func(role provider.Role, function string, state State, why string) int {
		q := Probe{Purpose: "completions", Role: "polled queues: " + string(role), Function: function, Module: name, Usable: state, Why: why}
		if state == Yes {
			q.By = ByUprobe
		}
		probes = append(probes, q)
		return len(probes) - 1
	}
	library, file, note, err := process.Open(m)
	if err != nil {
		add("all", "?", No, err.Error())
		return nil, probes, err
	}
	inFile := make(provider.Operations) // by offset in the file
	isLive := false
	for _, c := range live {
		if c.Library != m {
			continue
		}
		isLive = true
		for role, offsets := range c.Found {
			for _, o := range offsets {
				inFile.Add(role, o)
			}
		}
	}
	table, tableErr := library.Operations()
	for role, addresses := range table {
		var offsets []uint64
		for _, a := range addresses {
			if o, err := library.Offset(a); err == nil {
				offsets = append(offsets, o)
			}
		}
		// A table that lacks what is in use was misread.
		if slices.ContainsFunc(inFile[role], func(o uint64) bool { return !slices.Contains(offsets, o) }) {
			continue
		}
		for _, o := range offsets {
			inFile.Add(role, o)
		}
	}
	if len(inFile) == 0 {
		why := errors.Join(tableErr, liveErr)
		add("all", "?", No, why.Error())
		return nil, probes, why
	}
	for _, role := range slices.Sorted(maps.Keys(inFile)) {
		point, ok := userPoints[role]
		if !ok {
			continue
		}
		for _, o := range inFile[role] {
			function := fmt.Sprintf("%#x", o)
			site, err := siteOf(library, o)
			if err != nil {
				add(role, function, No, err.Error())
				continue
			}
			targets = append(targets, target{role: role, file: file, offset: site, point: point, probe: add(role, function, Yes, note)})
		}
	}
	if len(inFile[provider.EndPoll]) == 0 {
		why := "the process has no extended completion queue"
		if !isLive {
			why = "the library sets it by code, and the process has no device open"
		}
		add(provider.EndPoll, "?", Unknown, why)
	}
	return targets, probes, nil
}

// siteOf is where to attach to the function at an offset in the file.
func siteOf(library *provider.Library, offset uint64) (uint64, error) {
	address, err := library.Address(offset)
	if err != nil {
		return 0, err
	}
	return library.Site(address)
}
