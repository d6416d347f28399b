package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// TestNoListener: what is there is another service, is silent, or goes in the middle of
// the handshake.
func TestNoListener(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	for name, x := range map[string]struct {
		serve func(c net.Conn)
		words string
	}{
		"another service": {func(c net.Conn) { io.WriteString(c, "220 mail.example.com ESMTP\r\n"); c.Read(make([]byte, 1<<12)) }, "instead of TLS"},
		"silence":         {func(c net.Conn) { io.Copy(io.Discard, c) }, "did not prove itself in time"},
		"half":            {func(c net.Conn) { c.Read(make([]byte, 1<<12)); c.Write([]byte{22, 3, 3, 0, 80, 2}) }, "closed the connection"},
		"gone":            {func(net.Conn) {}, "closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c, err := l.Accept(); err == nil {
					x.serve(c)
					c.Close()
				}
			}()
			o := p.here
			if name == "silence" {
				o.Control.Handshake = 300 * time.Millisecond
			}
			r, err := Check(t.Context(), l.Addr().String(), o)
			failed(t, outcome{r, err}, StepCredentials, err, x.words)
			l.Close()
			<-done
		})
	}
}

// stranger is a side that has proved itself, and is a test's.
type stranger struct {
	t *testing.T
	*control.Conn
}

func (s *stranger) say(m message) {
	b, err := m.bytes()
	if err != nil {
		s.t.Error(err)
	}
	s.Send(typeMessage, b)
}

// hear gives the next message, and an empty one when there is none.
func (s *stranger) hear() (m message) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, b, err := s.Receive(ctx); err == nil {
		m, _ = readMessage(b)
	}
	return m
}

// nic is one that goes with an embedded one of the same fabric.
func nic(e *transfer.Embedded) *NIC {
	return &NIC{Version: "stranger", Kind: transfer.KindEmbedded, Device: "efa_0", Port: 1, Transport: "EFA SRD", LinkLayer: "unspecified", MTU: 8928, Embedded: true, Fabric: e.ID()}
}

// TestHostileListener: one that proves itself, and then does what none should. The
// dialler names the step, in time.
func TestHostileListener(t *testing.T) {
	nothingLeft(t)
	e := embedded(t, transfer.EmbeddedOptions{})
	hello := func(s *stranger) {
		s.hear()
		s.say(message{Kind: kindHello, NIC: nic(e)})
	}
	mtu := func(s *stranger) {
		hello(s)
		s.hear()
		s.say(message{Kind: kindWord, Step: StepMTU})
		s.hear()
		s.say(message{Kind: kindDone, Step: StepMTU})
		s.hear() // begin keys
	}
	region := &place{Addr: 1 << 30, Length: 2 * halfSize, Key: 7}
	for name, x := range map[string]struct {
		do    func(s *stranger)
		step  Name
		class error
	}{
		"garbage":         {func(s *stranger) { s.Send(typeMessage, []byte("who are you?")) }, StepMatch, ErrProtocol},
		"another type":    {func(s *stranger) { s.Send(control.TypeUser, nil) }, StepMatch, ErrProtocol},
		"another version": {func(s *stranger) { s.Send(typeMessage, []byte(`{"protocol":2,"words":true}`)) }, StepMatch, exchange.ErrVersion},
		"too much":        {func(s *stranger) { s.Send(typeMessage, make([]byte, control.MaxPayload)) }, StepMatch, ErrProtocol},
		"no hello":        {func(s *stranger) { s.say(message{Kind: kindBye}) }, StepMatch, ErrProtocol},
		"gone":            {func(s *stranger) { s.Close() }, StepMatch, control.ErrLeft},
		"another kind": {func(s *stranger) {
			n := nic(e)
			n.Kind, n.Fabric = transfer.KindRC, ""
			s.say(message{Kind: kindHello, NIC: n})
		}, StepMatch, errors.ErrUnsupported},
		"refuses": {func(s *stranger) {
			s.say(message{Kind: kindHello, NIC: nic(e), Error: &said{Text: "no\x1b[2J", Class: exchange.ClassPermission}})
		}, StepMatch, exchange.ErrPermission},
		"gone behind the hello": {func(s *stranger) { hello(s); s.Close() }, StepMTU, control.ErrLeft},
		"another step":          {func(s *stranger) { hello(s); s.say(message{Kind: kindDone, Step: StepBack}) }, StepMTU, ErrProtocol},
		"a flood": {func(s *stranger) {
			hello(s)
			for range 1000 {
				s.say(message{Kind: kindWord, Step: StepMTU})
			}
		}, StepMTU, ErrProtocol},
		"no keys": {func(s *stranger) { mtu(s); s.say(message{Kind: kindWord, Step: StepKeys}) }, StepKeys, ErrProtocol},
		"little memory": {func(s *stranger) {
			mtu(s)
			s.say(message{Kind: kindWord, Step: StepKeys, Offer: []byte{1}, Region: &place{Length: 9}})
		}, StepKeys, ErrProtocol},
		"an offer of nonsense": {func(s *stranger) {
			mtu(s)
			s.say(message{Kind: kindWord, Step: StepKeys, Offer: []byte("nonsense"), Region: region})
			s.say(message{Kind: kindDone, Step: StepKeys})
		}, StepConnect, exchange.ErrVersion},
		"fails": {func(s *stranger) {
			mtu(s)
			s.say(message{Kind: kindDone, Step: StepKeys, Error: &said{Text: "no memory", Class: exchange.ClassNoDevice}})
		}, StepKeys, exchange.ErrNoDevice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := control.Listen(t.Context(), "127.0.0.1:0", known(t), control.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Accept(t.Context())
				if err != nil {
					return
				}
				s := &stranger{t, c}
				x.do(s)
				for s.hear().Kind != "" { // until it has left
				}
				s.Close()
			}()
			r, err := Check(t.Context(), l.Addr().String(), Options{Rail: e.Node(0), Credentials: known(t), Timeout: patience})
			failed(t, outcome{r, err}, x.step, x.class)
			if s := show(r); strings.ContainsAny(s, "\x1b\x00") {
				t.Errorf("not plain: %q", s)
			}
			l.Close()
			<-done
		})
	}
}

