package ebpfprobes

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// SyscallSession follows registrations by the system calls alone, until it is closed: what
// is left where a RegistrationSession cannot be attached, because the kernel lacks types or
// kprobes, or does not allow them. Its rows are the same with all of the time in phase
// Uverbs; of failures it knows the errno, and no cause (UnknownPhase).
//
// It sees calls by write() and ioctl() of 64-bit processes. It does not see what the kernel
// deregisters by itself when a process ends, and it does not know the length of what was
// registered before it began, or by another descriptor, process or interface: its
// deregistration has length 0.
type SyscallSession struct {
	session
	ended       ended
	descriptors descriptors
	departed    uint64 // unconfirmed, of processes that were retired
	sightings   *ringbuf.Reader
	looking     sync.WaitGroup
}

// RegistrationsBySyscalls begins to follow registrations by the system calls alone.
// Filter.Stacks is refused: without the kernel's types the registers are not at hand.
func RegistrationsBySyscalls(f Filter) (*SyscallSession, error) {
	if f.Stacks {
		return nil, &Error{Op: "take", Object: "stacks", Err: fmt.Errorf(
			"not by system calls alone, for want of the kernel's types: trace without stacks: %w", errors.ErrUnsupported)}
	}
	set := processConstants(f.PID)
	set["want_events"], set["slower_than"] = boolByte(f.Events), uint64(f.SlowerThan)
	ring := ""
	if f.Events {
		ring = "events"
	}
	s := new(SyscallSession)
	if err := s.open("registrations", nil, objects.LoadSyscalls, set, ring); err != nil {
		return nil, err
	}
	var err error
	if s.sightings, err = ringbuf.NewReader(s.maps["sightings"]); err != nil {
		s.Close()
		return nil, &Error{Op: "read", Object: "sightings", Err: err}
	}
	s.looking.Go(s.look)
	if err := s.Attach(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close detaches and frees everything. It may be called twice.
func (s *SyscallSession) Close() error {
	var err error
	if s.sightings != nil {
		err = s.sightings.Close()
		s.looking.Wait()
	}
	return errors.Join(err, s.session.Close())
}

// Stale is never: nothing of a module is attached to.
func (s *SyscallSession) Stale() bool { return false }

// Losses tells what was not seen or kept.
func (s *SyscallSession) Losses() (Losses, error) {
	l, err := s.session.Losses()
	if err != nil {
		return l, err
	}
	s.ended.mu.Lock()
	defer s.ended.mu.Unlock()
	l.Unconfirmed = s.departed
	var (
		key  objects.SyscallsCellKey
		cell objects.SyscallsCell
	)
	all := s.maps["cells"].Iterate()
	for all.Next(&key, &cell) {
		if _, v := s.descriptors.of(key.Context, key.Sure != 0); v == unconfirmed {
			l.Unconfirmed += cell.Count
		}
	}
	if err := all.Err(); err != nil {
		return l, &Error{Op: "read", Object: "histograms", Err: err}
	}
	return l, nil
}
