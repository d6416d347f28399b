package ebpfprobes

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// attachments are sites of the kernel with the programs that are attached there.
type attachments struct {
	sites       []*attachment
	tellsMisses bool
}

// attachment is one site's programs.
type attachment struct {
	probe    Probe
	links    []link.Link
	programs []*ebpf.Program
	exits    []bool // which of them run at the function's return
}

// attach loads a site's programs, with maps that exist, and attaches them. Where fentry
// does not work, a kprobe is tried; the site's probe says what became of it.
func (a *attachments) attach(k *kernel.Kernel, spec *ebpf.CollectionSpec, maps map[string]*ebpf.Map, s *site, can capabilities) {
	if s.probe.Usable != Yes {
		return
	}
	err := a.attachBy(s.probe.By, k, spec, maps, s)
	if err != nil && s.probe.By == ByFentry && can.kprobe == nil {
		if kerr := a.attachBy(ByKprobe, k, spec, maps, s); kerr != nil {
			err = errors.Join(err, kerr)
		} else {
			s.probe.By, err = ByKprobe, nil
		}
	}
	if err != nil {
		s.probe.Usable, s.probe.Why, s.probe.Err, s.probe.By = No, err.Error(), err, ""
	}
}

// attachBy attaches what ends a call before what begins it, so that nothing begins
// that does not end.
func (a *attachments) attachBy(by By, k *kernel.Kernel, spec *ebpf.CollectionSpec, with map[string]*ebpf.Map, s *site) error {
	entry, exit := "_fentry", "_fexit"
	if by == ByKprobe {
		entry, exit = "_kprobe", "_kretprobe"
	}
	if by == ByTracepoint {
		entry = ""
	}
	made := &attachment{probe: s.probe}
	made.probe.By = by
	if s.exit != "" {
		if err := made.one(by, s.exit+exit, true, k, spec, with, s); err != nil {
			return err
		}
	}
	if s.entry != "" {
		if err := made.one(by, s.entry+entry, false, k, spec, with, s); err != nil {
			made.close()
			return err
		}
	}
	a.sites = append(a.sites, made)
	return nil
}

func (a *attachment) one(by By, name string, exit bool, k *kernel.Kernel, spec *ebpf.CollectionSpec, with map[string]*ebpf.Map, s *site) error {
	program := spec.Programs[name]
	if program == nil {
		return fmt.Errorf("no program %s", name)
	}
	program = program.Copy()
	program.AttachTo = ""
	setCookie(program.Instructions, s.cookie)
	if by == ByFentry {
		program.AttachTo = s.function.Name
	}
	// A collection of one program: one that the kernel refuses takes no other along.
	one := &ebpf.CollectionSpec{
		Maps: spec.Maps, Programs: map[string]*ebpf.ProgramSpec{name: program},
		Variables: spec.Variables, Types: spec.Types, ByteOrder: spec.ByteOrder,
	}
	c, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{
		Programs:        ebpf.ProgramOptions{ExtraRelocationTargets: k.ModuleTypes()},
		MapReplacements: maps.Clone(with),
		Cache:           k.Types,
	})
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	loaded := c.DetachProgram(name)
	c.Close()
	var l link.Link
	switch {
	case by == ByTracepoint:
		l, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: s.function.Name, Program: loaded})
	case by == ByFentry:
		// Without its type there is no cookie.
		l, err = link.AttachTracing(link.TracingOptions{Program: loaded, Cookie: s.cookie, AttachType: program.AttachType})
	case exit:
		l, err = link.Kretprobe(s.function.Name, loaded, nil)
	default:
		// No cookie: the program has it. cilium/ebpf refuses them to a process that has its
		// privileges from its file's capabilities.
		l, err = link.Kprobe(s.function.Name, loaded, nil)
	}
	if err != nil {
		loaded.Close()
		return fmt.Errorf("attach %s: %w", name, err)
	}
	a.links, a.programs, a.exits = append(a.links, l), append(a.programs, loaded), append(a.exits, exit)
	return nil
}

// close detaches in the order opposite to attaching: what begins a call goes first.
func (a *attachments) close() error {
	var errs []error
	for i := len(a.sites) - 1; i >= 0; i-- {
		errs = append(errs, a.sites[i].close())
	}
	a.sites = nil
	return errors.Join(errs...)
}

// drop detaches what is at a place, and counts the runs that the kernel left out there.
func (a *attachments) drop(at place) (missed uint64, err error) {
	var errs []error
	a.sites = slices.DeleteFunc(a.sites, func(s *attachment) bool {
		if s.probe.place() != at {
			return false
		}
		missed += s.missed()
		errs = append(errs, s.close())
		return true
	})
	return missed, errors.Join(errs...)
}

func (a *attachment) close() error {
	var errs []error
	for i := len(a.links) - 1; i >= 0; i-- {
		errs = append(errs, a.links[i].Close())
	}
	for _, p := range a.programs {
		errs = append(errs, p.Close())
	}
	a.links, a.programs, a.exits = nil, nil, nil
	return errors.Join(errs...)
}

// missed counts runs that the kernel left out: of programs, since one ran already on that
// CPU, and of return probes, since too many calls were under way.
func (a *attachments) missed() (n uint64) {
	for _, s := range a.sites {
		n += s.missed()
	}
	return n
}

func (a *attachment) missed() (n uint64) {
	for _, p := range a.programs {
		if s, err := p.Stats(); err == nil {
			n += s.RecursionMisses
		}
	}
	if a.probe.By != ByKprobe {
		return n
	}
	for _, l := range a.links {
		info, err := l.Info()
		if err != nil {
			continue
		}
		if e := info.PerfEvent(); e != nil && e.Kprobe() != nil {
			n += e.Kprobe().Missed
		}
	}
	return n
}

// untold counts return probes whose misses are not told: by the kernel, or of links that
// cilium/ebpf made in the old way, see one.
func (a *attachments) untold() (n uint64) {
	for _, s := range a.sites {
		for i, exit := range s.exits {
			if !exit || s.probe.By != ByKprobe {
				continue
			}
			if _, err := s.links[i].Info(); err != nil || !a.tellsMisses {
				n++
			}
		}
	}
	return n
}

// tellsMisses tells whether the kernel tells of a kprobe how often it missed: from Linux
// 6.7 on (struct bpf_link_info, perf_event.kprobe.missed).
func tellsMisses(k *kernel.Kernel) bool {
	spec, err := k.Types.Kernel()
	if err != nil {
		return false
	}
	info, err := spec.AnyTypeByName("bpf_link_info")
	return err == nil && hasMember(info, "missed")
}

func hasMember(t btf.Type, name string) bool {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	return slices.ContainsFunc(members, func(m btf.Member) bool { return m.Name == name || hasMember(m.Type, name) })
}
