package ebpfprobes

import (
	"errors"
	"fmt"
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
		for _, s := range resolve(k, p.purpose, p.table, can) {
			probes = append(probes, s.probe)
		}
	}
	return probes
}

// Registrations begins to follow the registration of memory regions.
func Registrations(f Filter) (*RegistrationSession, error) {
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
	if err := s.Attach(); err != nil {
		s.Close()
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

func monotonic() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

// loadError says what to do where a capability is missing.
func loadError(what string, err error) error {
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w: tracing needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN", err)
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
	var errs []error
	for _, l := range lacks {
		errs = append(errs, &Error{Op: "attach for", Object: l.Role, Err: l})
	}
	return errors.Join(errs...)
}

// lack is a role whose probes cannot be attached.
type lack struct {
	Probe
	whys []string
	errs []error
}

func (l *lack) add(p Probe) {
	if !slices.Contains(l.whys, p.Why) {
		l.whys = append(l.whys, p.Why)
	}
	if p.Err != nil {
		l.errs = append(l.errs, p.Err)
	}
}

func (l *lack) Error() string { return strings.Join(l.whys, "; ") }

func (l *lack) Unwrap() error { return errors.Join(l.errs...) }

// Is makes everything but a missing privilege unsupported.
func (l *lack) Is(target error) bool {
	return target == errors.ErrUnsupported && !errors.Is(l.Unwrap(), fs.ErrPermission)
}
