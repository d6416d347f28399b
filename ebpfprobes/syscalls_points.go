package ebpfprobes

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
)

// syscallPoint is a system call whose beginnings and ends are followed.
type syscallPoint struct {
	call         string
	begins, ends string // programs
	needed       bool
}

// Without ioctl() there is no trace. write() is how old libraries and old kernels register;
// it is every program's call, and what can be done without if that is too dear.
var syscallPoints = []syscallPoint{
	{"ioctl", "ioctl_begins", "ioctl_ends", true},
	{"write", "write_begins", "write_ends", false},
}

// probe tells whether a point's tracepoints are there.
func (p syscallPoint) probe(can error) Probe {
	enter, exit := p.tracepoints()
	probe := Probe{Purpose: "registrations", Role: "by system calls: " + p.call + "()", Function: enter + ", " + exit,
		By: ByTracepoint, Usable: Yes, Needed: p.needed}
	err := can
	if err == nil {
		err = checkTracepoint(enter, enteringFields[p.call])
	}
	if err == nil {
		err = checkTracepoint(exit, leavingFields)
	}
	if err != nil {
		probe.deny(err)
	}
	return probe
}

func (p syscallPoint) tracepoints() (enter, exit string) {
	return "sys_enter_" + p.call, "sys_exit_" + p.call
}

func (p *Probe) deny(err error) { p.Usable, p.Why, p.Err, p.By = No, err.Error(), err, "" }

// syscallProbes tells what of the fallback could be attached. None is needed: the others
// of the purpose are.
func syscallProbes() (probes []Probe) {
	can := features.HaveProgramType(ebpf.TracePoint)
	for _, p := range syscallPoints {
		probe := p.probe(can)
		probe.Needed = false
		probes = append(probes, probe)
	}
	return probes
}

// untoldRoles are the roles that system calls cannot play: phases.
func untoldRoles() (probes []Probe) {
	seen := make(map[string]bool)
	for _, p := range registrationPoints {
		if seen[p.role] || p.entry != "phase" && p.entry != "buffer" && p.entry != "driver" {
			continue
		}
		seen[p.role] = true
		probes = append(probes, Probe{Purpose: "registrations", Role: p.role, Function: p.all()[0], Usable: No,
			Why: "only system calls are followed, which do not tell"})
	}
	return probes
}

// Attach attaches where programs are not attached: at the start and after Detach.
func (s *SyscallSession) Attach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	if len(s.attached.sites) == 0 {
		if err := s.anew(); err != nil {
			return err
		}
	}
	attached := make(map[place]Probe)
	for _, a := range s.attached.sites {
		attached[a.probe.place()] = a.probe
	}
	if s.detached == nil {
		s.detached = make(chan struct{})
	}
	can := features.HaveProgramType(ebpf.TracePoint)
	s.probes = nil
	for _, p := range syscallPoints {
		probe := p.probe(can)
		if is, ok := attached[probe.place()]; ok {
			probe = is
		} else if why, ok := s.shed[probe.place()]; ok && probe.Usable == Yes {
			probe.Usable, probe.Why, probe.By = No, why, ""
		} else if probe.Usable == Yes {
			if err := s.attachTo(p, probe); err != nil {
				probe.deny(err)
			}
		}
		s.probes = append(s.probes, probe)
	}
	lacking := Lacking(s.probes)
	s.probes = append(s.probes, untoldRoles()...)
	return lacking
}

// attachTo attaches what ends a call before what begins it.
func (s *SyscallSession) attachTo(p syscallPoint, probe Probe) error {
	a := &attachment{probe: probe}
	enter, exit := p.tracepoints()
	for _, one := range []struct {
		tracepoint, program string
		exit                bool
	}{{exit, p.ends, true}, {enter, p.begins, false}} {
		if err := a.tracepoint(s.spec, s.maps, one.tracepoint, one.program, one.exit); err != nil {
			a.close()
			return err
		}
	}
	s.attached.sites = append(s.attached.sites, a)
	return nil
}

// tracepoint loads a program and attaches it to a system call. Nothing of the kernel's
// types is needed.
func (a *attachment) tracepoint(spec *ebpf.CollectionSpec, with map[string]*ebpf.Map, tracepoint, name string, exit bool) error {
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: spec.Maps, Programs: map[string]*ebpf.ProgramSpec{name: spec.Programs[name].Copy()},
		Variables: spec.Variables, Types: spec.Types, ByteOrder: spec.ByteOrder,
	}, ebpf.CollectionOptions{MapReplacements: maps.Clone(with)})
	if err != nil {
		return loadError("load "+name, err)
	}
	program := c.DetachProgram(name)
	c.Close()
	l, err := link.Tracepoint("syscalls", tracepoint, program, nil)
	if err != nil {
		return errors.Join(fmt.Errorf("attach %s: %w", name, err), program.Close())
	}
	a.links, a.programs, a.exits = append(a.links, l), append(a.programs, program), append(a.exits, exit)
	return nil
}
