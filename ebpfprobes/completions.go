package ebpfprobes

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

// CompletionFilter chooses what a session follows. The zero value is the completion
// events of everything, and the marks of this project's own queues.
type CompletionFilter struct {
	PID int // one process; 0 is all but this one
	// Polled follows the queues of process PID that it polls, too: in windows of Window
	// every Every, 10 ms and 1 s if they are 0. A window slows the process's posting and
	// polling down, each call by 1 to 3 us.
	Polled        bool
	Window, Every time.Duration
}

// CompletionSession follows completions until it is closed.
type CompletionSession struct {
	session
	filter    CompletionFilter
	variables map[string]*ebpf.Variable // of the programs for libraries
	polled    *polled                   // nil if not asked for
	follows   bool                      // it has been attached once, with polled queues
	ended     endedCompletions
	marked    *marked
}

// CompletionProbes tells what Completions would attach on this kernel, and why not.
func CompletionProbes() []Probe { return probesOf("completions", completionPoints) }

// Completions begins to follow completions. Where polled or marked queues are followed,
// and events cannot be, it does without these.
func Completions(f CompletionFilter) (*CompletionSession, error) {
	if f.Window == 0 {
		f.Window = 10 * time.Millisecond
	}
	if f.Every == 0 {
		f.Every = max(time.Second, 2*f.Window)
	}
	switch {
	case f.Polled && f.PID == 0:
		return nil, &Error{Op: "follow", Object: "polled queues", Err: errors.New("name a process: its library is traced, in it alone")}
	case f.Window < 0 || f.Every <= f.Window:
		return nil, &Error{Op: "follow", Object: "polled queues", Err: fmt.Errorf("a window of %v every %v: it has to be shorter than what it is a part of", f.Window, f.Every)}
	}
	s := &CompletionSession{filter: f}
	if err := s.open("completions", completionPoints, objects.LoadCompletions, processConstants(f.PID), ""); err != nil {
		return nil, err
	}
	if f.Polled {
		s.polled = &polled{session: s, pid: f.PID}
		if err := s.polled.load(); err != nil {
			s.Close()
			return nil, err
		}
	}
	var err error
	if s.marked, err = newMarked(s, f.PID); err == nil {
		err = s.Attach()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Attach attaches where programs are not attached: at the start, after Detach, and when
// modules were loaded meanwhile.
func (s *CompletionSession) Attach() error {
	if s.polled != nil {
		s.polled.end()
	}
	events := s.session.Attach()
	if errors.Is(events, os.ErrClosed) {
		return events
	}
	if s.marked.begin() == nil {
		events = nil // there is something to follow
	}
	if s.polled == nil {
		return events
	}
	err := s.polled.begin()
	switch {
	case err == nil || errors.Is(err, errGone):
	case s.follows, errors.Is(err, provider.ErrUnknown):
		// The probes tell what is lacking. Windows go on when it has come, or is back.
		err = nil
		if !s.follows {
			err = events
		}
	}
	s.follows = s.follows || err == nil
	return err
}

// Detach detaches every program, so that modules can be unloaded. What was counted stays.
func (s *CompletionSession) Detach() error {
	if s.polled != nil {
		s.polled.end()
	}
	return errors.Join(s.marked.end(), s.session.Detach())
}

// Probes tells what is attached, or is attached in windows, and what is not and why.
func (s *CompletionSession) Probes() []Probe {
	list := s.session.Probes()
	if s.polled != nil {
		list = append(list, s.polled.tell()...)
	}
	return append(list, s.marked.tell()...)
}

// Close detaches and frees everything. It may be called twice.
func (s *CompletionSession) Close() error {
	var err error
	if s.polled != nil {
		s.polled.end()
		err = s.polled.unload()
	}
	if s.marked != nil {
		err = errors.Join(err, s.marked.unload())
	}
	return errors.Join(err, s.session.Close())
}
