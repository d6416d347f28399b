package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

func someLetter(kind letterKind, number uint32, data string) []byte {
	b := make([]byte, letterHeader, letterHeader+len(data))
	putLetter(b, kind, number, len(data))
	return append(b, data...)
}

func TestLettersAreRead(t *testing.T) {
	good := someLetter(letterData, 7, "hello")
	if kind, number, data, err := parseLetter(good); kind != letterData || number != 7 || string(data) != "hello" || err != nil {
		t.Errorf("%v %d %q, %v", kind, number, data, err)
	}
	for _, bad := range []struct {
		name, want string
		b          []byte
	}{
		{"nothing", "0 bytes", nil},
		{"short", "15 bytes", good[:15]},
		{"cut", "has 4", good[:len(good)-1]},
		{"long", "has 6", append(bytes.Clone(good), 0)},
		{"another thing", `"GET"`, []byte("GET / HTTP/1.1\r\n\r\n")},
		{"another version", "version 2", append([]byte("PDM\x02"), good[4:]...)},
		{"no kind", "kind 0", someLetter(0, 0, "")},
		{"a kind that there is not", "kind 9", someLetter(9, 0, "")},
		{"a barrier without a name", "name of 0 bytes", someLetter(letterCame, 1, "")},
		{"a barrier of too long a name", "name of 256 bytes", someLetter(letterCame, 1, strings.Repeat("x", 256))},
		{"blank with a number", "number 1", someLetter(letterBlank, 1, "")},
		{"blank with data", "1 bytes", someLetter(letterBlank, 0, "x")},
	} {
		if _, _, _, err := parseLetter(bad.b); !errors.Is(err, errProtocol) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v; want %q", bad.name, err, bad.want)
		}
	}
}

func FuzzLetter(f *testing.F) {
	f.Add(someLetter(letterData, 1<<31, "x"))
	f.Add(someLetter(letterBlank, 0, ""))
	f.Add(someLetter(letterCame, 3, "step"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, number, data, err := parseLetter(b)
		if err != nil {
			if !errors.Is(err, errProtocol) {
				t.Fatal(err)
			}
			return
		}
		if again := someLetter(kind, number, string(data)); !bytes.Equal(again, b) {
			t.Errorf("%x was read as what is %x", b, again)
		}
	})
}