// TestSilentListener: one that proves itself and says nothing more is given up at the
// deadline of the step.
func TestSilentListener(t *testing.T) {
	nothingLeft(t)
	e := embedded(t, transfer.EmbeddedOptions{})
	l, err := control.Listen(t.Context(), "127.0.0.1:0", known(t), control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Rail: e.Node(0), Credentials: known(t), limit: func(n Name) time.Duration {
		if n == StepMatch {
			return 200 * time.Millisecond
		}
		return patience
	}}
	r, err := Check(t.Context(), l.Addr().String(), o)
	failed(t, outcome{r, err}, StepMatch, ErrTimeout)
	l.Close()
}

// TestHostileDialler: whoever proves itself and then does what none should ends its own
// test; the next is served.
func TestHostileDialler(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	l := listener(t, "127.0.0.1:0", p.there)
	hello := func(s *stranger) {
		s.say(message{Kind: kindHello, NIC: nic(p.nodes), Seed: 1})
		s.hear()
	}
	for name, x := range map[string]struct {
		do    func(s *stranger)
		step  Name
		class error
	}{
		"garbage":         {func(s *stranger) { s.Send(typeMessage, []byte("{}")) }, StepMatch, ErrProtocol},
		"another version": {func(s *stranger) { s.Send(typeMessage, []byte(`{"protocol":99}`)) }, StepMatch, exchange.ErrVersion},
		"gone":            {func(s *stranger) {}, StepMatch, control.ErrLeft},
		"hello and gone":  {hello, StepMTU, control.ErrLeft},
		"begins late":     {func(s *stranger) { hello(s); s.say(message{Kind: kindBegin, Step: StepSmall}); s.hear() }, StepMTU, ErrProtocol},
		"bye at once":     {func(s *stranger) { hello(s); s.say(message{Kind: kindBye}); s.hear() }, StepMTU, ErrProtocol},
		"a step in a step": {func(s *stranger) {
			hello(s)
			s.say(message{Kind: kindBegin, Step: StepMTU})
			s.hear()
			s.say(message{Kind: kindBegin, Step: StepKeys})
			s.hear()
		}, StepMTU, ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			got := receive(context.Background(), l)
			c, err := control.Dial(t.Context(), l.Addr().String(), known(t), control.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x.do(&stranger{t, c})
			c.Close()
			o := within(t, time.Minute, got)
			failed(t, o, x.step, x.class)
		})
	}
	got := receive(context.Background(), l)
	if r, err := Check(t.Context(), l.Addr().String(), p.here); err != nil {
		t.Errorf("one who is well, afterwards: %v\n%s", err, show(r))
	}
	if o := within(t, time.Minute, got); o.err != nil {
		t.Error(o.err)
	}
}
