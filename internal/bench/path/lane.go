package path

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// end is a GPU with its memory.
type end struct {
	gpu  gpu
	name string // "cuda:0"
	out  uint64 // what is copied from: a pattern
	in   uint64 // what is copied to, and a guard behind it
}

// lane is one direction with all that its ways need.
type lane struct {
	from, to *end
	down, up stream // of the source's GPU, and of the destination's
	piped    *pipe
	plain    *pipe
	nodes    []*pipe // piped, of the NUMA nodes in their order
	pageable []byte
}

func (l *lane) String() string { return l.from.name + " to " + l.to.name }

// pipe is pinned memory that bytes go through in chunks, one after the other into
// each of its buffers. A buffer is written once what was in it is up, and read once
// it is full: two events for each, which streams wait for, and no thread.
type pipe struct {
	buffers       [][]byte // of one size, the chunk
	full, emptied []event
	next          int
}

// copy puts a copy of size bytes into the lane's streams.
func (p *pipe) copy(l *lane, to, from, size uint64) error {
	for size > 0 {
		b := p.buffers[p.next]
		full, emptied := p.full[p.next], p.emptied[p.next]
		p.next = (p.next + 1) % len(p.buffers)
		n := min(size, uint64(len(b)))
		if err := l.down.wait(emptied); err != nil {
			return err
		}
		if err := l.down.toHost(b[:n], from); err != nil {
			return err
		}
		if err := full.record(l.down); err != nil {
			return err
		}
		if err := l.up.wait(full); err != nil {
			return err
		}
		if err := l.up.toDevice(to, b[:n]); err != nil {
			return err
		}
		if err := emptied.record(l.up); err != nil {
			return err
		}
		to, from, size = to+n, from+n, size-n
	}
	return nil
}

// route is a way, by the memory of a NUMA node where node is not -1.
type route struct {
	way  Way
	node int // an index into lane.nodes
}

// submit begins the copy of size bytes from one offset to the same. That through
// pageable memory is made of calls that wait, as the driver has no other.
func (l *lane) submit(r route, off, size uint64) error {
	to, from := l.to.in+off, l.from.out+off
	switch {
	case r.node >= 0:
		return l.nodes[r.node].copy(l, to, from, size)
	case r.way == PeerWrite, r.way == NoAccess:
		return l.down.toPeer(to, l.to.gpu, from, l.from.gpu, size)
	case r.way == PeerRead:
		return l.up.toPeer(to, l.to.gpu, from, l.from.gpu, size)
	case r.way == Piped:
		return l.piped.copy(l, to, from, size)
	case r.way == Plain:
		return l.plain.copy(l, to, from, size)
	}
	if err := l.from.gpu.toHost(l.pageable[:size], from); err != nil {
		return err
	}
	return l.to.gpu.toDevice(to, l.pageable[:size])
}

// late is how long work may take that is in the streams: no more than Depth copies.
const late = 30 * time.Second

// finish waits until all is done. It asks, over and over, since a call that waits
// could not be interrupted, and since a wake-up would be in every figure; that
// takes a CPU for each lane.
func (l *lane) finish(ctx context.Context) error {
	end := time.Now().Add(late)
	for _, s := range []stream{l.down, l.up} {
		for n := 0; ; n++ {
			done, err := s.done()
			if err != nil {
				return fmt.Errorf("%v: %w", l, err)
			}
			if done {
				break
			}
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("interrupted: %w", err)
			}
			if n%256 == 0 && time.Now().After(end) {
				return fmt.Errorf("%v: %w", l, errLate)
			}
		}
	}
	return nil
}

var errLate = errors.New("the GPU has not finished its copies within " + late.String() + "; look for Xid in the kernel log")
