package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/outfile"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
)

// traceSession is what follows something, whatever it is.
type traceSession interface {
	Attach() error
	Detach() error
	Stale() bool
	Probes() []ebpfprobes.Probe
	Losses() (ebpfprobes.Losses, error)
	Measure(ctx context.Context, window time.Duration) (ebpfprobes.Overhead, error)
	Shed(p ebpfprobes.Probe, why string) error
}

// traceLook is what was counted until a moment.
type traceLook interface {
	WriteText(w io.Writer, l tracereport.Layout) error
	WriteRecords(s *tracereport.Stream) error
	Panels() []tracereport.Panel
	Metrics() []tracereport.Metric
}

// traceRun is one run of a trace: it prints what a session counts.
type traceRun struct {
	*traceOutputs
	title       string
	counted     string // by the heat map
	out, stderr io.Writer
	usr1        chan os.Signal
	process     tracedProcess       // the only one that is traced, if there is one
	forgets     string              // what the session forgets when it attaches again
	frees       string              // what its detaching is good for
	notices     noticeQueue         // that are to be printed by the loop
	told        noticeQueue         // that are to be printed on standard error
	live        *liveText           // nil: not a terminal
	stream      *tracereport.Stream // nil: not --json
	listener    net.Listener        // nil: not --listen

	session traceSession
	begin   func(at time.Time) error // writes the first record
	look    func(now tracereport.Tracing, before traceLook) (traceLook, error)
	events  func(ctx context.Context, to chan<- func() error) error // hands over what to print; nil: none

	last  traceLook     // that was printed
	pause time.Duration // between measurements
	heat  *tracereport.Heat

	mu sync.Mutex // over what scrapes read too
	traceState
}

// traceState is how the tracing stands.
type traceState struct {
	attached   bool
	since      time.Time     // of being attached
	traced     time.Duration // before that
	overhead   *ebpfprobes.Overhead
	lastShare  float64
	unmeasured string
}

func newTraceRun(cmd *cobra.Command, o *traceOutputs, schema, title string) *traceRun {
	t := &traceRun{traceOutputs: o, title: title, counted: "calls", frees: "drivers can be unloaded", out: cmd.OutOrStdout(), stderr: &lockedWriter{w: cmd.ErrOrStderr()},
		usr1: make(chan os.Signal, 1), notices: newNoticeQueue(), told: newNoticeQueue()}
	signal.Notify(t.usr1, syscall.SIGUSR1) // before attaching, which takes a while
	if o.json {
		t.stream = tracereport.NewStream(t.out, schema)
	} else if o.svg != "-" {
		t.live = newLiveText(t.out)
	}
	return t
}

// start makes a run, and finds out what cannot be before anything is attached: attaching
// takes seconds, and a trace may last for hours before its picture is written.
func (o *traceOutputs) start(cmd *cobra.Command, pid int, device, schema, title string) (*traceRun, error) {
	process, err := findProcess(pid)
	if err != nil {
		return nil, err
	}
	if o.svg != "" && o.svg != "-" {
		if err := outfile.Check(o.svg); err != nil {
			return nil, fmt.Errorf("--svg: %w", err)
		}
	}
	t := newTraceRun(cmd, o, schema, title)
	t.process = process
	t.begin = func(at time.Time) error { return t.stream.Begin(at, pid, device, t.session.Probes()) }
	if o.listen != "" {
		if t.listener, err = tracereport.Listen(o.listen); err != nil {
			return nil, fmt.Errorf("--listen %w", err)
		}
	}
	return t, nil
}

// run prints until the context ends or the duration is over; then once more.
func (t *traceRun) run(ctx context.Context) error {
	began := time.Now()
	t.attached, t.since = true, began
	if t.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.duration)
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var working, measuring sync.WaitGroup
	defer working.Wait()
	defer stop(nil)

	if t.listener != nil {
		working.Go(func() { stop(t.serve(ctx, t.listener, began)) })
	}
	defer signal.Stop(t.usr1)
	if t.stream != nil {
		if err := t.begin(began); err != nil {
			return err
		}
	}
	events := make(chan func() error)
	if t.events != nil {
		working.Go(func() {
			defer close(events)
			if err := t.events(ctx, events); err != nil {
				stop(err)
			}
		})
		t.live = nil
	}
	if t.svg != "" {
		t.heat = tracereport.NewHeat(t.counted, began, t.heatStep())
	}
	var steering, telling sync.WaitGroup
	said := make(chan struct{})
	telling.Go(func() { t.tell(said) })
	steering.Go(func() { stop(t.steer(ctx, &measuring)) })
	err := t.loop(ctx, events)
	stop(nil)
	steering.Wait()
	measuring.Wait()
	close(said)
	telling.Wait()
	t.printNotices()
	if t.events != nil {
		for print := range events { // of what came before the end
			if err == nil {
				err = print()
			}
		}
	}
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = cause
	}
	if err != nil {
		return err
	}
	return t.finish()
}

// loop prints. Only it writes to standard output, where it may have to wait for a reader.
func (t *traceRun) loop(ctx context.Context, events <-chan func() error) error {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	draw := make(<-chan time.Time) // of the heat map
	if t.heat != nil {
		d := time.NewTicker(t.heatStep())
		defer d.Stop()
		draw = d.C
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if t.live != nil || t.everyInterval {
				err = t.print(false)
			} else {
				_, err = t.lookNow(nil) // the kernel's tables have no room for ever
			}
		case at := <-draw:
			err = t.draw(at)
		case <-t.notices.came:
			t.printNotices()
		case print, open := <-events:
			if !open {
				return nil
			}
			err = print()
		}
		if err != nil {
			return err
		}
	}
}

// heatStep is how long a column of the heat map is at first.
func (t *traceRun) heatStep() time.Duration {
	if t.duration > 0 {
		return max(min(t.duration/100, time.Second), 100*time.Millisecond)
	}
	return time.Second
}

// now tells how the tracing stands.
func (t *traceRun) now() (tracereport.Tracing, error) {
	lost, err := t.session.Losses()
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now()
	state := tracereport.Tracing{At: at, Traced: t.traced, Attached: t.attached, Probes: t.session.Probes(), Losses: lost,
		Overhead: t.overhead, LastShare: t.lastShare, Unmeasured: t.unmeasured, Budget: float64(t.budget)}
	if t.attached {
		state.Traced += at.Sub(t.since)
	}
	return state, err
}

func (t *traceRun) lookNow(before traceLook) (traceLook, error) {
	now, err := t.now()
	if err != nil {
		return nil, err
	}
	return t.look(now, before)
}
