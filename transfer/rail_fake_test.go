package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// fakeRail is a rail within one process that is as unkind as a Rail may be: it
// carries operations out in a random order, and completions come in another.
// It stands in for SRD where no device is, so that whatever relies on an order
// fails on any machine.
type fakeRail struct {
	net *fakeNet
	o   fakeOptions

	other   *fakeRail
	rng     *rand.Rand
	regions map[uint32]*fakeRegion
	wake    chan struct{}

	// under net's lock
	flying  []Op // taken and not carried out
	ready   []Completion
	inbox   int // messages and notices that wait to be polled
	overrun int // more than there are receives
	lost    error
	told    bool
	closed  bool
}

type fakeRegion struct {
	mem []byte
}

type fakeOptions struct{ depth, receives int }

// fakeNet joins the rails of one test. One lock for all: it is a test's.
type fakeNet struct {
	mu      sync.Mutex
	waiting map[string]*fakeRail
	lastKey uint32
	drop    func(op *Op) bool // operations that break the connection
	damage  func(op *Op, to []byte)
}

func newFakeNet() *fakeNet { return &fakeNet{waiting: make(map[string]*fakeRail)} }

func (n *fakeNet) rail(seed uint64, o fakeOptions) *fakeRail {
	if o.depth == 0 {
		o.depth = 64
	}
	if o.receives == 0 {
		o.receives = minReceives
	}
	return &fakeRail{net: n, o: o, rng: rand.New(rand.NewPCG(seed, 7)), regions: make(map[uint32]*fakeRegion), wake: make(chan struct{}, 1)}
}

func (r *fakeRail) Info() Info {
	return Info{Device: "fake0", Port: 1, Transport: "unordered", LinkLayer: "memory", MTU: 4096, Queues: 1, NICs: 1}
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

func (r *fakeRail) Connect(ctx context.Context, via *exchange.Conn) (Peer, error) {
	local, remote := via.LocalAddr().String(), via.RemoteAddr().String()
	r.net.mu.Lock()
	if other := r.net.waiting[remote+local]; other != nil {
		r.other, other.other = other, r
		delete(r.net.waiting, remote+local) // the next rails by this connection are others
	} else {
		r.net.waiting[local+remote] = r
	}
	r.net.mu.Unlock()
	return 0, via.Barrier(ctx)
}

func (r *fakeRail) Post(ops []Op) (int, error) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if r.closed {
		return 0, verbs.ErrClosed
	}
	for n := range ops {
		switch err := ops[n].check(); {
		case err != nil:
			return n, err
		case ops[n].Peer != 0:
			return n, errors.New("no such peer")
		case r.lost == nil && len(r.flying) == r.o.depth:
			return n, nil
		}
		r.flying = append(r.flying, ops[n])
	}
	time.AfterFunc(time.Millisecond, func() { // nobody may poll this side
		r.net.mu.Lock()
		defer r.net.mu.Unlock()
		r.work(true)
		r.rouse()
	})
	return len(ops), nil
}

// rouse wakes who sleeps in Wait.
func (r *fakeRail) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// work carries some of the posted operations out, in any order.
func (r *fakeRail) work(all bool) {
	for len(r.flying) > 0 && (all || r.rng.IntN(4) > 0) {
		i := r.rng.IntN(len(r.flying))
		op := r.flying[i]
		r.flying = slices.Delete(r.flying, i, i+1)
		if r.lost == nil && (r.other == nil || r.other.closed) {
			r.lost = &LostError{Device: "fake0", Err: errors.New("nobody answers")}
		}
		if r.lost == nil && r.net.drop != nil && r.net.drop(&op) {
			r.lost = &LostError{Device: "fake0", Err: errors.New("the cable is cut")}
		}
		if r.lost == nil {
			r.lost = r.carry(&op)
		}
		c := Completion{Kind: Done, ID: op.ID}
		if r.lost != nil {
			c = Completion{Kind: Failed, ID: op.ID, Err: ErrFlushed}
			if !r.told {
				c.Err, r.told = r.lost, true
			}
		}
		r.ready = append(r.ready, c)
	}
	r.rng.Shuffle(len(r.ready), func(i, j int) { r.ready[i], r.ready[j] = r.ready[j], r.ready[i] })
}

