package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
)

// TestHostilePeers: whatever a peer says, at whatever time, ends that peer with a
// clear error, or is nothing to it; another peer's transfers go on.
func TestHostilePeers(t *testing.T) {
	for _, test := range slices.Concat(hostileConnecting, hostileRegions, hostileLetters, hostileEnds) {
		t.Run(test.name, test.run)
	}
	if live := efa.Live(); len(live) > 0 {
		t.Errorf("objects are left: %v", live)
	}
}

// hostileConnecting: what is said to connect, about rails and their receives.
var hostileConnecting = []hostileCase{
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
			h.link(msgFenced, h.hear(msgOffer).generation, 0)
		}
		h.hear(msgOffer)
		if n := h.generations(); n > 2 {
			h.t.Errorf("%d generations are kept", n)
		}
		h.giveUp()
	}, want: "no rail to hostile", is: ErrLost, rail: time.Minute},
	{name: "ready for what was not offered", early: func(h *hostile) { h.hello(); h.link(msgReady, 77, 64); h.giveUp() }, want: "no rail to hostile", is: ErrLost},
	{name: "ready before it accepted", early: func(h *hostile) { h.hello(); h.link(msgReady, 1, 64); h.giveUp() }, want: "no rail to hostile", is: ErrLost},
	{name: "begins a generation", early: func(h *hostile) { h.hello(); h.offer(2) }, want: "began generation 2", is: errProtocol},
	{name: "begins an old one", late: func(h *hostile) { h.link(msgOffer, 0, 0) }},
	{name: "the hello twice", late: func(h *hostile) { h.say(message{kind: msgHello, count: 1}) }, want: "type 16 now", is: errProtocol},
	{name: "of no type", late: func(h *hostile) { h.c.Send(9999, nil) }, want: "type 9999", is: errProtocol},
	{name: "of no length", late: func(h *hostile) { h.c.Send(uint16(msgFenced), []byte{1}) }, want: "short", is: errProtocol},
	{name: "a rail that there is not", late: func(h *hostile) { h.say(message{kind: msgFenced, rail: 9, generation: 1}) }, want: "rail 9", is: errProtocol},
	{name: "more credits than receives", late: func(h *hostile) { h.link(msgCredit, 1, 1<<32-1) }, want: "receives on rail 0", is: errProtocol},
	{name: "credits bit by bit", late: func(h *hostile) { h.link(msgCredit, 1, maxCredits-64); h.link(msgCredit, 1, 1) }, want: "receives on rail 0", is: errProtocol},
	{name: "ready with too many", late: func(h *hostile) { h.link(msgReady, 1, maxCredits+1) }, want: "receives on rail 0", is: errProtocol},
	{name: "credits of another generation", late: func(h *hostile) { h.link(msgCredit, 2, 1<<32-1) }},
	{name: "fences another generation", late: func(h *hostile) { h.link(msgFenced, 0, 0); h.link(msgFenced, 5, 0) }},
	{name: "an offer that is too long", late: func(h *hostile) { h.say(message{kind: msgOffer, bytes: make([]byte, maxOffer+1)}) }, want: "4097 bytes", is: errProtocol},
}

// hostileRegions: what is granted, and asked of grants.
var hostileRegions = []hostileCase{
	{name: "grants a range that wraps", late: func(h *hostile) { h.grant(func(r *Remote) { r.d.Addr = ^uint64(0) - 100 }) }, want: "not the description of a region", is: ErrDescriptor},
	{name: "grants nonsense", late: func(h *hostile) { h.say(message{kind: msgGrant, name: "x", bytes: []byte("PDR")}) }, is: ErrDescriptor, want: "bytes"},
	{name: "grants another's", late: func(h *hostile) { h.grant(func(r *Remote) { r.Incarnation++ }) }, want: "another incarnation", is: errProtocol},
	{name: "grants twice", late: func(h *hostile) { h.grant(nil); h.grant(nil) }, want: "twice", is: errProtocol},
	{name: "grants without end", late: func(h *hostile) {
		r := Remote{Incarnation: hostileIncarnation, Rights: Read, d: h.mem.Descriptor(), rails: firstRails(1)}
		b, _ := r.MarshalBinary()
		for i := range maxGrants + 1 {
			if h.c.Send(uint16(msgGrant), (&message{kind: msgGrant, name: fmt.Sprint(i), bytes: b}).append(nil)) != nil {
				break // it was ended
			}
		}
	}, want: "more regions than", is: ErrLost},
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
}

// hostileLetters: what a rail carries as a message, and what is said of messages.
var hostileLetters = []hostileCase{
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
}

// hostileEnds: what is said, or not, of requests and notices whose rail failed.
var hostileEnds = []hostileCase{
	{name: "notifies all numbers", late: func(h *hostile) {
		for n := range uint32(6) {
			op := []transfer.Op{{Kind: transfer.OpNotify, Peer: h.id, ID: uint64(n), Imm: n << sequenceBits}}
			if _, err := h.rail.Post(op); err != nil {
				h.t.Fatal(err)
			}
		}
	}, want: "more than 4 numbers", is: errProtocol},
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
		h.link(msgFenced, 1, 0)
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
		h.link(msgFenced, 1, 0)
		h.link(msgCounted, 1, h.hear(msgAsk).count)
		if err := w.Wait(h.ctx); err != nil {
			h.t.Errorf("a notice that was counted: %v", err)
		}
	}, fence: time.Minute, rail: time.Minute},
	{name: "asks what it knows, and answers unasked", late: func(h *hostile) {
		for _, kind := range []msgKind{msgAsk, msgCounted, msgUncounted} {
			h.link(kind, 7, 3<<sequenceBits)
		}
		if m := h.hear(msgUncounted); m.generation != 7 || m.count != 3<<sequenceBits {
			h.t.Errorf("the answer: %+v", m)
		}
	}},
	{name: "asks for all numbers", late: func(h *hostile) {
		for n := range uint32(6) {
			h.link(msgAsk, 1, n<<sequenceBits)
		}
	}, want: "more than 4 numbers", is: errProtocol},
	{name: "never has a rail again", late: func(h *hostile) {
		h.link(msgFenced, 1, 0)
		if err := h.write(Notify{}).Wait(h.ctx); !errors.Is(err, ErrLost) {
			h.t.Errorf("a write for which there is no rail: %v", err)
		}
	}, want: "no rail to hostile came again", is: ErrLost, rail: 2 * time.Second},
	{name: "has no receives", late: func(h *hostile) {
		h.link(msgReady, 1, 0)
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
}
