package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"
)

// fakeRail is a rail within one process that is as unkind as a Rail may be: it
// carries operations out in a random order, and completions come in another.
// It stands in for SRD where no device is, so that whatever relies on an order
// fails on any machine.
type fakeRail struct {
	net *fakeNet
	o   fakeOptions

	rng     *rand.Rand
	regions map[uint32]*fakeRegion
	wake    chan struct{}

	// under net's lock
	peers   []*fakePeer
	flying  []Op // taken and not carried out
	ready   []Completion
	inbox   int // messages and notices that wait to be polled
	overrun int // more than there are receives
	closed  bool
}

type fakePeer struct {
	id    Peer
	rail  *fakeRail
	stage peerStage
	other *fakePeer // at the other side, once accepted
	owed  int       // operations that have not been given back
	lost  error
	told  bool
}

type fakeRegion struct {
	mem []byte
}

type fakeOptions struct{ depth, receives, peers int }

// fakeNet joins the rails of one test. One lock for all: it is a test's.
type fakeNet struct {
	mu      sync.Mutex
	offers  []*fakePeer // by the number in the offer
	lastKey uint32
	drop    func(op *Op) bool // operations that break the connection
	damage  func(op *Op, to []byte)
}

func newFakeNet() *fakeNet { return new(fakeNet) }

func (n *fakeNet) rail(seed uint64, o fakeOptions) *fakeRail {
	for _, set := range []struct {
		v   *int
		def int
	}{{&o.depth, 64}, {&o.receives, minReceives}, {&o.peers, 1}} {
		if *set.v == 0 {
			*set.v = set.def
		}
	}
	return &fakeRail{net: n, o: o, rng: rand.New(rand.NewPCG(seed, 7)), regions: make(map[uint32]*fakeRegion), wake: make(chan struct{}, 1)}
}

func (r *fakeRail) Info() Info {
	return Info{Device: "fake0", Port: 1, Transport: "unordered", LinkLayer: "memory", MTU: 4096, Queues: 1, NICs: 1, Reads: true}
}
func (r *fakeRail) Depth() int    { return r.o.depth }
func (r *fakeRail) Receives() int { return r.o.receives }

func (r *fakeRail) Register(mem []byte) (*Region, error) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	r.net.lastKey++
	key := r.net.lastKey
	r.regions[key] = &fakeRegion{mem: mem}
	return &Region{
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), length: uint64(len(mem)), lkeys: []uint32{key}, rkeys: []uint32{key},
		close: func() error {
			r.net.mu.Lock()
			defer r.net.mu.Unlock()
			delete(r.regions, key)
			return nil
		},
	}, nil
}

// RegisterExport is refused, as by most drivers.
func (r *fakeRail) RegisterExport(e *Export) (*Region, error) {
	return nil, &MemoryError{Memory: e.memory.Exporter(), Device: "fake0", Err: errors.ErrUnsupported}
}

func (r *fakeRail) Offer() (Peer, []byte, error) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	id, err := freeNumber("fake0", len(r.peers), r.o.peers, func(i int) bool {
		return r.peers[i].stage == peerGone && r.peers[i].owed == 0
	})
	if err != nil {
		return 0, nil, err
	}
	p := &fakePeer{id: id, rail: r}
	r.peers = setPeer(r.peers, id, p)
	r.net.offers = append(r.net.offers, p)
	b, err := (&offer{kind: offerOther, device: "fake0", other: binary.BigEndian.AppendUint16([]byte{fakeMark}, uint16(len(r.net.offers)-1))}).bytes()
	return id, b, err
}

// fakeMark begins what a fake's offer has of its own.
const fakeMark = 0xfa

func (r *fakeRail) Accept(id Peer, b []byte) error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if int(id) >= len(r.peers) {
		return noPeer(id)
	}
	p := r.peers[id]
	if err := p.stage.acceptable(id); err != nil {
		return err
	}
	o, err := readOffer(b, offerOther, "fake0")
	if err != nil {
		return err
	}
	if len(o.other) != 3 || o.other[0] != fakeMark || int(binary.BigEndian.Uint16(o.other[1:])) >= len(r.net.offers) {
		return nonsense("nobody made this offer")
	}
	other := r.net.offers[binary.BigEndian.Uint16(o.other[1:])]
	if other == p || slices.ContainsFunc(r.peers, func(x *fakePeer) bool { return x.stage == peerOpen && x.other == other }) {
		return nonsense("it is this side's own, or connected already")
	}
	p.other, p.stage = other, peerOpen
	return nil
}

func (r *fakeRail) Disconnect(id Peer) error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if int(id) >= len(r.peers) || r.peers[id].stage == peerGone {
		return noPeer(id)
	}
	p := r.peers[id]
	p.stage, p.lost, p.told = peerGone, errLeft, true
	r.ready = slices.DeleteFunc(r.ready, func(c Completion) bool {
		return c.Peer == id && c.Kind == Lost
	})
	return nil
}

func (r *fakeRail) Close() error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	r.closed = true
	r.flying, r.ready = nil, nil
	if r.overrun > 0 {
		n := r.overrun
		r.overrun = 0
		return fmt.Errorf("%d messages came when no receive was free", n)
	}
	for _, p := range r.peers {
		if p.other != nil {
			p.other.rail.rouse()
		}
	}
	return nil
}

// ConnectRails connects two rails, each from its own goroutine: some wait for the
// other side.
func ConnectRails(t testing.TB, a, b Rail) (peers [2]Peer) {
	t.Helper()
	rails := [2]Rail{a, b}
	var offers [2][]byte
	for i, r := range rails {
		var err error
		if peers[i], offers[i], err = r.Offer(); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- b.Accept(peers[1], offers[0]) }()
	if err := errors.Join(a.Accept(peers[0], offers[1]), <-failed); err != nil {
		t.Fatal(err)
	}
	return peers
}

func joinFakes(t testing.TB, n *fakeNet, nics int, o fakeOptions) *Joined {
	t.Helper()
	var rails []Rail
	for i := range nics {
		rails = append(rails, n.rail(uint64(i), o))
		o.depth += 3
	}
	j, err := Join(rails...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// FakeRails gives rails of so many fakes each, of different depths; of 0 they are
// fakes that nothing joins.
func FakeRails(t testing.TB, rails, peers, nics int) (list []Rail) {
	n := newFakeNet()
	for i := range rails {
		if nics == 0 {
			list = append(list, n.rail(uint64(i), fakeOptions{peers: peers}))
		} else {
			list = append(list, joinFakes(t, n, nics, fakeOptions{depth: 7, peers: peers}))
		}
	}
	return list
}
