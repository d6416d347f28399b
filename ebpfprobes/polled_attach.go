package ebpfprobes

import (
	"errors"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// load loads the programs of the table; they stay loaded from window to window.
func (p *polled) load() error {
	p.multi = features.HaveBPFLinkUprobeMulti() == nil
	err := p.loadPrograms()
	if err == nil && p.multi && !p.multiWorks() {
		p.multi = false
		err = errors.Join(p.unload(), p.loadPrograms())
	}
	return err
}

func (p *polled) loadPrograms() error {
	spec := p.session.spec
	programs := make(map[string]*ebpf.ProgramSpec)
	for _, u := range userPoints {
		for _, name := range []string{u.entry, u.exit} {
			if name == "" {
				continue
			}
			programs[name] = spec.Programs[name].Copy()
			if p.multi {
				programs[name].AttachType = ebpf.AttachTraceUprobeMulti
			}
		}
	}
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: spec.Maps, Programs: programs, Variables: spec.Variables, Types: spec.Types, ByteOrder: spec.ByteOrder,
	}, ebpf.CollectionOptions{MapReplacements: maps.Clone(p.session.maps)})
	if err != nil {
		return loadError("load programs for libraries", err)
	}
	defer c.Close()
	p.session.variables = c.Variables
	p.programs = make(map[string]*ebpf.Program)
	for name := range programs {
		p.programs[name] = c.DetachProgram(name)
	}
	return nil
}

func (p *polled) unload() error {
	var errs []error
	for _, program := range p.programs {
		errs = append(errs, program.Close())
	}
	p.programs = nil
	return errors.Join(errs...)
}

// multiWorks tells whether the kernel attaches to many functions in one process. Until
// Linux 6.10, and where that was not carried back, it took a process for a thread; the
// same kernels do not refuse a negative number as such.
func (p *polled) multiWorks() bool {
	self, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return false
	}
	l, err := self.UprobeMulti(nil, p.programs["end"], &link.UprobeMultiOptions{Addresses: []uint64{1}, PID: math.MaxUint32})
	if err == nil {
		l.Close()
	}
	return errors.Is(err, unix.EINVAL)
}

// joint is what is attached by one call: a program at functions of one library.
type joint struct {
	file, program      string
	exit               bool
	addresses, cookies []uint64
	targets            []int
}

// joints gives what to attach, in order: of a target what ends a call before what begins
// it. Together, functions of one library that one program is for go to the first of them.
func joints(targets []target, together bool) (list []joint) {
	add := func(i int, program string, exit bool) {
		t := &targets[i]
		at := -1
		if together {
			at = slices.IndexFunc(list, func(j joint) bool { return j.file == t.file && j.program == program })
		}
		if at < 0 {
			at, list = len(list), append(list, joint{file: t.file, program: program, exit: exit})
		}
		j := &list[at]
		j.addresses, j.cookies, j.targets = append(j.addresses, t.offset), append(j.cookies, t.point.cookie), append(j.targets, i)
	}
	for i := range targets {
		if targets[i].point.exit != "" {
			add(i, targets[i].point.exit, true)
		}
		if targets[i].point.entry != "" {
			add(i, targets[i].point.entry, false)
		}
	}
	return list
}

// windowLinks are what a window has attached.
type windowLinks struct{ entries, exits []link.Link }

// close detaches, first what begins calls. The kernel waits for all that runs on its
// processors before it lets a link go, which takes longer than all the rest of a window:
// it waits for several at once where it attached to many functions at once.
func (w *windowLinks) close() {
	for _, links := range [][]link.Link{w.entries, w.exits} {
		var closing sync.WaitGroup
		for _, l := range links {
			closing.Go(func() { l.Close() })
		}
		closing.Wait()
	}
}

// attach attaches to all targets that let it; the probes tell why others do not.
func (p *polled) attach(targets []target) (links windowLinks) {
	failed := make(map[int]bool)
	for _, j := range joints(targets, p.multi) {
		if slices.ContainsFunc(j.targets, func(i int) bool { return failed[i] }) {
			continue // without its end a call must not begin
		}
		l, err := p.attachJoint(&j)
		switch {
		case err == nil && j.exit:
			links.exits = append(links.exits, l)
			continue
		case err == nil:
			links.entries = append(links.entries, l)
			continue
		}
		for _, i := range j.targets {
			failed[i] = true
			p.blame(targets[i:i+1], err)
		}
	}
	return links
}

func (p *polled) attachJoint(j *joint) (link.Link, error) {
	file, err := p.open(j.file)
	if err != nil {
		return nil, err
	}
	program := p.programs[j.program]
	if p.multi {
		options := &link.UprobeMultiOptions{Addresses: j.addresses, Cookies: j.cookies, PID: uint32(p.pid)}
		if j.exit {
			return file.UretprobeMulti(nil, program, options)
		}
		return file.UprobeMulti(nil, program, options)
	}
	options := &link.UprobeOptions{Address: j.addresses[0], PID: p.pid, Cookie: j.cookies[0]}
	if j.exit {
		return file.Uretprobe("", program, options)
	}
	return file.Uprobe("", program, options)
}

// open opens a library once, which looks at its headers; the kernel opens it each time.
func (p *polled) open(name string) (*link.Executable, error) {
	if file := p.files[name]; file != nil {
		return file, nil
	}
	file, err := link.OpenExecutable(name)
	if err == nil {
		if p.files == nil {
			p.files = make(map[string]*link.Executable)
		}
		p.files[name] = file
	}
	return file, err
}
