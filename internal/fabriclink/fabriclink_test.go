package fabriclink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// linkType is whatever the two sides agree on.
const linkType = control.TypeUser + 7

// TestOnlyThePeerIsLinked: who does not know the token is sent away, and keeps the
// peer from nothing.
func TestOnlyThePeerIsLinked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	credentials, err := control.Token(rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	l, err := control.Listen(ctx, "127.0.0.1:0", credentials, control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialler, err := control.Dial(ctx, l.Addr().String(), credentials, control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dialler.Close()
	acceptor, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer acceptor.Close()
	got := make(chan net.Conn, 1)
	go func() {
		conn, err := accept(ctx, acceptor, linkType)
		if err != nil {
			t.Error(err)
		}
		got <- conn
	}()
	kind, b, err := dialler.Receive(ctx)
	offer, wrong := readOffer(b)
	if err != nil || kind != linkType || wrong != nil {
		t.Fatalf("%v %v %q", err, kind, b)
	}
	for _, say := range []string{rand.Text(), "short", "", offer.Token} {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", offer.Port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write([]byte(say))
		if say == offer.Token {
			if c := <-got; c != nil {
				if c.RemoteAddr().String() != conn.LocalAddr().String() {
					t.Errorf("%v was linked, not %v", c.RemoteAddr(), conn.LocalAddr())
				}
				c.Close()
			}
			continue
		}
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: %v", say, err)
		}
	}
}

func FuzzOffer(f *testing.F) {
	f.Add([]byte(`{"port":9,"token":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}`))
	f.Add([]byte(`{"port":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := readOffer(b); err == nil && (len(o.Token) != tokenSize || o.Port == 0) {
			t.Errorf("%q is %+v", b, o)
		}
	})
}
