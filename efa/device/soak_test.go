package device

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

const (
	soakNodes  = 4
	soakSlots  = 16
	soakMax    = 3*DefaultMTU + 100 // bytes of a write or read
	soakSlot   = 32 << 10
	soakFaults = 10_000
	soakRecvs  = 64
	soakRecv   = 9000
	untouched  = 0xee
)

// blank is what a slot holds before a request.
var blank = [soakSlot]byte(bytes.Repeat([]byte{untouched}, soakSlot))

// soakOp is one request and what became of it.
type soakOp struct {
	op       wire.IOOp
	notice   bool // has an immediate
	from, to int
	slot     int
	n        int
	done     int // completions
	status   wire.CompStatus
	received int // at the target
}

// soakNode is an endpoint with the memory of its slots.
type soakNode struct {
	*endpoint
	peers  [soakNodes]peer
	local  region // soakSlots of soakSlot
	remote region // the same for each peer
	rx     region // soakRecvs of soakRecv
	inSlot [soakSlots]uint64
	free   []int
	// Receives by slot: whether posted.
	posted [soakRecvs]bool
	nrecv  int
}

// soak is the whole run.
type soak struct {
	t     *testing.T
	f     *Fabric
	g     *Fabric // of the second half of the nodes; f unless acrossLink
	most  uint64  // faults to meet
	rng   *rand.Rand
	nodes [soakNodes]*soakNode
	ops   []*soakOp
	open  int

	scratch [soakSlot]byte
}

// pattern writes a request's data.
func pattern(b []byte, op uint64) {
	var word [8]byte
	for i := uint64(0); len(b) > 0; i++ {
		binary.LittleEndian.PutUint64(word[:], mix(op, i))
		b = b[copy(b, word[:]):]
	}
}

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{t: t, f: NewFabric(FabricOptions{Seed: seed}), rng: rand.New(rand.NewPCG(seed, 2))}
	t.Cleanup(s.f.Close)
	s.g, s.most = s.f, soakFaults
	o := Options{RetransmitTimeout: 200 * time.Microsecond, RNRDelay: 100 * time.Microsecond, PeerTimeout: 60 * time.Millisecond}
	if acrossLink {
		s.g, s.most = NewFabric(FabricOptions{Seed: seed + 1}), soakFaults/10
		t.Cleanup(s.g.Close)
		o.PeerTimeout = 10 * time.Second // what was given up could still arrive
	}
	for i := range s.nodes {
		o.SubCQs = 1 + i%2
		f := s.f
		if i >= soakNodes/2 {
			f = s.g
		}
		e := newHost(t, f, o).endpoint(epOptions{})
		n := &soakNode{endpoint: e}
		n.local = e.region(soakSlots*soakSlot, allAccess)
		n.remote = e.region(soakNodes*soakSlots*soakSlot, allAccess)
		n.rx = e.region(soakRecvs*soakRecv, allAccess)
		for j := range soakSlots {
			n.free = append(n.free, j)
		}
		s.nodes[i] = n
	}
	if acrossLink {
		x, y := streams(t)
		linkFabrics(t, s.f, s.g, x, y)
	}
	for _, a := range s.nodes {
		for j, b := range s.nodes {
			a.peers[j] = a.to(b.endpoint)
		}
		s.receives(a)
	}
	for _, f := range []*Fabric{s.f, s.g} {
		f.Faults().Set(FaultPlan{
			Seed: seed, Loss: 0.1, Duplicate: 0.06, Delay: 0.05, DelayTime: 100 * time.Microsecond,
			AckLoss: 0.1, RNR: 0.1, CorruptKey: 0.06, Abort: 0.06,
		})
	}
	return s
}

// receives posts all receives that are not.
func (s *soak) receives(n *soakNode) {
	for i := range soakRecvs {
		if !n.posted[i] {
			n.posted[i] = true
			n.nrecv++
			n.recv(uint16(i), n.rx, i*soakRecv, soakRecv)
		}
	}
}

