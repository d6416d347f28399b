// Package watch follows a machine's topology: devices that come and go, links
// that train anew, drivers, names, nodes, rails and findings. The kernel's events
// tell when to look, /sys tells what is; so a Record never says what /sys does not.
package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	_ "github.com/peerdirect/peerdirect/internal/needs/linux"
	"github.com/peerdirect/peerdirect/pci"
)

// Schema names the form of a Record in JSON.
const Schema = "peerdirect.topo.watch/1"

// Events of a Record.
const (
	Present  = "present"  // at the start
	Added    = "added"    // a device has come
	Removed  = "removed"  // a device has gone
	Changed  = "changed"  // a field went From one value To another
	Notified = "notified" // the kernel said so, in Detail
	Problem  = "problem"  // of the watch itself, in Detail
)

// Record is one change. What does not apply is null; so is what is unknown.
type Record struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`
	Source  string    `json:"source"` // compare, netlink
	Event   string    `json:"event"`
	Address *string   `json:"address"`
	Name    *string   `json:"name"`
	Kind    *string   `json:"kind"`
	Field   *string   `json:"field"`
	From    *string   `json:"from"`
	To      *string   `json:"to"`
	Detail  *string   `json:"detail"`
}

// WriteJSON prints the record as one line.
func (r Record) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText prints the record as one line.
func (r Record) WriteText(w io.Writer) error {
	what := r.Event
	switch r.Event {
	case Present, Added, Removed:
		what += " " + or(r.Kind, "")
	case Changed:
		what = fmt.Sprintf("%s %s -> %s", *r.Field, or(r.From, "unknown"), or(r.To, "unknown"))
	case Notified, Problem:
		what = fmt.Sprintf("(%s) %s", r.Source, or(r.Detail, ""))
	}
	who := or(r.Address, "-")
	if r.Name != nil && *r.Name != who {
		who += " " + *r.Name
	}
	line := strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, fmt.Sprintf("%-22s  %s", who, what))
	_, err := fmt.Fprintf(w, "%s  %s\n", r.Time.Local().Format("15:04:05.000"), strings.TrimRight(line, " "))
	return err
}

func or(s *string, other string) string {
	if s == nil {
		return other
	}
	return *s
}

// Options are Watch's.
type Options struct {
	Interval time.Duration // how often it looks without being told; 0 is a second
	Read     func() (*pci.Topology, error)
	Pair     pci.PairOptions
}

// quiet is how long the kernel must be silent before /sys is read, and patience
// how long it may talk: a device that comes sends a dozen events.
const (
	quiet    = 50 * time.Millisecond
	patience = time.Second
)

// Watch gives first what there is and then changes, until the context ends, which
// ends it without an error. Where the kernel sends no events (into a container's
// network namespace, for one) it looks every Interval only; that it cannot listen
// at all is told in a Problem.
func Watch(ctx context.Context, o Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w := &watcher{o: o, events: make(chan *Uevent, 1024)}
		if err := w.run(ctx, yield); err != nil && ctx.Err() == nil {
			yield(Record{}, err)
		}
	}
}

type watcher struct {
	o      Options
	events chan *Uevent
}

func record(source, event string) Record {
	return Record{Schema: Schema, Time: time.Now(), Source: source, Event: event}
}

func problem(err error) Record {
	r := record("netlink", Problem)
	r.Detail = new(err.Error() + "; changes are found by looking at /sys only")
	return r
}

func (w *watcher) run(ctx context.Context, yield func(Record, error) bool) error {
	// The socket first, then the listing: no change falls in between.
	deaf := make(chan error, 1)
	if s, err := listen(); err != nil {
		if !yield(problem(err), nil) {
			return nil
		}
	} else {
		ended := make(chan struct{})
		defer func() { <-ended }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			defer close(ended)
			if err := s.receive(ctx, func(e *Uevent) bool { return w.hear(ctx, e) }); err != nil {
				deaf <- err
			}
		}()
	}
	t, err := w.o.Read()
	if t == nil {
		return err
	}
	before := newSnapshot(t, w.o.Pair)
	for _, r := range before.present() {
		if !yield(r, nil) {
			return nil
		}
	}
	interval := w.o.Interval
	if interval <= 0 {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-deaf:
			if !yield(problem(err), nil) {
				return nil
			}
		case e := <-w.events:
			if !w.notify(e, yield) || !w.settle(ctx, yield) {
				return nil
			}
		case <-tick.C:
		}
		now, ok := w.look(ctx, before, yield)
		if !ok {
			return nil
		}
		for _, r := range before.compare(now) {
			if !yield(r, nil) {
				return nil
			}
		}
		before = now
	}
}

// look reads /sys, and where something has changed again until two readings agree
// and the kernel is silent: half of a device that comes or goes is no change to
// tell, and its files go before the kernel says so. A machine that has lost its
// last device is an empty one.
func (w *watcher) look(ctx context.Context, before *snapshot, yield func(Record, error) bool) (*snapshot, bool) {
	const most = 6 // readings of a machine that never rests
	for last, n := before, 1; ; n++ {
		t, _ := w.o.Read()
		if t == nil {
			t = &pci.Topology{}
		}
		now := newSnapshot(t, w.o.Pair)
		if len(w.events) == 0 && len(last.compare(now)) == 0 || n == most {
			return now, ctx.Err() == nil
		}
		last = now
		if !w.settle(ctx, yield) {
			return nil, false
		}
	}
}

// settle passes on what the kernel says until it is quiet.
func (w *watcher) settle(ctx context.Context, yield func(Record, error) bool) bool {
	limit := time.After(patience)
	for {
		select {
		case <-ctx.Done():
			return false
		case e := <-w.events:
			if !w.notify(e, yield) {
				return false
			}
		case <-limit:
			return true
		case <-time.After(quiet):
			return true
		}
	}
}

// subsystems are those whose devices a topology names.
var subsystems = map[string]bool{
	"pci": true, "infiniband": true, "net": true, "nvme": true, "drm": true, "accel": true, "iommu": true, "node": true,
}

// hear keeps the events that matter for the watcher.
func (w *watcher) hear(ctx context.Context, e *Uevent) bool {
	if e != nil && !subsystems[e.Subsystem] {
		return true
	}
	select {
	case w.events <- e:
	case <-ctx.Done():
		return false
	}
	return true
}

func (w *watcher) notify(e *Uevent, yield func(Record, error) bool) bool {
	r := record("netlink", Notified)
	if e == nil {
		r.Event, r.Detail = Problem, new("the kernel sent more events than could be taken; /sys is read instead")
		return yield(r, nil)
	}
	r.Detail = new(e.Action + " " + e.Subsystem + " " + e.Path)
	for part := range strings.SplitSeq(e.Path, "/") {
		if a, err := pci.ParseAddress(part); err == nil {
			r.Address = new(a.String())
		}
	}
	return yield(r, nil)
}
