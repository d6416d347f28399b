package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// Options say what an engine is made of. Zero fields take the default in the
// comment.
type Options struct {
	Name  string     // told to peers; default: the host's name
	Rails []RailSpec // at least one, at most MaxRails

	// Workers has one entry for each worker that Rails name; default: workers
	// that are not pinned.
	Workers []WorkerSpec

	// Near tells which rails memory is near to, by their numbers in Rails: it is
	// registered with these, and transfers go by these as long as one of them is up.
	// None is all. Default: all rails are near to everything. [Placed] makes one of
	// a machine's topology.
	Near func(Place) []int

	// Cache keeps registrations for the next region of the same memory; its zero
	// value keeps none.
	Cache CacheOptions

	// MaxPiece is the most bytes of one work request; default 1 MiB. Longer
	// segments are cut, so that every rail gets its share.
	MaxPiece int
	// MinShard is the least that is worth a rail of its own, bytes; default
	// 16 KiB. A segment is not cut for the sake of shares into less.
	MinShard int
	// Batch is how many work requests go to a rail with one doorbell; default 16.
	Batch int
	// Queue is how many operations wait for a worker; default 1024. A full
	// queue blocks the caller until its context ends.
	Queue int
	// Depth is the most requests on their way by one rail to one peer; default
	// what the rail's queue holds.
	Depth int
	// OneLock has the workers share a lock, one step at a time. It is for
	// measuring what it is worth that they do not.
	OneLock bool
	// Eager posts before it polls, as operations come. Default: after polling
	// ("lazy"), so that a batch is as full as it can be.
	Eager bool
	// Counters is how many numbers a peer may notify; default 4096.
	Counters int
	// CoolDown is how long a rail that failed is left alone, or one that did not
	// register a region not asked again to do so; default 1 s.
	CoolDown time.Duration
	// FenceTime is how long a peer may take to confirm that a failed rail is
	// fenced before it is taken for lost; default 5 s.
	FenceTime time.Duration
	// RailTime is how long a peer whose control connection lives may be without
	// any rail, or with rails that fail again and again and carry nothing of what
	// waits, before it is taken for lost; default 30 s.
	RailTime time.Duration
	// Spin is how long a worker polls in vain before it sleeps; default 20 us.
	Spin time.Duration
	// Manual has the caller drive the engine; default: its own goroutines.
	Manual *Manual
}

// RailSpec is one NIC of the engine.
type RailSpec struct {
	// Open opens the rail, on the thread of its worker: a pinned one allocates
	// the queues on its node.
	Open func() (Rail, error)
	// Worker is the number of the worker that drives the rail.
	Worker int
}

// Place is where memory is. The zero value does not say.
type Place struct {
	Exporter string // whose memory it is, as package dmabuf names it: "cuda:0", "drm:card1"
	Device   string // the device's PCI address, "0000:3b:00.0", which goes before Exporter
	Node     Node   // memory of the host: the NUMA node that has it
}

// Node is a NUMA node, counted from 1: NUMANode(0) is 1. The zero value is none
// that is known.
type Node int

// NUMANode is the node of the kernel's number.
func NUMANode(number int) Node { return Node(number + 1) }

// WorkerSpec says where a worker runs.
type WorkerSpec struct {
	CPUs []int // the thread is bound to these; none: it is not bound
}

// MaxRails is how many NICs an engine drives at most.
const MaxRails = 256

// OptionError is an option that makes no sense.
type OptionError = transfer.OptionError

func (o *Options) defaults() error {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.MaxPiece, 1<<20)
	set(&o.MinShard, 16<<10)
	set(&o.Batch, 16)
	set(&o.Queue, 1024)
	set(&o.Counters, 4096)
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.CoolDown, time.Second}, {&o.FenceTime, 5 * time.Second}, {&o.RailTime, 30 * time.Second}, {&o.Spin, 20 * time.Microsecond}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if len(o.Rails) == 0 || len(o.Rails) > MaxRails {
		return &OptionError{Option: "rails", Err: fmt.Errorf("%d of them; there are 1 to %d", len(o.Rails), MaxRails)}
	}
	workers := 1
	for i, r := range o.Rails {
		switch {
		case r.Open == nil:
			return &OptionError{Option: "rails", Err: fmt.Errorf("rail %d cannot be opened: Open is nil", i)}
		case r.Worker < 0 || r.Worker >= MaxRails:
			return &OptionError{Option: "rails", Err: fmt.Errorf("worker %d of rail %d is not within 0 and %d", r.Worker, i, MaxRails-1)}
		}
		workers = max(workers, r.Worker+1)
	}
	switch {
	case len(o.Workers) == 0:
		o.Workers = make([]WorkerSpec, workers)
	case len(o.Workers) < workers:
		return &OptionError{Option: "workers", Err: fmt.Errorf("rails name worker %d; %d are described", workers-1, len(o.Workers))}
	}
	for _, b := range []struct {
		name      string
		v, lo, hi int
	}{
		{"largest piece", o.MaxPiece, 1, 1 << 30},
		{"least shard", o.MinShard, 1, 1 << 30},
		{"batch", o.Batch, 1, 1 << 12},
		{"queue", o.Queue, 1, 1 << 20},
		{"counters", o.Counters, 1, 1 << numberBits},
		{"depth", o.Depth, 0, 1 << 20},
	} {
		if b.v < b.lo || b.v > b.hi {
			return &OptionError{Option: b.name, Err: fmt.Errorf("%d is not within %d and %d", b.v, b.lo, b.hi)}
		}
	}
	if o.CoolDown < 0 || o.FenceTime < 0 || o.RailTime < 0 || o.Spin < 0 {
		return &OptionError{Option: "times", Err: errors.New("a time below zero")}
	}
	return nil
}
