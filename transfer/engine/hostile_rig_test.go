package engine

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs"
)

// hostile speaks the protocol of a peer by hand, with a rail of its own.
type hostile struct {
	t    *testing.T
	ctx  context.Context
	c    Control
	rail transfer.Rail
	id   transfer.Peer
	mem  *transfer.Region
	e    *Engine

	bytes []byte // of mem

	stop   func()  // ends the engine's wait for a rail
	region *Region // of the engine, granted to the hostile peer as "memory"
	peer   *Peer   // the hostile one, as the engine sees it; nil before it is up
}

const hostileIncarnation = 666

func (h *hostile) say(m message) {
	h.t.Helper()
	if err := h.c.Send(uint16(m.kind), m.append(nil)); err != nil {
		h.t.Fatal(err)
	}
}

// hear waits for a message of a kind.
func (h *hostile) hear(kind msgKind) (m message) {
	h.t.Helper()
	for {
		k, b, err := h.c.Receive(h.ctx)
		if err != nil {
			h.t.Fatalf("waiting for a message of type %d: %v", kind, err)
		}
		if err := m.parse(k, b); err != nil {
			h.t.Fatal(err)
		}
		if m.kind == kind {
			return m
		}
	}
}

func (h *hostile) hello() {
	h.say(message{kind: msgHello, incarnation: hostileIncarnation, count: 1, name: "hostile"})
	h.hear(msgHello)
}

// offer gives the rail's offer for a generation.
func (h *hostile) offer(generation uint32) {
	h.t.Helper()
	id, b, err := h.rail.Offer()
	if err != nil {
		h.t.Fatal(err)
	}
	h.id = id
	h.say(message{kind: msgOffer, generation: generation, bytes: b})
}

// up connects as an honest peer that accepted would, with so many receives.
func (h *hostile) up(receives uint32) {
	h.t.Helper()
	h.hello()
	m := h.hear(msgOffer)
	h.offer(m.generation)
	if err := h.rail.Accept(h.id, m.bytes); err != nil {
		h.t.Fatal(err)
	}
	h.say(message{kind: msgReady, generation: m.generation, count: receives})
	h.hear(msgReady)
}

// understood returns when the engine's worker has acted on all that was said: it
// answers a question behind that.
func (h *hostile) understood() {
	h.t.Helper()
	h.say(message{kind: msgAsk})
	h.hear(msgUncounted)
}

// giveUp has the engine wait no longer for a rail, once it has understood.
func (h *hostile) giveUp() {
	h.t.Helper()
	h.understood()
	h.stop()
}

// generations is how many of its rail's the engine keeps.
func (h *hostile) generations() (n int) {
	for _, p := range h.e.Peers() {
		if a := p.at[0]; p.incarnation == hostileIncarnation {
			a.w.call(func() {
				for l := a.links[0]; l != nil; l = l.before {
					n++
				}
			})
		}
	}
	return n
}

// grant names memory of the hostile side.
func (h *hostile) grant(edit func(*Remote)) {
	h.t.Helper()
	r := Remote{Incarnation: hostileIncarnation, Rights: Read | Write, d: h.mem.Descriptor(), rails: firstRails(1)}
	if edit != nil {
		edit(&r)
	}
	b, err := r.MarshalBinary()
	if err != nil {
		h.t.Fatal(err)
	}
	h.say(message{kind: msgGrant, name: "theirs", bytes: b})
}

// write begins a transfer of the engine's to the hostile side.
func (h *hostile) write(notify Notify) *Transfer {
	h.t.Helper()
	h.grant(nil)
	target, err := h.peer.Target(h.ctx, "theirs")
	if err != nil {
		h.t.Fatal(err)
	}
	t, err := h.peer.Write(h.ctx, Move{Local: h.region, Remote: target, Segments: []Segment{{Length: 4096}}, Notify: notify})
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// letter posts what a rail carries as a message.
func (h *hostile) letter(b []byte) {
	h.t.Helper()
	at := h.mem.At(0, uint32(copy(h.bytes, b)))
	if _, err := h.rail.Post([]transfer.Op{{Kind: transfer.OpSend, Peer: h.id, Local: at}}); err != nil {
		h.t.Fatal(err)
	}
}

// link says something about its only rail.
func (h *hostile) link(kind msgKind, generation, count uint32) {
	h.say(message{kind: kind, generation: generation, count: count, bytes: nil})
}

// hostileCase is something that no honest peer does.
type hostileCase struct {
	name  string
	early func(h *hostile) // instead of connecting
	late  func(h *hostile) // once it is connected
	want  string           // in the error; none: the peer stays
	is    error
	// How long the engine waits where the hostile side has more to say before;
	// default: not long.
	fence, rail time.Duration
}

// run has the peer come to an engine that transfers with another, do what it does,
// and looks how both fare.
func (test *hostileCase) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{Counters: 4, CoolDown: 10 * time.Millisecond,
		FenceTime: cmp.Or(test.fence, 200*time.Millisecond), RailTime: cmp.Or(test.rail, 300*time.Millisecond)}
	good := newPair(t, o)
	h := &hostile{t: t, ctx: ctx, e: good.e[0], region: good.region[0]}
	var err error
	if h.rail, err = good.fabric.Node(2).Open(transfer.Want{Peers: 4, NICs: 1}); err != nil {
		t.Fatal(err)
	}
	defer h.rail.Close()
	buf, err := verbs.NewBuffer(4096, verbs.BufferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	h.bytes = buf.Bytes()
	if h.mem, err = h.rail.Register(h.bytes); err != nil {
		t.Fatal(err)
	}
	defer h.mem.Close()
	var dialled Control
	dialled, h.c = Pipe()
	joined := make(chan error, 1)
	joining, giveUp := context.WithCancel(ctx)
	defer giveUp()
	h.stop = giveUp
	go func() {
		var err error
		h.peer, err = h.e.Connect(joining, dialled, true)
		joined <- err
	}()
	if test.early != nil {
		test.early(h)
		err = <-joined
	} else {
		h.up(64)
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		if err := h.peer.Grant("memory", h.region, Read|Write); err != nil {
			t.Fatal(err)
		}
		test.late(h)
		if test.want != "" {
			select {
			case <-h.peer.Fenced():
			case <-ctx.Done():
				t.Fatal("the peer was not ended")
			}
		} else {
			good.transfer(ctx) // time for what was said to do harm
		}
		err = h.peer.Err()
	}
	switch {
	case test.want == "" && err != nil:
		t.Errorf("the peer was ended: %v", err)
	case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, test.is)):
		t.Errorf("%v; want it to say %q", err, test.want)
	}
	good.transfer(ctx)
}
