package ebpfprobes

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
)

// session is what the sessions of all purposes have: programs, their maps, and where
// they are attached.
type session struct {
	purpose string
	table   []point
	spec    *ebpf.CollectionSpec
	maps    map[string]*ebpf.Map
	reader  *ringbuf.Reader // nil if nothing is sent
	// Of the programs: calls that began in another have lost their ends. nil if they have none.
	generation *ebpf.Variable
	clock      wallClock

	mu       sync.Mutex // over what is attached
	attached attachments
	probes   []Probe
	modules  []string         // of RDMA, when Attach looked
	missed   uint64           // of programs that were detached
	shed     map[place]string // what stays detached, and why
	detached chan struct{}    // closed when all is detached; nil while it is
	closed   bool
}

// open sets the programs' constants and makes the maps; ring is the one to read events
// from, "" if none is wanted. Nothing is attached yet.
func (s *session) open(purpose string, table []point, load func() (*ebpf.CollectionSpec, error), constants map[string]any, ring string) error {
	if err := checkNamespace(); err != nil {
		return err
	}
	// Before 5.11 maps counted against RLIMIT_MEMLOCK.
	// Later ones do not mind, so a refusal is left to the maps. cilium's own package for
	// this asks the kernel whenever a program starts that links it.
	unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	s.purpose, s.table = purpose, table
	var err error
	if s.spec, err = load(); err != nil {
		return &Error{Op: "read", Object: "programs", Err: err}
	}
	for _, p := range s.spec.Programs {
		p.KernelVersion = anyVersion
	}
	for name, v := range constants {
		if err := s.spec.Variables[name].Set(v); err != nil {
			return &Error{Op: "set", Object: name, Err: err}
		}
	}
	if err := s.makeMaps(); err != nil {
		return err
	}
	if ring != "" {
		if s.reader, err = ringbuf.NewReader(s.maps[ring]); err != nil {
			s.Close()
			return &Error{Op: "read", Object: ring, Err: err}
		}
	}
	return nil
}

// processConstants are the programs' filters by process: one, or all but this one.
func processConstants(pid int) map[string]any {
	set := map[string]any{"only_process": uint32(pid), "skip_process": uint32(0)}
	if pid == 0 {
		set["skip_process"] = uint32(os.Getpid())
	}
	return set
}

func (s *session) makeMaps() error {
	c, err := ebpf.NewCollection(&ebpf.CollectionSpec{
		Maps: s.spec.Maps, Variables: s.spec.Variables, Types: s.spec.Types, ByteOrder: s.spec.ByteOrder,
	})
	if err != nil {
		return loadError("create maps", err)
	}
	s.maps = make(map[string]*ebpf.Map)
	for name := range c.Maps {
		s.maps[name] = c.DetachMap(name)
	}
	s.generation = c.Variables["generation"]
	c.Close()
	return nil
}

// at is when the programs' clock showed ns.
func (s *session) at(ns uint64) time.Time { return s.clock.at(ns) }

// Attach attaches where programs are not attached: at the start, after Detach, and when
// modules were loaded meanwhile, see Stale. What is attached stays so.
func (s *session) Attach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return s.attach()
}

func (s *session) attach() error {
	if len(s.attached.sites) == 0 {
		if err := s.anew(); err != nil {
			return err
		}
	}
	k, can := kernel.Open(), findCapabilities()
	sites := resolve(k, s.purpose, s.table, can)
	s.modules, s.attached.tellsMisses = k.Modules(), tellsMisses(k)
	attached := make(map[place]*attachment)
	for _, a := range s.attached.sites {
		attached[a.probe.place()] = a
	}
	for i := range sites {
		delete(attached, sites[i].probe.place())
	}
	for gone := range attached { // with their modules
		missed, _ := s.attached.drop(gone)
		s.missed += missed
	}
	for _, a := range s.attached.sites {
		attached[a.probe.place()] = a
	}
	if s.detached == nil {
		s.detached = make(chan struct{})
	}
	s.probes = s.probes[:0]
	for _, i := range standInsLast(sites) {
		if why, ok := s.shed[sites[i].probe.place()]; ok && sites[i].probe.Usable == Yes {
			sites[i].probe.Usable, sites[i].probe.Why, sites[i].probe.By = No, why, ""
		}
		if a := attached[sites[i].probe.place()]; a != nil {
			sites[i].probe = a.probe
		} else if sites[i].standsBy(sites) {
			continue
		} else {
			s.attached.attach(k, s.spec, s.maps, &sites[i], can)
		}
		s.probes = append(s.probes, sites[i].probe)
	}
	return Lacking(s.probes)
}

// Stale tells whether modules of RDMA have come or gone since Attach: then Attach finds
// more, or less.
func (s *session) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.Equal(s.modules, kernel.RDMAModules())
}

// Detach detaches every program, so that modules can be unloaded. What was counted stays.
func (s *session) Detach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detach()
}

func (s *session) detach() error {
	if s.detached != nil {
		close(s.detached)
		s.detached = nil
	}
	s.missed += s.attached.missed()
	return s.attached.close()
}

// idle tells whether nothing is attached: ends are missed then.
func (s *session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && len(s.attached.sites) == 0
}

// plays tells whether a role's programs are attached.
func (s *session) plays(role string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.attached.sites, func(a *attachment) bool { return a.probe.Role == role })
}

// Probes tells what is attached, and what is not and why.
func (s *session) Probes() []Probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.probes)
}

// Close detaches and frees everything. It may be called twice.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	errs := []error{s.detach()}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// runsMissed counts the runs that the kernel left out, and the return probes of which it
// does not tell.
func (s *session) runsMissed() (missed, untold uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed + s.attached.missed(), s.attached.untold()
}

// counter sums a counter of the programs over the processors.
func (s *session) counter(c uint32) (n uint64, err error) {
	var each []uint64
	if err := s.maps["counters"].Lookup(c, &each); err != nil {
		return 0, &Error{Op: "read", Object: "counters", Err: err}
	}
	for _, v := range each {
		n += v
	}
	return n, nil
}

// probesOf tells what a purpose would attach on this kernel, and why not.
func probesOf(purpose string, table []point) []Probe {
	k := kernel.Open()
	var probes []Probe
	sites := resolve(k, purpose, table, findCapabilities())
	for i := range sites {
		probes = append(probes, sites[i].planned(sites))
	}
	return probes
}
