package peer

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"
)

// TestResponder answers probes with its token alone, from one address alone, and never
// with more than the size that it was given.
func TestResponder(t *testing.T) {
	nothingLeft(t)
	here := netip.MustParseAddr("127.0.0.1")
	s, err := newResponder(t.Context(), here, here, 9000)
	if err != nil {
		t.Fatal(err)
	}
	c, err := udp(t.Context(), netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.where().Port)
	stranger := &prober{c: c, to: to, token: []byte("fedcba9876543210"), tries: 1, wait: 100 * time.Millisecond}
	if ok, err := stranger.try(t.Context(), probeSize, probeSize); ok || err != nil {
		t.Errorf("a stranger is answered: %v", err)
	}
	known := &prober{c: c, to: to, token: s.where().Token, tries: 100, wait: 300 * time.Millisecond}
	for _, size := range [][2]int{{probeSize, probeSize}, {9000, probeSize}, {probeSize, 9000}} {
		if ok, err := known.try(t.Context(), size[0], size[1]); !ok {
			t.Errorf("%d and %d bytes are not answered: %v", size[0], size[1], err)
		}
	}
	for name, x := range map[string]struct {
		from string
		back int
	}{"another address": {"127.0.0.2", probeSize}, "too large an answer": {"127.0.0.1", 9001}} {
		c, err := udp(t.Context(), netip.MustParseAddr(x.from))
		if err != nil {
			t.Fatal(err)
		}
		p := &prober{c: c, to: to, token: s.where().Token, tries: 1, wait: 100 * time.Millisecond}
		if ok, err := p.try(t.Context(), probeSize, x.back); ok || err != nil {
			t.Errorf("%s: answered: %v", name, err)
		}
		c.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stranger.try(ctx, probeSize, probeSize); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	c.Close()
	s.close()
	if s.largest != 9000 {
		t.Errorf("the largest probe had %d bytes", s.largest)
	}
}

// TestAnswersEnd: a responder answers so many probes and no more.
func TestAnswersEnd(t *testing.T) {
	nothingLeft(t)
	here := netip.MustParseAddr("127.0.0.1")
	s, err := newResponder(t.Context(), here, here, probeSize)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c, err := udp(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := &prober{c: c, to: netip.AddrPortFrom(here, s.where().Port), token: s.token, tries: 1, wait: 300 * time.Millisecond}
	probes := 0
	for over := false; !over && probes <= 10*maxAnswers; probes++ {
		p.try(t.Context(), probeSize, probeSize)
		select {
		case <-s.ended:
			over = true
		default:
		}
	}
	if probes < maxAnswers || probes > 10*maxAnswers {
		t.Errorf("it ended after %d probes", probes)
	}
	if ok, _ := p.try(t.Context(), probeSize, probeSize); ok {
		t.Error("it answers more")
	}
}

// TestLateAnswers: an answer that comes only when the next probe was sent counts, if both
// are of the same call.
func TestLateAnswers(t *testing.T) {
	nothingLeft(t)
	here := netip.MustParseAddr("127.0.0.1")
	s := answering(t, func(_ int, number, _ uint32) (uint32, bool) { return number - 1, true }) // to the one before
	own, err := udp(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	p := &prober{c: own, to: netip.AddrPortFrom(here, s.where().Port), token: s.token, tries: 200, wait: 50 * time.Millisecond}
	if ok, err := p.try(t.Context(), 100, probeSize); !ok {
		t.Errorf("a late answer does not count: %v", err)
	}
	if p.number < 2 {
		t.Errorf("answered at the first try")
	}
	p.tries = 1
	if ok, err := p.try(t.Context(), 200, probeSize); ok || err != nil {
		t.Errorf("an answer to another call's probe counts: %v", err)
	}
}
