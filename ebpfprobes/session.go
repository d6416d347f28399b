package ebpfprobes

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/kernel"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// Filter chooses what a session follows. The zero value is everything.
type Filter struct {
	PID        int           // one process; 0 is all but this one
	Events     bool          // send each call, see RegistrationSession.Events
	SlowerThan time.Duration // of these only what took as long
	Stacks     bool          // with the process's stack
}

// RegistrationSession follows registrations until it is closed.
type RegistrationSession struct {
	session
	ended  ended
	frames framesOf
}

// Probes tells what the sessions of each purpose would attach on this kernel, and why
// not: of registrations, completions, leaks, connections and errors.
func Probes() []Probe {
	k, can := kernel.Open(), findCapabilities()
	var probes []Probe
	for _, p := range []struct {
		purpose string
		table   []point
	}{
		{"registrations", registrationPoints}, {"completions", completionPoints}, {"leaks", leakPoints},
		{"connections", connectionPoints}, {"errors", errorPoints},
	} {
		sites := resolve(k, p.purpose, p.table, can)
		for i := range sites {
			probes = append(probes, sites[i].planned(sites))
		}
		if p.purpose == "registrations" {
			probes = append(probes, syscallProbes()...)
		}
	}
	return probes
}

// Registrations begins to follow the registration of memory regions.
func Registrations(f Filter) (*RegistrationSession, error) {
	s, err := openRegistrations(f)
	if err != nil {
		return nil, err
	}
	if err := s.Attach(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openRegistrations makes a session that is not attached.
func openRegistrations(f Filter) (*RegistrationSession, error) {
	set := processConstants(f.PID)
	set["want_events"], set["slower_than"], set["want_stacks"] = boolByte(f.Events), uint64(f.SlowerThan), boolByte(f.Stacks)
	ring := ""
	if f.Events {
		ring = "events"
	}
	s := new(RegistrationSession)
	load := func() (*ebpf.CollectionSpec, error) {
		spec, err := objects.LoadRegistrations()
		if err == nil && f.Stacks {
			spec.Maps["events"].MaxEntries = 8 << 20 // a stack is 5 KiB
		}
		return spec, err
	}
	if err := s.open("registrations", registrationPoints, load, set, ring); err != nil {
		return nil, err
	}
	return s, nil
}

// Close detaches and frees everything. It may be called twice.
func (s *RegistrationSession) Close() error {
	err := s.session.Close()
	s.frames.close()
	return err
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// loadError says what to do where the kernel allows no program of tracing: what is refused
// for that reason may also come as another error, of something that was tried instead.
func loadError(what string, err error) error {
	if why := mayRead(); why != nil {
		err = why
	} else if errors.Is(err, unix.EPERM) {
		err = unprivileged()
	}
	return &Error{Op: what, Err: err}
}

// Lacking is an error if a role without which there is no trace is played by none of
// the probes: one that is errors.ErrUnsupported, or fs.ErrPermission where a privilege
// is missing.
func Lacking(probes []Probe) error {
	var lacks []*lack
	for _, p := range probes {
		same := func(q Probe) bool { return q.Purpose == p.Purpose && q.Role == p.Role }
		if !p.Needed || slices.ContainsFunc(probes, func(q Probe) bool { return same(q) && q.Usable == Yes }) {
			continue
		}
		at := slices.IndexFunc(lacks, func(l *lack) bool { return same(l.Probe) })
		if at < 0 {
			at, lacks = len(lacks), append(lacks, &lack{Probe: p})
		}
		lacks[at].add(p)
	}
	// Most often one reason is that of all: it is told once.
	var errs []error
	var told []string
	for _, l := range lacks {
		if slices.Contains(told, l.Error()) {
			continue
		}
		told = append(told, l.Error())
		var roles []string
		for _, m := range lacks {
			if m.Error() == l.Error() && !slices.Contains(roles, m.Role) {
				roles = append(roles, m.Role)
			}
		}
		errs = append(errs, &Error{Op: "attach for", Object: strings.Join(roles, ", "), Err: l})
	}
	return errors.Join(errs...)
}

// lack is a role whose probes cannot be attached.
type lack struct {
	Probe
	absent []string // why functions are not there, as most drivers' are not
	whys   []string // why those that are there cannot be used
	errs   []error
}

func (l *lack) add(p Probe) {
	to := &l.absent
	if p.Err != nil {
		to = &l.whys
		l.errs = append(l.errs, p.Err)
	}
	if !slices.Contains(*to, p.Why) {
		*to = append(*to, p.Why)
	}
}

func (l *lack) Error() string {
	if len(l.whys) > 0 {
		return strings.Join(l.whys, "; ")
	}
	absent := l.absent
	if len(absent) > 1 { // the others tell why there is none
		absent = slices.DeleteFunc(slices.Clone(absent), func(why string) bool { return why == noDriver })
	}
	return strings.Join(absent, "; ")
}

func (l *lack) Unwrap() error { return errors.Join(l.errs...) }

// Is makes everything but a missing privilege unsupported.
func (l *lack) Is(target error) bool {
	return target == errors.ErrUnsupported && !errors.Is(l.Unwrap(), fs.ErrPermission)
}
