package inventory

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

// Events of a Record.
const (
	EventPresent  = "present"  // at the start: a device's port and its state
	EventAdded    = "added"    // a device has come
	EventRemoved  = "removed"  // a device has gone
	EventChanged  = "changed"  // a field of a device or port went From one value To another
	EventNotified = "notified" // the kernel or the device said so, in Detail
)

// Watch gives changes until the context ends, which ends it without an error:
// what the kernel notifies of (7.3 and 6.12 do, 6.1 does not), what opened
// devices report, and at each of these and every interval what differs from
// before. It goes on while there is no device, as long as the kernel has RDMA.
func Watch(ctx context.Context, o Options, interval time.Duration) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w := &watcher{
			options: o, interval: interval, cancel: cancel,
			notes: make(chan Record, 64), open: map[string]*opened{},
		}
		defer w.close()
		if err := w.run(ctx, yield); err != nil && ctx.Err() == nil {
			yield(Record{}, err)
		}
	}
}

type watcher struct {
	options  Options
	interval time.Duration
	cancel   context.CancelFunc
	client   *nldev.Client
	notes    chan Record // from the goroutines
	running  sync.WaitGroup
	open     map[string]*opened
	before   map[string]Device
	heard    map[string]bool // devices that a notification named; "" is any
}

// opened is a device held open for its events.
type opened struct {
	index  uint32
	dev    *verbs.Device // nil if it could not be opened
	cancel context.CancelFunc
	done   chan struct{}
}

// hears tells whether the device's events still come.
func (o *opened) hears() bool {
	select {
	case <-o.done:
		return false
	default:
		return true
	}
}

func (w *watcher) close() {
	w.cancel()
	for name := range w.open {
		w.release(name)
	}
	w.running.Wait()
	if w.client != nil {
		w.client.Close()
	}
}

func (w *watcher) run(ctx context.Context, yield func(Record, error) bool) error {
	client, err := nldev.Open()
	if err != nil {
		return (&collector{live: true, noRDMA: err}).nothing()
	}
	w.client = client
	// The monitor first, then the listing: no change falls in between.
	if err := w.monitor(ctx); err != nil {
		return err
	}
	now, err := w.snapshot(ctx)
	if err != nil {
		return err
	}
	if err := w.check(now); err != nil {
		return err
	}
	w.before = now
	for _, name := range sorted(now) {
		for _, p := range now[name].Ports {
			r := w.record("compare", EventPresent, name, p.Number)
			r.Field, r.To = new("state"), p.State
			if !yield(r, nil) {
				return nil
			}
		}
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		w.heard = map[string]bool{}
		select {
		case <-ctx.Done():
			return nil
		case r := <-w.notes:
			if !w.hear(r, yield) {
				return nil
			}
		case <-tick.C:
		}
		// A burst of notifications is one comparison, and what comes while it
		// is made is told before its result and is another one.
		for again := true; again; {
			if !w.drain(yield) {
				return nil
			}
			now, err := w.snapshot(ctx)
			if err != nil {
				return err
			}
			w.heard = map[string]bool{}
			if !w.drain(yield) {
				return nil
			}
			again = len(w.heard) > 0
			for _, r := range w.compare(w.before, now) {
				if !yield(r, nil) {
					return nil
				}
			}
			w.before = now
		}
	}
}

// hear passes a notification on and remembers whose it was.
func (w *watcher) hear(r Record, yield func(Record, error) bool) bool {
	w.heard[or(r.Device, "")] = true
	return !w.wanted(r) || yield(r, nil)
}

func (w *watcher) drain(yield func(Record, error) bool) bool {
	for len(w.notes) > 0 {
		if !w.hear(<-w.notes, yield) {
			return false
		}
	}
	return true
}

// check finds out at the start that what was asked for is not there.
func (w *watcher) check(now map[string]Device) error {
	d, ok := now[w.options.Device]
	switch {
	case w.options.Device == "":
		return nil
	case !ok && len(now) == 0:
		return (&collector{live: true}).nothing()
	case !ok:
		return &missing{name: w.options.Device, there: sorted(now)}
	}
	inv := Inventory{Devices: []Device{d}}
	return inv.keepPort(w.options.Port)
}

func sorted(devices map[string]Device) []string {
	var names []string
	for name := range devices {
		names = append(names, name)
	}
	slices.SortFunc(names, natural)
	return names
}

func (w *watcher) wanted(r Record) bool {
	o := w.options
	return (o.Device == "" || r.Device == nil || *r.Device == o.Device) && (o.Port == 0 || r.Port == nil || *r.Port == o.Port)
}

