package ebpfprobes

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
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
	began      time.Time // of the clock of the programs' times
	mono       time.Duration

	mu       sync.Mutex // over what is attached
	attached attachments
	probes   []Probe
	modules  []string         // of RDMA, when Attach looked
	missed   uint64           // of programs that were detached
	shed     map[place]string // what stays detached, and why
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
	s.began, s.mono = time.Now(), monotonic()
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

// anew makes the programs forget what was in flight when programs were detached.
func (s *session) anew() error {
	if m := s.maps["pending"]; m != nil { // of completions
		var (
			key   objects.CompletionsPendingKey
			value objects.CompletionsPending
			keys  []objects.CompletionsPendingKey
		)
		all := m.Iterate()
		for all.Next(&key, &value) {
			keys = append(keys, key)
		}
		err := all.Err()
		for _, k := range keys {
			if e := m.Delete(k); e != nil && !errors.Is(e, ebpf.ErrKeyNotExist) {
				err = errors.Join(err, e)
			}
		}
		if err != nil {
			return &Error{Op: "empty", Object: "pending", Err: err}
		}
	}
	return s.raise()
}

// raise makes calls that are in flight lost.
func (s *session) raise() error {
	if s.generation == nil {
		return nil
	}
	var n uint32
	err := s.generation.Get(&n)
	if err == nil {
		err = s.generation.Set(n + 1)
	}
	if err != nil {
		return &Error{Op: "set", Object: "generation", Err: err}
	}
	return nil
}

// samples gives what the programs send until the context ends, to the last that was sent
// before; then it ends without an error. A sample is good until the next.
func (s *session) samples(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if s.reader == nil {
			yield(nil, &Error{Op: "read", Object: "events", Err: errors.New("the session was begun without Events in its filter")})
			return
		}
		// A deadline does not end a Read that waits.
		stop := context.AfterFunc(ctx, func() { s.reader.Flush() })
		defer stop()
		var record ringbuf.Record
		left := -1 // bytes to read after the end: what is sent meanwhile is not followed
		for {
			if left < 0 && ctx.Err() != nil {
				left = s.reader.AvailableBytes()
			}
			if left == 0 {
				return
			}
			err := s.reader.ReadInto(&record)
			switch {
			case errors.Is(err, ringbuf.ErrFlushed) && ctx.Err() == nil:
				continue // of a context before
			case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrClosed):
				return
			case err != nil:
				yield(nil, &Error{Op: "read", Object: "events", Err: err})
				return
			}
			if left > 0 {
				left = max(left-8-(len(record.RawSample)+7)&^7, 0) // with its header, as the ring holds it
			}
			if !yield(record.RawSample, nil) {
				return
			}
		}
	}
}

// at is when the programs' clock showed ns.
func (s *session) at(ns uint64) time.Time { return s.began.Add(time.Duration(ns) - s.mono) }

// Attach attaches where programs are not attached: at the start, after Detach, and when
// modules were loaded meanwhile, see Stale. What is attached stays so.
func (s *session) Attach() error {
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
	k, can := kernel.Open(), findCapabilities()
	sites := resolve(k, s.purpose, s.table, can)
	s.modules = k.Modules()
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
	s.probes = s.probes[:0]
	for i := range sites {
		if why, ok := s.shed[sites[i].probe.place()]; ok && sites[i].probe.Usable == Yes {
			sites[i].probe.Usable, sites[i].probe.Why, sites[i].probe.By = No, why, ""
		}
		if a := attached[sites[i].probe.place()]; a != nil {
			sites[i].probe = a.probe
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
	s.missed += s.attached.missed()
	return s.attached.close()
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

// runsMissed counts the runs that the kernel left out.
func (s *session) runsMissed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed + s.attached.missed()
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
	for _, s := range resolve(k, purpose, table, findCapabilities()) {
		probes = append(probes, s.probe)
	}
	return probes
}
