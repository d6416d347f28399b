package transfer

import (
	"fmt"
	"time"
)

// RCOptions describe a rail over reliable connections. Zero fields take the
// default in the comment.
type RCOptions struct {
	Device   string // default: the machine's only one
	Port     int    // default 1
	GIDIndex *int   // default: the entry that a routable connection wants

	Queues    int           // queue pairs to each peer, which share the writes; default 1
	SendDepth int           // operations in flight on each; default 128
	RecvDepth int           // messages and notices a peer may send ahead; default 128
	Peers     int           // how many can connect, with 4096 queue pairs in all at most; default 1
	Spin      time.Duration // how long Wait polls before it sleeps; default 20 us
}

// Kind is KindRC.
func (o RCOptions) Kind() Kind { return KindRC }

// DeviceName is the device's.
func (o RCOptions) DeviceName() string { return o.Device }

// NICs is 1.
func (o RCOptions) NICs() int { return 1 }

// Open opens a rail for a transfer.
func (o RCOptions) Open(w Want) (Rail, error) {
	if w.Queues > 0 {
		o.Queues = w.Queues
	}
	per := (w.Depth + max(o.Queues, 1) - 1) / max(o.Queues, 1)
	if w.Depth > 0 && o.SendDepth < per+spare {
		o.SendDepth = per + spare
	}
	if w.Peers > 0 {
		o.Peers = w.Peers
	}
	if w.Receives > 0 {
		o.RecvDepth = w.Receives
	}
	if w.NoSpin {
		o.Spin = time.Nanosecond
	}
	r, err := OpenRC(o)
	if err != nil {
		return nil, err // and no *RC that is nil
	}
	return r, nil
}

func (o *RCOptions) defaults() error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.Port, 1)
	set(&o.Queues, 1)
	set(&o.SendDepth, 128)
	set(&o.RecvDepth, 128)
	set(&o.Peers, 1)
	if o.Spin == 0 {
		o.Spin = 20 * time.Microsecond
	}
	for _, bound := range []struct {
		name      string
		v, lo, hi int
	}{
		{"queue pairs", o.Queues, 1, 64},
		{"send depth", o.SendDepth, 2, 1 << 15},
		{"receive depth", o.RecvDepth, minReceives, 1 << 15},
		{"peers", o.Peers, 1, maxQueues / o.Queues},
	} {
		if bound.v < bound.lo || bound.v > bound.hi {
			return &OptionError{Option: bound.name, Err: fmt.Errorf("%d is not within %d and %d", bound.v, bound.lo, bound.hi)}
		}
	}
	return nil
}
