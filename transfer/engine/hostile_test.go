package engine

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
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

// TestHostilePeers: whatever a peer says, at whatever time, ends that peer with a
// clear error, or is nothing to it; another peer's transfers go on.
func TestHostilePeers(t *testing.T) {
	link := func(h *hostile, kind msgKind, generation, count uint32) {
		h.say(message{kind: kind, generation: generation, count: count, bytes: nil})
	}
	for _, test := range []struct {
		name  string
		early func(h *hostile) // instead of connecting
		late  func(h *hostile) // once it is connected
		want  string           // in the error; none: the peer stays
		is    error
		// How long the engine waits where the hostile side has more to say before;
		// default: not long.
		fence, rail time.Duration
	}{
		{name: "no hello first", early: func(h *hostile) { h.say(message{kind: msgWithdraw, name: "x"}) }, want: "before the hello", is: errProtocol},
		{name: "garbage first", early: func(h *hostile) { h.c.Send(uint16(msgHello), []byte("GET / HTTP/1.1")) }, want: "version 71", is: errProtocol},
		{name: "a name for a terminal", early: func(h *hostile) {
			h.say(message{kind: msgHello, incarnation: 1, count: 1, name: "\x1b[2Jroot"})
		}, want: "cannot be printed", is: errProtocol},
		{name: "no rails", early: func(h *hostile) { h.say(message{kind: msgHello, name: "x"}) }, want: "0 rails", is: errProtocol},
		{name: "offers garbage", early: func(h *hostile) {
			h.hello()
			h.say(message{kind: msgOffer, generation: 1, bytes: []byte("garbage")})
			h.giveUp()
		}, want: "connect to hostile on rail 0", is: ErrLost, fence: time.Minute},
		{name: "gives the rail up again and again", early: func(h *hostile) {
			h.hello()
			for range 20 {
				link(h, msgFenced, h.hear(msgOffer).generation, 0)
			}
			h.hear(msgOffer)
			if n := h.generations(); n > 2 {
				h.t.Errorf("%d generations are kept", n)
			}
			h.giveUp()
		}, want: "no rail to hostile", is: ErrLost, rail: time.Minute},
		{name: "ready for what was not offered", early: func(h *hostile) { h.hello(); link(h, msgReady, 77, 64); h.giveUp() }, want: "no rail to hostile", is: ErrLost},
		{name: "ready before it accepted", early: func(h *hostile) { h.hello(); link(h, msgReady, 1, 64); h.giveUp() }, want: "no rail to hostile", is: ErrLost},
		{name: "begins a generation", early: func(h *hostile) { h.hello(); h.offer(2) }, want: "began generation 2", is: errProtocol},
		{name: "begins an old one", late: func(h *hostile) { link(h, msgOffer, 0, 0) }},
		{name: "the hello twice", late: func(h *hostile) { h.say(message{kind: msgHello, count: 1}) }, want: "type 16 now", is: errProtocol},
		{name: "of no type", late: func(h *hostile) { h.c.Send(9999, nil) }, want: "type 9999", is: errProtocol},
		{name: "of no length", late: func(h *hostile) { h.c.Send(uint16(msgFenced), []byte{1}) }, want: "short", is: errProtocol},
		{name: "a rail that there is not", late: func(h *hostile) { h.say(message{kind: msgFenced, rail: 9, generation: 1}) }, want: "rail 9", is: errProtocol},
		{name: "more credits than receives", late: func(h *hostile) { link(h, msgCredit, 1, 1<<32-1) }, want: "receives on rail 0", is: errProtocol},
		{name: "credits bit by bit", late: func(h *hostile) { link(h, msgCredit, 1, maxCredits-64); link(h, msgCredit, 1, 1) }, want: "receives on rail 0", is: errProtocol},
		{name: "ready with too many", late: func(h *hostile) { link(h, msgReady, 1, maxCredits+1) }, want: "receives on rail 0", is: errProtocol},
		{name: "credits of another generation", late: func(h *hostile) { link(h, msgCredit, 2, 1<<32-1) }},
		{name: "fences another generation", late: func(h *hostile) { link(h, msgFenced, 0, 0); link(h, msgFenced, 5, 0) }},
		{name: "an offer that is too long", late: func(h *hostile) { h.say(message{kind: msgOffer, bytes: make([]byte, maxOffer+1)}) }, want: "4097 bytes", is: errProtocol},
		{name: "grants a range that wraps", late: func(h *hostile) { h.grant(func(r *Remote) { r.d.Addr = ^uint64(0) - 100 }) }, want: "not the description of a region", is: ErrDescriptor},
		{name: "grants nonsense", late: func(h *hostile) { h.say(message{kind: msgGrant, name: "x", bytes: []byte("PDR")}) }, is: ErrDescriptor, want: "bytes"},
		{name: "grants another's", late: func(h *hostile) { h.grant(func(r *Remote) { r.Incarnation++ }) }, want: "another incarnation", is: errProtocol},
		{name: "grants twice", late: func(h *hostile) { h.grant(nil); h.grant(nil) }, want: "twice", is: errProtocol},
		{name: "withdraws what it did not grant", late: func(h *hostile) {
			h.say(message{kind: msgWithdraw, name: "x"})
			h.say(message{kind: msgWithdrawn, name: "memory"})
			h.say(message{kind: msgWithdrawn, name: "x"})
		}},
		{name: "gives keys unasked", late: func(h *hostile) {
			h.grant(nil)
			r := Remote{Incarnation: hostileIncarnation, Rights: Read, d: h.mem.Descriptor(), rails: firstRails(1)}
			b, _ := r.MarshalBinary()
			h.say(message{kind: msgKeys, name: "theirs", bytes: b})
		}, want: "unasked", is: errProtocol},
		{name: "gives keys of what it did not grant", late: func(h *hostile) { h.say(message{kind: msgKeys, name: "x", bytes: []byte("PDR")}) }},
		{name: "asks for rails by a byte", late: func(h *hostile) { h.say(message{kind: msgWiden, name: "memory", bytes: []byte{1}}) }, want: "by 1 bytes", is: errProtocol},
		{name: "asks for rails that there are not", late: func(h *hostile) {
			all := firstRails(MaxRails)
			for _, name := range []string{"memory", "x"} {
				h.say(message{kind: msgWiden, name: name, bytes: all.appendBits(nil, MaxRails)})
			}
			var r Remote
			if err := r.UnmarshalBinary(h.hear(msgKeys).bytes); err != nil || r.rails != firstRails(1) {
				h.t.Errorf("the answer: %+v, %v", r, err)
			}
		}},
		{name: "grants a range that is not there", late: func(h *hostile) {
			h.grant(func(r *Remote) { r.d.Length = 1 << 40 })
			target, err := h.peer.Target(h.ctx, "theirs")
			if err != nil {
				h.t.Fatal(err)
			}
			w, err := h.peer.Write(h.ctx, Move{Local: h.region, Remote: target, Segments: []Segment{{Remote: 1 << 39, Length: 100}}})
			if err != nil {
				h.t.Fatal(err)
			}
			var lost *transfer.LostError
			if err := w.Wait(h.ctx); !errors.As(err, &lost) && !errors.Is(err, ErrLost) {
				h.t.Errorf("a write beyond what the peer has: %v", err)
			}
		}, want: "fenced", is: ErrLost, rail: time.Minute}, // it does not answer for its rail
		{name: "notifies all numbers", late: func(h *hostile) {
			for n := range uint32(6) {
				op := []transfer.Op{{Kind: transfer.OpNotify, Peer: h.id, ID: uint64(n), Imm: n << sequenceBits}}
				if _, err := h.rail.Post(op); err != nil {
					h.t.Fatal(err)
				}
			}
		}, want: "more than 4 numbers", is: errProtocol},
		{name: "sends garbage by the rail", late: func(h *hostile) { h.letter([]byte("GET / HTTP/1.1\r\n\r\n")) }, want: "a letter that begins with", is: errProtocol},
		{name: "sends a letter too far ahead", late: func(h *hostile) { h.letter(someLetter(letterData, letterWindow, "x")) }, want: "letter 32, where those before 32", is: errProtocol},
		{name: "sends a letter of long ago", late: func(h *hostile) { h.letter(someLetter(letterData, 1<<32-letterWindow-1, "x")) }},
		{name: "sends a letter that lies about its length", late: func(h *hostile) { h.letter(append(someLetter(letterData, 0, "x"), 0)) }, want: "says that it has 1", is: errProtocol},
		{name: "sends a letter twice", late: func(h *hostile) {
			for range 2 {
				h.letter(someLetter(letterData, 0, "x"))
			}
			if got, err := h.peer.Receive(h.ctx); err != nil || string(got) != "x" {
				h.t.Errorf("%q, %v", got, err)
			}
		}},
		{name: "received what was not sent", late: func(h *hostile) { h.say(message{kind: msgTaken, count: 1}) }, want: "received 1 messages; 0 were sent", is: errProtocol},
		{name: "received less than before", late: func(h *hostile) { h.say(message{kind: msgTaken, count: 1<<32 - 1}) }},
		{name: "comes to a barrier of no name", late: func(h *hostile) { h.letter(someLetter(letterCame, 1, "")) }, want: "name of 0 bytes", is: errProtocol},
		{name: "breaks a barrier that nobody knows", late: func(h *hostile) { h.say(message{kind: msgBroke, count: 1, name: "x"}) }},
		{name: "does not confirm a fence", late: func(h *hostile) {
			h.rail.Close()
			if err := h.write(Notify{}).Wait(h.ctx); !errors.Is(err, ErrLost) {
				h.t.Errorf("a write whose rail was never fenced: %v", err)
			}
		}, want: "did not confirm", is: ErrLost, rail: time.Minute},
		{name: "does not tell what came", late: func(h *hostile) {
			h.rail.Close()
			w := h.write(Counts(1))
			h.hear(msgFenced)
			link(h, msgFenced, 1, 0)
			h.hear(msgAsk)
			if err := w.Wait(h.ctx); !errors.Is(err, ErrLost) {
				h.t.Errorf("a write of which it did not tell whether it came: %v", err)
			}
		}, want: "did not tell", is: ErrLost, fence: 2 * time.Second, rail: time.Minute},
		{name: "has counted what its rail took with it", late: func(h *hostile) {
			h.rail.Close()
			w, err := h.peer.Notify(h.ctx, 2)
			if err != nil {
				h.t.Fatal(err)
			}
			h.hear(msgFenced)
			link(h, msgFenced, 1, 0)
			link(h, msgCounted, 1, h.hear(msgAsk).count)
			if err := w.Wait(h.ctx); err != nil {
				h.t.Errorf("a notice that was counted: %v", err)
			}
		}, fence: time.Minute, rail: time.Minute},
		{name: "asks what it knows, and answers unasked", late: func(h *hostile) {
			for _, kind := range []msgKind{msgAsk, msgCounted, msgUncounted} {
				link(h, kind, 7, 3<<sequenceBits)
			}
			if m := h.hear(msgUncounted); m.generation != 7 || m.count != 3<<sequenceBits {
				h.t.Errorf("the answer: %+v", m)
			}
		}},
		{name: "asks for all numbers", late: func(h *hostile) {
			for n := range uint32(6) {
				link(h, msgAsk, 1, n<<sequenceBits)
			}
		}, want: "more than 4 numbers", is: errProtocol},
		{name: "never has a rail again", late: func(h *hostile) {
			link(h, msgFenced, 1, 0)
			if err := h.write(Notify{}).Wait(h.ctx); !errors.Is(err, ErrLost) {
				h.t.Errorf("a write for which there is no rail: %v", err)
			}
		}, want: "no rail to hostile came again", is: ErrLost, rail: 2 * time.Second},
		{name: "has no receives", late: func(h *hostile) {
			link(h, msgReady, 1, 0)
			h.understood() // transfers come to the worker by another way
			h.grant(nil)
			target, err := h.peer.Target(h.ctx, "theirs")
			if err != nil {
				h.t.Fatal(err)
			}
			w, err := h.peer.Write(h.ctx, Move{Local: h.region, Remote: target, Segments: []Segment{{Length: 4096}}, Notify: Counts(1)})
			if err != nil {
				h.t.Fatal(err)
			}
			for moved := uint64(0); moved < 4096; moved, _ = w.Progress() {
				time.Sleep(time.Millisecond)
			}
			if w.Ended() {
				h.t.Error("a notice without a receive")
			}
			w.Cancel()
			if err := w.Wait(h.ctx); !errors.Is(err, ErrCancelled) {
				h.t.Errorf("cancelled while it waits for a receive: %v", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
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
		})
	}
	if live := efa.Live(); len(live) > 0 {
		t.Errorf("objects are left: %v", live)
	}
}
