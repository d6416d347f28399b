package transfer

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/verbs"
)

// MaxNICs is how many NICs a transfer uses at most. The largest machine known has
// 32 (an AWS p5, EFA).
const MaxNICs = 64

// Joined is a Rail over the rails of several NICs, which at both ends are
// connected one by one in their order. Every region is registered with each.
//
// A write goes by the NIC that has the least in flight to its peer, so that a
// slow one gets less; messages and notices go by the first. That is right because
// nothing is inferred from order: a notice is posted when the writes it counts
// have completed, on whichever NIC. A rail whose completions do not mean as much
// without the order of its queue (iWARP) cannot be joined.
//
// A peer that is lost on one NIC is lost.
type Joined struct {
	members []*member
	peers   []*joinedPeer
	regions regions

	got        []Completion // polled, and translated
	head, tail int          // of those that Poll has not given yet
	back       []joinedBack // operations of lost peers that no NIC was given
	from       int          // the member that is polled first
	reads      bool         // every NIC has them
	closed     bool
}

// member is one NIC's rail. What a Post takes stands in its queue until the
// rail takes it: a rail may have less room than Depth says, as when messages
// share it.
type member struct {
	rail        Rail
	depth       int
	queue       []Op // a ring
	first, last int  // running counts
	peers       []*joinedPeer
}

type joinedPeer struct {
	id     Peer
	stage  peerStage
	of     []Peer // its name on each member
	left   []bool // of those, which have disconnected it
	flight []int  // operations on each member that have not completed
	turn   int    // the member that is preferred when several have as little in flight
	err    error  // why it is lost
	told   bool   // and whether that was given to the caller
	back   int    // operations of it in back of the rail
}

type joinedBack struct {
	peer *joinedPeer
	id   uint64
}

// Join makes one rail of several, which belong to it from then on. None may
// have a peer or a region.
func Join(rails ...Rail) (*Joined, error) {
	if len(rails) == 0 || len(rails) > MaxNICs {
		return nil, fmt.Errorf("%d rails to join: 1 to %d can be", len(rails), MaxNICs)
	}
	j := &Joined{got: make([]Completion, 64)}
	for _, r := range rails {
		i := r.Info()
		if i.Transport == "iWARP" && len(rails) > 1 {
			return nil, &OptionError{Option: "device", Err: fmt.Errorf("%s is iWARP, where only the order of one queue pair tells when bytes are in place: use one device: %w",
				i.Device, errors.ErrUnsupported)}
		}
		j.members = append(j.members, &member{rail: r, depth: r.Depth()})
	}
	j.reads = j.Info().Reads
	return j, nil
}

// Info describes the first NIC, and how many there are.
func (j *Joined) Info() Info {
	i := j.members[0].rail.Info()
	i.NICs = len(j.members)
	for _, m := range j.members {
		i.Reads = i.Reads && m.rail.Info().Reads
		if most := m.rail.Info().MaxRegion; most > 0 && (i.MaxRegion == 0 || most < i.MaxRegion) {
			i.MaxRegion = most
		}
	}
	if n := len(j.members); n > 1 {
		i.Device += ".." + j.members[n-1].rail.Info().Device
	}
	return i
}

// Depth is how many writes to a peer the NICs hold at once.
func (j *Joined) Depth() (n int) {
	for _, m := range j.members {
		n += m.depth
	}
	return n
}

// Receives is how many messages and notices a peer may send ahead.
func (j *Joined) Receives() int { return j.members[0].rail.Receives() }

// Register makes memory reachable for every NIC.
func (j *Joined) Register(mem []byte) (*Region, error) {
	return j.register(func(r Rail) (*Region, error) { return r.Register(mem) })
}

// RegisterExport does it by dma-buf.
func (j *Joined) RegisterExport(e *Export) (*Region, error) {
	return j.register(func(r Rail) (*Region, error) { return r.RegisterExport(e) })
}

func (j *Joined) register(with func(Rail) (*Region, error)) (*Region, error) {
	if j.closed {
		return nil, verbs.ErrClosed
	}
	var parts []*Region
	region := &Region{close: func() error {
		var errs []error
		for _, p := range parts {
			errs = append(errs, p.Close())
		}
		return errors.Join(errs...)
	}}
	for i, m := range j.members {
		p, err := with(m.rail)
		if err != nil {
			return nil, errors.Join(err, region.Close())
		}
		parts = append(parts, p)
		if i > 0 && (p.addr != region.addr || p.length != region.length) {
			return nil, errors.Join(fmt.Errorf("%s has the region at %#x and %s at %#x: their peers could not be given one address",
				j.members[0].rail.Info().Device, region.addr, m.rail.Info().Device, p.addr), region.Close())
		}
		region.addr, region.length = p.addr, p.length
		region.lkeys, region.rkeys = append(region.lkeys, p.lkeys[0]), append(region.rkeys, p.rkeys[0])
	}
	return j.regions.add(region), nil
}

// Close ends the connections of every NIC and frees everything.
func (j *Joined) Close() error {
	j.closed = true
	var errs []error
	for _, m := range j.members {
		errs = append(errs, m.rail.Close())
	}
	// The regions are the members', which have closed them; they only learn it.
	errs = append(errs, j.regions.close())
	return errors.Join(errs...)
}
