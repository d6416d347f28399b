package ebpfprobes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/provider"
)

// polled follows the queues that a process polls: it attaches to the functions of its
// providers in windows of time, and detaches again.
type polled struct {
	session  *CompletionSession
	pid      int
	programs map[string]*ebpf.Program
	multi    bool // the kernel attaches to all functions of a library at once

	running sync.Mutex         // over stop and done
	stop    context.CancelFunc // of the goroutine that opens windows; nil if none runs
	done    chan struct{}

	mu       sync.Mutex // over what the goroutine changes
	targets  []target
	probes   []Probe
	devices  map[uint64]string // by the process's struct ibv_context
	sampling Sampling
	seen     []provider.Mapping // the providers at the last look

	files map[string]*link.Executable // of the goroutine alone: libraries that were opened
}

// begin looks for the functions and opens windows from now on. That there are none yet
// is an error, and does not keep it from looking again while the process is there.
func (p *polled) begin() error {
	err := p.look()
	if err != nil {
		err = &Error{Op: "follow", Object: fmt.Sprintf("polled queues of process %d", p.pid), Err: err}
	}
	if errors.Is(err, errGone) {
		return err
	}
	p.running.Lock()
	defer p.running.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	p.stop, p.done = stop, make(chan struct{})
	go p.run(ctx, p.done)
	return err
}

// end closes a window that is open and opens no other.
func (p *polled) end() {
	p.running.Lock()
	defer p.running.Unlock()
	if p.stop == nil {
		return
	}
	p.stop()
	<-p.done
	p.stop = nil
}

func (p *polled) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	f := p.session.filter
	for next := time.Now(); ctx.Err() == nil; next = next.Add(f.Every) {
		// A machine that slept does not catch up.
		if late := time.Since(next); late > f.Every {
			next = time.Now()
		}
		if !pause(ctx, time.Until(next)) {
			return
		}
		p.window(ctx, f.Window)
		if p.worthLooking() {
			if err := p.look(); errors.Is(err, errGone) {
				return // the probes tell
			}
		}
	}
}

// pause waits; false is that the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// window attaches for a while.
func (p *polled) window(ctx context.Context, length time.Duration) {
	p.mu.Lock()
	targets := slices.Clone(p.targets)
	number := uint32(p.sampling.Windows + 1)
	p.mu.Unlock()
	if len(targets) == 0 {
		return
	}
	// Work posted in another window is not timed: its completion may have been missed,
	// and its id used again.
	if err := p.session.variables["window"].Set(number); err != nil {
		p.blame(targets, err)
		return
	}
	opened := time.Now()
	links := p.attach(targets)
	began := time.Now()
	pause(ctx, length)
	ended := time.Now()
	links.close()
	closed := time.Since(ended)
	p.mu.Lock()
	p.sampling.Windows++
	p.sampling.Followed += ended.Sub(began)
	p.sampling.Opening += began.Sub(opened)
	p.sampling.Closing += closed
	p.mu.Unlock()
}

// blame notes why functions cannot be attached to.
func (p *polled) blame(targets []target, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range targets {
		if t.probe < len(p.probes) {
			p.probes[t.probe].Usable, p.probes[t.probe].Why, p.probes[t.probe].By = No, err.Error(), ""
		}
	}
}

// tell gives the probes; those of windows are attached in these only.
func (p *polled) tell() []Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.probes)
}
