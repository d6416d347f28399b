package transfer

import (
	"errors"
	"fmt"
	"math"

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

// Post takes operations, as many as there is room for.
func (j *Joined) Post(ops []Op) (n int, err error) {
	if j.closed {
		return 0, verbs.ErrClosed
	}
	for ; n < len(ops); n++ {
		op := &ops[n]
		if err = op.check(); err != nil {
			break
		}
		if int(op.Peer) >= len(j.peers) || j.peers[op.Peer].stage != peerOpen {
			err = noPeer(op.Peer)
			break
		}
		if op.Kind == OpRead && !j.reads {
			err = errNoReads
			break
		}
		p := j.peers[op.Peer]
		if p.err != nil {
			j.refuse(p, op.ID)
			continue
		}
		at := 0
		if op.Kind == OpWrite || op.Kind == OpRead {
			at = j.idlest(p)
		}
		m := j.members[at]
		if p.flight[at] >= m.depth {
			break
		}
		to := &m.queue[m.last%len(m.queue)]
		*to = *op
		if err = to.address(at, len(j.members)); err != nil {
			break
		}
		to.Peer = p.of[at]
		p.flight[at]++
		m.last++
	}
	j.flush()
	return n, err
}

// idlest is the member that has the fewest operations to a peer in flight, of
// those that have room; of several the next in turn, so that a batch is spread.
func (j *Joined) idlest(p *joinedPeer) int {
	n := len(j.members)
	best, least := 0, math.MaxInt
	for i := range n {
		at := p.turn + i
		if at >= n {
			at -= n
		}
		if f := p.flight[at]; f < least && f < j.members[at].depth {
			best, least = at, f
		}
	}
	if p.turn = best + 1; p.turn == n {
		p.turn = 0
	}
	return best
}

// address gives an operation the keys of one of so many NICs.
func (op *Op) address(at, nics int) error {
	if op.Local.Length > 0 || op.Kind == OpSend {
		if len(op.Local.keys) != nics {
			return errors.New("the operation's memory is not a region of this rail")
		}
		op.Local.Key = op.Local.keys[at]
	}
	if op.Kind != OpSend && len(op.Remote.keys) > 0 {
		if len(op.Remote.keys) != nics {
			return fmt.Errorf("the peer's region has keys of %d NICs, the rail has %d", len(op.Remote.keys), nics)
		}
		op.Remote.Key = op.Remote.keys[at]
	}
	return nil
}

// flush gives what stands in the queues to the rails, one Post for each that
// has something.
func (j *Joined) flush() {
	for _, m := range j.members {
		for m.first != m.last {
			start := m.first % len(m.queue)
			run := m.queue[start:min(start+m.last-m.first, len(m.queue))]
			if p := m.peers[run[0].Peer]; p.err != nil {
				j.giveBack(m, p, run[0].ID)
				continue
			}
			n, err := m.rail.Post(run)
			m.first += n
			if err != nil {
				// What the rail refuses passed every check of this one: it is
				// the rail that has failed.
				p := m.peers[run[n].Peer]
				p.lose(&LostError{Device: m.rail.Info().Device, Err: err})
				j.giveBack(m, p, run[n].ID)
				continue
			}
			if n < len(run) {
				break
			}
		}
	}
}

// giveBack takes the first operation out of a member's queue, as failed.
func (j *Joined) giveBack(m *member, p *joinedPeer, id uint64) {
	for i, other := range j.members {
		if other == m {
			p.flight[i]--
		}
	}
	m.first++
	j.refuse(p, id)
}

func (j *Joined) refuse(p *joinedPeer, id uint64) {
	p.back++
	j.back = append(j.back, joinedBack{p, id})
}

func (p *joinedPeer) lose(err error) {
	if p.err == nil {
		p.err = err
	}
}

// failure is the error of a failed operation: the cause once.
func (p *joinedPeer) failure() error {
	if p.told {
		return ErrFlushed
	}
	p.told = true
	return p.err
}

// Poll gives completions without waiting.
func (j *Joined) Poll(out []Completion) (int, error) {
	if j.closed {
		return 0, verbs.ErrClosed
	}
	if j.head == j.tail {
		if err := j.gather(); err != nil {
			return 0, err
		}
	}
	n := copy(out, j.got[j.head:j.tail])
	j.head += n
	for n < len(out) && len(j.back) > 0 {
		last := len(j.back) - 1
		b := j.back[last]
		j.back = j.back[:last]
		b.peer.back--
		out[n] = Completion{Kind: Failed, Peer: b.peer.id, ID: b.id, Err: b.peer.failure()}
		n++
	}
	return n, nil
}

// gather polls every member once. Nothing that was gathered before may be left:
// the data of messages is valid until the next poll.
func (j *Joined) gather() error {
	j.head, j.tail = 0, 0
	for i := range j.members {
		at := (j.from + i) % len(j.members)
		room := j.got[j.tail:]
		if len(room) == 0 {
			j.from = at // its turn is next
			break
		}
		n, err := j.members[at].rail.Poll(room)
		for k := range room[:n] {
			if j.translate(at, &room[k]) {
				j.got[j.tail] = room[k]
				j.tail++
			}
		}
		if err != nil {
			return err
		}
	}
	j.flush()
	return nil
}

// translate makes a completion of a member one of the whole; false if there is
// nothing in it for the caller.
func (j *Joined) translate(at int, c *Completion) bool {
	p := j.members[at].peers[c.Peer]
	c.Peer = p.id
	switch c.Kind {
	case Done:
		p.flight[at]--
	case Failed:
		p.flight[at]--
		if !errors.Is(c.Err, ErrFlushed) {
			p.lose(c.Err)
			c.Err = p.failure()
		}
	case Lost:
		p.lose(c.Err)
		if c.Err = p.failure(); errors.Is(c.Err, ErrFlushed) {
			return false
		}
	}
	return true
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