func (w *watcher) record(source, event, device string, port int) Record {
	r := Record{Schema: WatchSchema, Time: time.Now(), Source: source, Event: event}
	if device != "" {
		r.Device = &device
	}
	if port != 0 {
		r.Port = &port
	}
	return r
}

// monitor follows the kernel's notifications, where it sends any.
func (w *watcher) monitor(ctx context.Context) error {
	m, err := w.client.Monitor(ctx)
	if errors.Is(err, nldev.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	w.running.Go(func() {
		defer m.Close()
		for e, err := range m.Events(ctx) {
			r := w.record("netlink", EventNotified, e.Device, int(e.Port))
			r.Detail = new(e.Type.String())
			switch {
			case err != nil:
				r.Device, r.Port, r.Detail = nil, nil, new(err.Error())
			case e.Netdev != "":
				r.Detail = new(e.Type.String() + " " + e.Netdev)
			}
			w.note(ctx, r)
		}
	})
	return nil
}

func (w *watcher) note(ctx context.Context, r Record) {
	select {
	case w.notes <- r:
	case <-ctx.Done():
	}
}

// snapshot reads what Watch compares, and opens the devices that are new.
// Reading a GID table takes a file an entry, so it is only read when something
// was heard, or of devices that could not be opened to be heard of.
func (w *watcher) snapshot(ctx context.Context) (map[string]Device, error) {
	devices, err := w.client.Devices(ctx)
	if err != nil {
		return nil, err
	}
	w.hold(ctx, devices)
	now := map[string]Device{}
	root := os.DirFS("/")
	for _, n := range devices {
		if w.options.Device != "" && n.Name != w.options.Device && w.before != nil {
			continue
		}
		d := Device{Name: n.Name, Index: &n.Index, Ports: []Port{}}
		if n.Firmware != "" {
			d.Firmware = &n.Firmware
		}
		links, err := w.client.Links(ctx, n.Name)
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, l := range links {
			p := d.portOf(int(l.Port))
			p.netlink(l)
			w.port(p, d.Name, dir{root, classDir + "/" + n.Name + "/ports/" + strconv.Itoa(p.Number), new(error)}, n.NodeType == nldev.NodeRNIC)
		}
		now[n.Name] = d
	}
	return now, nil
}

func (w *watcher) port(p *Port, name string, s dir, iw bool) {
	p.LinkLayer = s.text("link_layer")
	p.rate(s.text("rate"))
	p.SMLID = s.hex("sm_lid", 4)
	held := w.open[name]
	deaf := held == nil || !held.hears()
	if !deaf {
		if a, err := held.dev.Port(p.Number); err == nil {
			p.mtu(a)
		}
	}
	old, known := w.before[name]
	if w.heard[""] || w.heard[name] || deaf || !known {
		p.gids(s, iw)
		return
	}
	for _, q := range old.Ports {
		if q.Number == p.Number {
			p.GIDs = q.GIDs
		}
	}
}

// hold opens what has come and closes what has gone. Some drivers (rxe in
// Linux 6.12, not in 7.3) let go of a device only when its last user has, and
// until then the one who removes it waits: such a device is gone from the list
// at once, and closed here within an interval.
func (w *watcher) hold(ctx context.Context, devices []nldev.Device) {
	for name, held := range w.open {
		if !slices.ContainsFunc(devices, func(d nldev.Device) bool { return d.Name == name && d.Index == held.index }) {
			w.release(name)
		}
	}
	for _, d := range devices {
		if _, ok := w.open[d.Name]; ok || w.options.Device != "" && w.options.Device != d.Name {
			continue
		}
		held := &opened{index: d.Index, done: make(chan struct{})}
		w.open[d.Name] = held
		dev, err := verbs.Open(d.Name)
		if err != nil {
			close(held.done)
			held.cancel = func() {}
			continue
		}
		held.dev = dev
		ctx, cancel := context.WithCancel(ctx)
		held.cancel = cancel
		go func() {
			defer close(held.done)
			for {
				e, err := dev.NextEvent(ctx)
				if err != nil {
					return
				}
				r := w.record("async", EventNotified, d.Name, e.Port)
				r.Detail = new(e.Type.String())
				w.note(ctx, r)
			}
		}()
	}
}

func (w *watcher) release(name string) {
	held := w.open[name]
	delete(w.open, name)
	held.cancel()
	<-held.done
	if held.dev != nil {
		held.dev.Close()
	}
}