// TestInboxOrders: letters in any order within what may come, some of them again,
// are given once and in order, around 2^32; what may not come is refused.
func TestInboxOrders(t *testing.T) {
	const start = math.MaxUint32 - 1000
	b := inbox{taken: start, told: start}
	r := rand.New(rand.NewPCG(1, 2))
	sent, allowed := uint32(start), uint32(start+letterWindow)
	var data [4]byte
	put := func(n uint32) error {
		binary.BigEndian.PutUint32(data[:], n)
		return b.take(n, data[:])
	}
	first := uint32(start)
	for want := first; int32(want-first) < 5000; {
		// Those on their way: some before the newest, each of which may come twice.
		var flight []uint32
		for sent != allowed && len(flight) < 1+r.IntN(letterWindow) {
			flight = append(flight, sent)
			sent++
		}
		r.Shuffle(len(flight), func(i, k int) { flight[i], flight[k] = flight[k], flight[i] })
		for _, n := range flight {
			for range 1 + r.IntN(2) {
				if err := put(n); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range r.IntN(2 * letterWindow) {
			got, _, taken, tell, err := b.next()
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				break
			}
			if n := binary.BigEndian.Uint32(got); n != want {
				t.Fatalf("letter %d came as the %dth", n, want)
			}
			want++
			if tell {
				allowed = taken + letterWindow
			}
		}
		for _, bad := range []uint32{b.told + letterWindow, b.taken + 1<<31 - 1} {
			if err := put(bad); !errors.Is(err, errProtocol) {
				t.Fatalf("letter %d, where those before %d may come: %v", bad, b.told+letterWindow, err)
			}
		}
		for _, old := range []uint32{b.taken - 1, b.taken - letterWindow - 1, b.taken + 1<<31} {
			if err := put(old); err != nil {
				t.Fatalf("letter %d again, when those before %d were taken: %v", old, b.taken, err)
			}
		}
	}
}

// TestTheEndWakes: who waits to send and who waits to receive is told of the end,
// and what had come is given before.
func TestTheEndWakes(t *testing.T) {
	p := newPair(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for range letterWindow {
		if err := p.peer[0].Send(ctx, []byte("full")); err != nil {
			t.Fatal(err)
		}
	}
	sending, receiving := make(chan error, 1), make(chan error, 1)
	go func() { sending <- p.peer[0].Send(ctx, nil) }()
	go func() { _, err := p.peer[0].Receive(ctx); receiving <- err }()
	for len(p.peer[1].in.here()) < letterWindow { // all have come
		if ctx.Err() != nil {
			t.Fatal("not all came")
		}
	}
	p.e[0].Close()
	for what, c := range map[string]chan error{"Send": sending, "Receive": receiving} {
		if err := <-c; !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	<-p.peer[1].Fenced()
	for range letterWindow {
		if got, err := p.peer[1].Receive(ctx); err != nil || string(got) != "full" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if _, err := p.peer[1].Receive(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("after the end: %v", err)
	}
	if err := p.peer[1].Send(ctx, nil); !errors.Is(err, ErrLost) {
		t.Errorf("a message to one that is gone: %v", err)
	}
}

// TestLettersThatWereDropped: the peer has disconnected its rail and not said so,
// and letters are Done that it drops. They come once it has.
func TestLettersThatWereDropped(t *testing.T) {
	p := newPair(t, Options{CoolDown: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	send := func(n byte) {
		if err := p.peer[0].Send(ctx, []byte{n}); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(n byte) {
		if got, err := p.peer[1].Receive(ctx); err != nil || len(got) != 1 || got[0] != n {
			t.Fatalf("%v, %v; want message %d", got, err, n)
		}
	}
	send(0)
	receive(0)
	w := p.e[1].workers[0]
	l := p.peer[1].at[0].links[0]
	w.call(l.close)
	before := p.e[0].Stats()[0].Done
	barrier := make(chan error, 2)
	go func() { barrier <- p.e[0].Barrier(ctx, []*Peer{p.peer[0]}, "step") }()
	for n := range byte(5) {
		send(1 + n)
	}
	for p.e[0].Stats()[0].Done < before+6 {
		if ctx.Err() != nil {
			t.Fatalf("they were not Done: %+v", p.e[0].Stats())
		}
		time.Sleep(time.Millisecond)
	}
	if n := len(p.peer[1].in.here()); n != 0 {
		t.Fatalf("%d came: the test shows nothing", n)
	}
	w.call(func() { p.peer[1].railFailed(l, errors.New("as the test has it")) })
	go func() { barrier <- p.e[1].Barrier(ctx, []*Peer{p.peer[1]}, "step") }()
	for n := range byte(5) {
		receive(1 + n)
	}
	for range 2 {
		if err := <-barrier; err != nil {
			t.Error(err)
		}
	}
	send(6)
	receive(6)
}

// here are the letters that are kept.
func (b *inbox) here() (numbers []uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range uint32(letterWindow) {
		if b.slots[(b.taken+i)%letterWindow].full {
			numbers = append(numbers, b.taken+i)
		}
	}
	return numbers
}

// TestMessageSizes: none and the most come as they are; more is refused.
func TestMessageSizes(t *testing.T) {
	p := newPair(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, n := range []int{0, 1, MaxSend} {
		want := bytes.Repeat([]byte{byte(n + 1)}, n)
		if err := p.peer[1].Send(ctx, want); err != nil {
			t.Fatal(err)
		}
		if got, err := p.peer[0].Receive(ctx); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came as %d: %v", n, len(got), err)
		}
	}
	if err := p.peer[1].Send(ctx, make([]byte, MaxSend+1)); err == nil || !strings.Contains(err.Error(), "4080 at most") {
		t.Errorf("a message that is too long: %v", err)
	}
	if MaxSend+letterHeader != transfer.MessageSize || letterHeader < transfer.MinMessage {
		t.Error("a letter does not fit a rail's message")
	}
}

// TestBarriersAreBounded: a peer cannot name as many as it likes.
func TestBarriersAreBounded(t *testing.T) {
	e := new(Engine)
	p := &Peer{e: e, meetings: make(map[string]*meeting)}
	for i := range maxMeetings {
		if err := p.came(fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.came("7", 2); err != nil {
		t.Errorf("one that there is: %v", err)
	}
	if err := p.came("more", 1); !errors.Is(err, errProtocol) {
		t.Errorf("came to one more: %v", err)
	}
	if err := p.broke("more", 1, ""); !errors.Is(err, errProtocol) {
		t.Errorf("broke one more: %v", err)
	}
	if err := e.Barrier(t.Context(), []*Peer{p}, "more"); err == nil || !strings.Contains(err.Error(), "1024 barriers") {
		t.Errorf("one more of this side's: %v", err)
	}
}
