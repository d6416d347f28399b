package peer

import (
	"net/netip"
	"testing"
	"time"
)

// TestLateAnswers: an answer that comes only when the next probe was sent counts, if both
// are of the same call.
func TestLateAnswers(t *testing.T) {
	nothingLeft(t)
	here := netip.MustParseAddr("127.0.0.1")
	c, err := udp(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	s := &responder{c: c, token: []byte("0123456789abcdef"), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		b := make([]byte, maxProbe)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if number, answer, ok := readProbe(b[:n], s.token); ok { // to the one before
				putProbe(b[:answer], s.token, number-1, answer)
				c.WriteToUDPAddrPort(b[:answer], from)
			}
		}
	}()
	defer s.close()
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
