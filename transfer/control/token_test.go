package control

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// thief is a TLS endpoint that speaks the protocol of tokens and knows none.
func thief(k *shared) *tls.Config {
	public := must(unnamed())
	return &tls.Config{Certificates: []tls.Certificate{public}, NextProtos: []string{k.protocol()}, InsecureSkipVerify: true}
}

// client does by hand what a dialler does up to the hello, and no more.
func client(t *testing.T, l *Listener, c Credentials) *tls.Conn {
	t.Helper()
	k := c.kind.(*shared)
	tc := must(tls.Dial("tcp", l.Addr().String(), thief(k)))
	if err := k.prove(tc, dialler); err != nil {
		t.Fatal(err)
	}
	return tc
}

// stolen lures a dialler to a listener that is none, and gives the proof that
// it showed there.
func stolen(t *testing.T, c Credentials) []byte {
	t.Helper()
	nl := must(net.Listen("tcp", "127.0.0.1:0"))
	defer nl.Close()
	proof := make(chan []byte, 1)
	go func() {
		nc := must(nl.Accept())
		defer nc.Close()
		b := make([]byte, proofSize)
		if _, err := io.ReadFull(tls.Server(nc, thief(c.kind.(*shared))), b); err != nil {
			t.Error(err)
		}
		proof <- b
	}()
	_, err := Dial(soon(t), nl.Addr().String(), c, Options{})
	wants(t, err, ErrPermission, "tokens differ, or someone is between")
	return <-proof
}

// A proof that was seen on one connection is worth nothing on another, nor are a
// listener's sent back, nor guesses; who shows them is told nothing.
func TestProofsOfOthers(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	stranger := must(Token("another secret of that length"))
	k := secret.kind.(*shared)
	for name, proof := range map[string]func(tc *tls.Conn) []byte{
		"stolen": func(*tls.Conn) []byte { return stolen(t, secret) },
		"zeros":  func(*tls.Conn) []byte { return make([]byte, proofSize) },
		"another token's": func(tc *tls.Conn) []byte {
			state := tc.ConnectionState()
			return stranger.kind.(*shared).proof(dialler, must(state.ExportKeyingMaterial(proofLabel, nil, proofSize)))
		},
		// As if a listener's could be had first, and were sent back to it.
		"the listener's own": func(tc *tls.Conn) []byte {
			state := tc.ConnectionState()
			return k.proof(listener, must(state.ExportKeyingMaterial(proofLabel, nil, proofSize)))
		},
		"of other material": func(tc *tls.Conn) []byte {
			state := tc.ConnectionState()
			return k.proof(dialler, must(state.ExportKeyingMaterial("EXPORTER-other", nil, proofSize)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			l := listen(t, secret, Options{})
			tc := must(tls.Dial("tcp", l.Addr().String(), thief(k)))
			defer tc.Close()
			tc.Write(append(proof(tc), appendHello(nil, time.Second)...))
			// What is read is nothing at all, above TLS.
			if b, err := io.ReadAll(tc); len(b) != 0 {
				t.Errorf("was told %q, %v", b, err)
			}
			eventually(t, "counted", func() bool { return l.Stats().Refused == 1 })
			wants(t, l.Stats().Last, ErrPermission, "does not know the token")
			if s := l.Stats(); s.Proved != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	// The same by hand with the right proof is let in: the test is one of proofs.
	l := listen(t, secret, Options{})
	tc := client(t, l, secret)
	defer tc.Close()
	must(greet(tc, time.Second))
	must(l.Accept(soon(t))).Close()
}

// A listener that does not know the token cannot pass for one: it is found out
// before anything but the proof is said to it.
func TestImpostor(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	nl := must(net.Listen("tcp", "127.0.0.1:0"))
	defer nl.Close()
	said := make(chan int, 1)
	go func() {
		nc := must(nl.Accept())
		defer nc.Close()
		tc := tls.Server(nc, thief(secret.kind.(*shared)))
		tc.Write(make([]byte, proofSize))
		b, _ := io.ReadAll(tc)
		said <- len(b)
	}()
	_, err := Dial(soon(t), nl.Addr().String(), secret, Options{})
	wants(t, err, ErrPermission, "the listener does not know the token")
	if n := <-said; n != proofSize {
		t.Errorf("it was told %d bytes, the proof has %d", n, proofSize)
	}
}

// One who ends TLS towards both sides, and passes on all that they say, is found
// out by both, because the proofs are bound to two different connections.
func TestManInTheMiddle(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	l := listen(t, secret, Options{})
	config := thief(secret.kind.(*shared))
	nl := must(net.Listen("tcp", "127.0.0.1:0"))
	var running sync.WaitGroup
	running.Go(func() {
		nc := must(nl.Accept())
		near := tls.Server(nc, config)
		far, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			t.Error(err)
			nc.Close()
			return
		}
		running.Go(func() { io.Copy(far, near); far.Close() })
		io.Copy(near, far)
		near.Close()
	})
	_, err := Dial(soon(t), nl.Addr().String(), secret, Options{})
	wants(t, err, ErrPermission, "someone is between them")
	eventually(t, "counted", func() bool { return l.Stats().Refused == 1 })
	wants(t, l.Stats().Last, ErrPermission, "does not know the token")
	nl.Close()
	running.Wait()
}
