// Package collective measures all-reduce and all-gather over a ring of nodes by
// several paths, and says where the efficiency falls and what it falls by.
//
// The nodes are processes on several machines, or all inside one process on software
// EFA devices: what runs is the same. Node 0 leads. It meets the others, tells all
// what to do next, gathers what they measured, and makes the report.
package collective

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// Operations.
const (
	AllReduce = "all-reduce"
	AllGather = "all-gather"
)

// Paths.
const (
	// Direct writes from registered memory into registered memory.
	Direct = "direct"
	// Registered is Direct with the memory registered for each operation.
	Registered = "registered"
	// Staged copies every byte into registered host memory before it is written, and
	// out of it after it came.
	Staged = "through-host"
	// TCP goes by plain sockets.
	TCP = "tcp"
)

var (
	operations = []string{AllReduce, AllGather}
	paths      = []string{Direct, Registered, Staged, TCP}
)

// Options say what to measure. Zero fields take the default in the comment. Those of
// node 0 count.
type Options struct {
	Nodes      []int         // how many take part, the first ones; default 2, 4, … and all
	Sizes      []uint64      // of the whole vector at each node, bytes; default from Min to Max by powers of 4
	Min, Max   uint64        // default 1 KiB and 256 MiB
	Operations []string      // default both
	Rounds     int           // of all paths; medians count; default 3
	Duration   time.Duration // of a path in a round; default 100 ms
	Unverified bool          // do not compare results
	// Timeout is how long a node may be silent; default 30 s.
	Timeout time.Duration

	// Tell is told of each measurement that begins.
	Tell func(Progress)

	damage func(rank int, x []float32) // of tests: a result before it is compared
}

// Progress is how far it is.
type Progress struct {
	Done, Total int
	What        string
}

// Place is a node's own.
type Place struct {
	Rank int
	// Peers has HOST:PORT of all nodes. Node 0 listens on its own for the others; of
	// theirs the host counts, on which they listen at ports of the system's choice.
	Peers       []string
	Credentials control.Credentials
	Rails       transfer.Opener
	Memory      dmabuf.Exporter // nil: the process's own
	// Wait is how long nodes are waited for at the beginning; default 1 minute.
	Wait time.Duration

	damage func(rank int, x []float32)
}

const (
	maxNodes   = 64
	maxSize    = 1 << 34
	minSize    = 4
	minTimeout = 100 * time.Millisecond
)

// check completes the options for so many nodes.
func (o *Options) check(nodes int) error {
	if nodes < 2 || nodes > maxNodes {
		return fmt.Errorf("%d nodes: a collective is of 2 to %d", nodes, maxNodes)
	}
	if len(o.Nodes) == 0 {
		for n := 2; n < nodes; n *= 2 {
			o.Nodes = append(o.Nodes, n)
		}
		o.Nodes = append(o.Nodes, nodes)
	}
	for _, n := range o.Nodes {
		if n < 2 || n > nodes {
			return fmt.Errorf("--nodes %d: it is 2 to %d", n, nodes)
		}
	}
	o.Nodes = slices.Compact(slices.Sorted(slices.Values(o.Nodes)))
	if o.Min == 0 {
		o.Min = 1 << 10
	}
	if o.Max == 0 {
		o.Max = max(256<<20, o.Min)
	}
	switch {
	case o.Min > o.Max:
		return fmt.Errorf("--min %d is above --max %d", o.Min, o.Max)
	case o.Max > maxSize:
		return fmt.Errorf("--max %d: it is up to %d", o.Max, uint64(maxSize))
	}
	if len(o.Sizes) == 0 {
		for s := o.Min; s <= o.Max; s *= 4 {
			o.Sizes = append(o.Sizes, s)
		}
	}
	o.Sizes = slices.Compact(slices.Sorted(slices.Values(o.Sizes)))
	for _, s := range o.Sizes {
		if s < minSize || s > maxSize || s%4 != 0 {
			return fmt.Errorf("a size of %d bytes: it is a multiple of 4, to %d", s, uint64(maxSize))
		}
	}
	if len(o.Operations) == 0 {
		o.Operations = operations
	}
	for _, op := range o.Operations {
		if !slices.Contains(operations, op) {
			return fmt.Errorf("--operation %s: there are %s", op, strings.Join(operations, " and "))
		}
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Duration == 0 {
		o.Duration = 100 * time.Millisecond
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 1000:
		return fmt.Errorf("--rounds %d: it is 1 to 1000", o.Rounds)
	case o.Duration < time.Millisecond || o.Duration > time.Minute:
		return fmt.Errorf("--duration %v: it is 1ms to 1m", o.Duration)
	case o.Timeout < minTimeout || o.Timeout > time.Hour:
		return fmt.Errorf("--timeout %v: it is %v to 1h", o.Timeout, minTimeout)
	}
	return nil
}

// Check finds what makes no sense among so many nodes.
func (o Options) Check(nodes int) error { return o.check(nodes) }

// Check finds what makes no sense.
func (p Place) Check() error { return p.check() }

func (p *Place) check() error {
	if p.Rank < 0 || p.Rank >= len(p.Peers) {
		return fmt.Errorf("--rank %d: with %d --peers it is 0 to %d", p.Rank, len(p.Peers), len(p.Peers)-1)
	}
	for i, addr := range p.Peers {
		host, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil || host == "" { // which would be every node itself
			return fmt.Errorf("--peers: node %d: %q is no address: give HOST:PORT, with a port up to 65535", i, addr)
		}
	}
	if p.Wait == 0 {
		p.Wait = time.Minute
	}
	if p.Wait < 0 {
		return fmt.Errorf("--wait %v: it is above 0", p.Wait)
	}
	return nil
}

// host is where this node listens.
func (p *Place) host() string {
	h, _, _ := net.SplitHostPort(p.Peers[p.Rank])
	return h
}
