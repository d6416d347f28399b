package pages

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// Options say what a node's pages go by and lie in. Zero fields take the default in
// the comment.
type Options struct {
	Rail    transfer.Opener // the NICs; default transfer.RCOptions{}, the machine's only device
	Memory  dmabuf.Exporter // what this side's pages lie in; default nil, the process's own
	Peers   int             // transfers at once; default 16
	Queues  int             // queue pairs of each NIC to each peer; default 1, the same on both sides
	Batch   int             // writes or reads of one transfer of the engine's; default 16
	Depth   int             // writes or reads on their way to a peer; default 256, at least Batch
	Workers int             // goroutines that drive the NICs; default 1
	Near    bool            // workers and the memory's NICs by this machine's topology; default: all NICs for all memory
	Timeout time.Duration   // how long nothing may happen; default 30 s
	Version string          // of the program, told to the peer

	// Credentials are what the sides prove themselves with; Control is how long a
	// listener is waited for, how long a peer may be silent, which name it must
	// have.
	Credentials control.Credentials
	Control     control.Options

	// Tell is called at the beginning of every stage of every transfer and now
	// and then while pages move, by one goroutine at a time; it must not block.
	Tell func(Progress)
}

const (
	// receives is how many notices and letters a peer may have on their way to a
	// NIC: twice what an engine keeps of its letters.
	receives = 64

	maxPeers = 1024
	maxBatch = 4096
	maxDepth = 1 << 15
	maxPairs = 16
)

func (o *Options) defaults() error {
	if o.Rail == nil {
		o.Rail = transfer.RCOptions{}
	}
	for _, v := range []struct {
		of  *int
		def int
	}{{&o.Peers, 16}, {&o.Queues, 1}, {&o.Batch, 16}, {&o.Workers, 1}} {
		if *v.of == 0 {
			*v.of = v.def
		}
	}
	if o.Depth == 0 {
		o.Depth = max(256, o.Batch)
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Control.Lease == 0 {
		o.Control.Lease = min(o.Timeout, time.Hour) // silence is silence
	}
	if o.Tell == nil {
		o.Tell = func(Progress) {}
	}
	for _, b := range []struct {
		name      string
		v, lo, hi int
	}{
		{"peers", o.Peers, 1, maxPeers},
		{"queue pairs", o.Queues, 1, maxPairs},
		{"batch", o.Batch, 1, maxBatch},
		{"depth", o.Depth, o.Batch, maxDepth},
		{"workers", o.Workers, 1, engine.MaxRails},
	} {
		if b.v < b.lo || b.v > b.hi {
			return &transfer.OptionError{Option: b.name, Err: fmt.Errorf("%d is not within %d and %d", b.v, b.lo, b.hi)}
		}
	}
	return nil
}

// Node is one side of transfers: an engine over some NICs.
type Node struct {
	o        Options
	engine   *engine.Engine
	embedded *transfer.Embedded // nil: the NICs are the machine's
	teller   teller
}

// Open opens the NICs and tries whether they take the memory, so that what is wrong
// with this side is told before any peer is troubled.
func Open(o Options) (*Node, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	// Some numbers more than peers: one that is connected anew has two for a while.
	want := transfer.Want{Peers: o.Peers + max(4, o.Peers/4), Queues: o.Queues, Depth: o.Depth, Receives: receives}
	eo := engine.Options{RailTime: o.Timeout}
	if o.Near {
		t, err := pci.Read(os.DirFS("/"))
		if err != nil {
			return nil, err
		}
		p, err := engine.Placed(t, o.Rail, want, pci.PairOptions{})
		if err != nil {
			return nil, err
		}
		eo.Rails, eo.Workers, eo.Near = p.Rails, p.Workers, p.Near
	} else {
		eo.Rails = engine.Specs(o.Rail, want, min(o.Workers, o.Rail.NICs()))
	}
	e, err := engine.New(eo)
	if err != nil {
		return nil, err
	}
	n := &Node{o: o, engine: e, embedded: transfer.EmbeddedOf(o.Rail), teller: teller{tell: o.Tell}}
	if err := tryMemory(e, o.Memory); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return n, nil
}

// Rails describes the node's NICs.
func (n *Node) Rails() []transfer.Info { return n.engine.Rails() }

// Stats are the numbers of each NIC since the node was opened. It may be called at
// any time, by any goroutine.
func (n *Node) Stats() []engine.RailStats { return n.engine.Stats() }

// Close ends whatever goes on and frees everything. It may be called again.
func (n *Node) Close() error { return n.engine.Close() }