func (r *fakeRail) carry(op *Op) error {
	data := r.bytes(op.Local)
	switch op.Kind {
	case OpWrite, OpNotify:
		if len(data) > 0 {
			region := r.other.regions[op.Remote.Key]
			if region == nil {
				return &LostError{Device: "fake0", Err: errors.New("a key that is nobody's")}
			}
			to := region.mem[op.Remote.Addr-uint64(uintptr(unsafe.Pointer(unsafe.SliceData(region.mem)))):][:len(data)]
			copy(to, data)
			if r.net.damage != nil {
				r.net.damage(op, to)
			}
		}
		if op.Kind == OpNotify {
			r.other.deliver(Completion{Kind: Notice, Imm: op.Imm})
		}
	case OpSend:
		r.other.deliver(Completion{Kind: Message, Data: slices.Clone(data)})
	}
	return nil
}

func (r *fakeRail) bytes(l Local) []byte {
	if l.Length == 0 {
		return nil
	}
	mem := r.regions[l.Key].mem
	return mem[l.Addr-uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))):][:l.Length]
}

// deliver leaves something for the peer to poll.
func (r *fakeRail) deliver(c Completion) {
	if r.inbox++; r.inbox > r.o.receives {
		r.overrun++
	}
	i := r.rng.IntN(len(r.ready) + 1)
	r.ready = slices.Insert(r.ready, i, c)
	r.rouse()
}

func (r *fakeRail) Poll(out []Completion) (int, error) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if r.closed {
		return 0, verbs.ErrClosed
	}
	r.work(false)
	n := copy(out, r.ready)
	r.ready = slices.Delete(r.ready, 0, n)
	for _, c := range out[:n] {
		if c.Kind == Message || c.Kind == Notice {
			r.inbox--
		}
	}
	return n, nil
}

func (r *fakeRail) Wait(ctx context.Context) error {
	for {
		r.net.mu.Lock()
		r.work(true)
		if r.lost == nil && r.other != nil && r.other.closed {
			r.lost, r.told = &LostError{Device: "fake0", Err: errors.New("the peer closed")}, true
			r.ready = append(r.ready, Completion{Kind: Lost, Err: r.lost})
		}
		ready := len(r.ready) > 0
		r.net.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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
	if r.other != nil {
		r.other.rouse()
	}
	return nil
}

// conversation gives both ends of a control connection.
func conversation(t testing.TB) (dialer, acceptor *exchange.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	dialer, acceptor = exchange.New(a, exchange.Dialer), exchange.New(b, exchange.Acceptor)
	t.Cleanup(func() { dialer.Close(); acceptor.Close() })
	return dialer, acceptor
}

// ConnectRails connects two rails, each from its own goroutine.
func ConnectRails(t testing.TB, a, b Rail) (peers [2]Peer) {
	t.Helper()
	dialer, acceptor := conversation(t)
	failed := make(chan error, 1)
	go func() {
		var err error
		peers[1], err = b.Connect(context.Background(), acceptor)
		failed <- err
	}()
	p, err := a.Connect(context.Background(), dialer)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	peers[0] = p
	return peers
}

// JoinedFakeRails gives two rails of so many fakes each, of different depths.
func JoinedFakeRails(t testing.TB, nics int) (a, b Rail) {
	n := newFakeNet()
	for _, to := range []*Rail{&a, &b} {
		*to = joinFakes(t, n, nics, fakeOptions{depth: 7})
	}
	return a, b
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

// FakeRails gives two fake rails that can be connected.
func FakeRails() (a, b Rail) {
	n := newFakeNet()
	return n.rail(1, fakeOptions{}), n.rail(2, fakeOptions{})
}