// post posts a random request of a node.
func (s *soak) post(from int) {
	n := s.nodes[from]
	if len(n.free) == 0 {
		return
	}
	slot := n.free[len(n.free)-1]
	n.free = n.free[:len(n.free)-1]
	id := uint64(len(s.ops))
	o := &soakOp{op: wire.IOOp(s.rng.IntN(3)), from: from, to: s.rng.IntN(soakNodes), slot: slot, n: s.rng.IntN(soakMax)}
	if s.rng.IntN(2) == 0 {
		o.n %= 300
	}
	s.ops = append(s.ops, o)
	n.inSlot[slot] = id
	s.open++
	mine := n.local.b[slot*soakSlot:][:soakSlot]
	off := (from*soakSlots + slot) * soakSlot
	theirs := s.nodes[o.to].remote.b[off:][:soakSlot]
	src, dst := mine, theirs
	if o.op == wire.IORDMARead {
		src, dst = theirs, mine
	}
	copy(dst, blank[:])
	var w *wire.WideTxEntry
	local := n.local.at(slot*soakSlot, o.n)
	switch r := s.nodes[o.to].remote; o.op {
	case wire.IOSend:
		o.n = 8 + o.n%(DefaultMTU-8)
		pattern(src[:o.n], id)
		binary.LittleEndian.PutUint64(src, id)
		w = n.peers[o.to].send(uint64(slot), n.local.at(slot*soakSlot, o.n))
	default:
		pattern(src[:o.n], id)
		w = n.peers[o.to].rdma(o.op, uint64(slot), local, r.addr+uint64(off), r.RKey)
		if o.notice = o.op == wire.IORDMAWrite && s.rng.IntN(3) == 0; o.notice {
			imm(w, uint32(id))
		}
	}
	n.endpoint.post(w)
}

// poll takes a node's completions.
func (s *soak) poll(n *soakNode) {
	for c := n.scq.poll(); c != nil; c = n.scq.poll() {
		if c.Base().Flags().Queue() == wire.RecvQueue {
			s.received(n, c)
		} else {
			s.sent(n, c.Base())
		}
	}
}

func (s *soak) sent(n *soakNode, c *wire.CQE) {
	slot := int(c.ReqID())
	id := n.inSlot[slot]
	o := s.ops[id]
	if o.done++; o.done > 1 {
		s.t.Fatalf("request %d completed again, with %v after %v", id, c.Status(), o.status)
	}
	o.status = c.Status()
	s.open--
	n.free = append(n.free, slot)
	if o.op == wire.IOSend {
		return // its bytes are checked where they arrive
	}
	dst := s.nodes[o.to].remote.b[(o.from*soakSlots+slot)*soakSlot:][:soakSlot]
	if o.op == wire.IORDMARead {
		dst = n.local.b[slot*soakSlot:][:soakSlot]
	}
	want := s.scratch[:o.n]
	pattern(want, id)
	ok := bytes.Equal(dst[o.n:], blank[o.n:])
	switch o.status {
	case wire.CompOK:
		ok = ok && bytes.Equal(dst[:o.n], want)
	case wire.CompRemoteBadAddress, wire.CompRemoteAbort:
		ok = ok && bytes.Equal(dst[:o.n], blank[:o.n])
	default: // some packets may have come
		for i, b := range dst[:o.n] {
			ok = ok && (b == want[i] || b == untouched)
		}
	}
	if !ok {
		s.t.Fatalf("request %d (%v of %d bytes, %v): the bytes are wrong", id, o.op, o.n, o.status)
	}
}

func (s *soak) received(n *soakNode, c *wire.WideCQE) {
	slot := int(c.Base().ReqID())
	if !n.posted[slot] {
		s.t.Fatalf("receive %d completed again", slot)
	}
	n.posted[slot] = false
	n.nrecv--
	if c.Base().Status() == wire.CompFlushed {
		return
	}
	if c.Base().Status() != wire.CompOK {
		s.t.Fatalf("receive %d: %v", slot, c.Base().Status())
	}
	b := n.rx.b[slot*soakRecv:][:soakRecv]
	id := uint64(c.Base().Imm())
	if !c.Base().Flags().HasImm() {
		id = binary.LittleEndian.Uint64(b)
		want := s.scratch[:c.Length()]
		pattern(want, id)
		if !bytes.Equal(b[8:len(want)], want[8:]) {
			s.t.Fatalf("message %d: the bytes differ", id)
		}
	}
	o := s.ops[id]
	if o.received++; o.received > 1 || int(c.Length()) != o.n {
		s.t.Fatalf("message %d: received %d times, %d of %d bytes", id, o.received, c.Length(), o.n)
	}
}

// settle polls until a condition holds.
func (s *soak) settle(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		for _, n := range s.nodes {
			s.poll(n)
		}
		if time.Now().After(end) {
			s.t.Fatalf("not within 20 s: %s; %d requests open", what, s.open)
		}
	}
}

// crash moves a node's queue pair to ERR, takes what is flushed, and starts it again.
func (s *soak) crash(i int) {
	n := s.nodes[i]
	n.state(wire.QPStateError)
	s.settle("all of a queue pair in error completes", func() bool { return len(n.free) == soakSlots && n.nrecv == 0 })
	n.state(wire.QPStateReset)
	n.pc, n.rpc = 0, 0
	n.rts(0, wire.QPTypeSRD)
	s.receives(n)
}

// faults is how many were drawn. What link failures swallow comes on top.
func (s *soak) faults() uint64 {
	n := s.f.Faults().Counts().Total()
	if s.g != s.f {
		n += s.g.Faults().Counts().Total()
	}
	return n
}

// TestSoak: 10,000 faults, drawn from a seed, between four devices: every request
// completes exactly once, every message arrives once or not at all and as its
// sender was told, every receive completes once, and every byte is what it should
// be or untouched.
func TestSoak(t *testing.T) {
	s := newSoak(t, 20261129)
	var restore time.Time
	for turn, last := 1, 0; s.faults() < s.most; turn++ {
		s.post(s.rng.IntN(soakNodes))
		if turn%8 == 0 {
			for _, n := range s.nodes {
				s.poll(n)
				s.receives(n)
			}
		}
		if !restore.IsZero() && time.Now().After(restore) {
			for _, n := range s.nodes {
				n.d.Faults().Clear()
			}
			restore = time.Time{}
		}
		if len(s.ops) == last {
			runtime.Gosched()
			continue
		}
		last = len(s.ops)
		d := s.nodes[s.rng.IntN(soakNodes)].d
		switch {
		case last%300 == 0 && !acrossLink: // what is flushed could still arrive through a link
			s.crash(s.rng.IntN(soakNodes))
		case last%1000 == 100 && restore.IsZero():
			d.Faults().Set(FaultPlan{LinkDown: true})
			restore = time.Now().Add(5 * time.Millisecond)
		case last%4000 == 200 && restore.IsZero():
			d.Faults().Set(FaultPlan{Unresponsive: true})
			restore = time.Now().Add(80 * time.Millisecond)
		}
	}
	for _, n := range s.nodes {
		n.d.Faults().Clear()
	}
	s.f.Faults().Clear()
	s.g.Faults().Clear()
	s.settle("all requests complete", func() bool {
		for _, n := range s.nodes {
			s.receives(n)
		}
		return s.open == 0
	})
	for i := range s.nodes {
		s.crash(i)
	}
	count := map[wire.CompStatus]int{}
	for id, o := range s.ops {
		count[o.status]++
		if o.done != 1 {
			t.Errorf("request %d completed %d times", id, o.done)
		}
		if o.op != wire.IOSend && !o.notice {
			continue
		}
		switch o.status {
		case wire.CompOK:
			if o.received != 1 {
				t.Errorf("message %d completed and was received %d times", id, o.received)
			}
		case wire.CompRemoteAbort, wire.CompRemoteBadAddress:
			if o.received != 0 {
				t.Errorf("message %d failed with %v and was received", id, o.status)
			}
		}
	}
	if count[wire.CompOK] == 0 || count[wire.CompFlushed] == 0 && !acrossLink || count[wire.CompRemoteAbort] == 0 || count[wire.CompRemoteBadAddress] == 0 {
		t.Errorf("statuses %v", count)
	}
	t.Logf("%d requests, %d faults: %v; %+v", len(s.ops), s.faults(), count, s.f.Faults().Counts())
}
