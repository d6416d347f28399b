package exchange

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/freeport"
)

func TestListen(t *testing.T) {
	l := listen(t)
	if a := l.Addr().(*net.TCPAddr); !a.IP.IsLoopback() {
		t.Errorf("bound to %v", a)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err := Listen(t.Context(), ":"+port)
	wants(t, err, syscall.EADDRINUSE, "port "+port, "ss -ltnp", "another port")
	_, err = Listen(t.Context(), "203.0.113.7:0")
	wants(t, err, syscall.EADDRNOTAVAIL, "203.0.113.7:0", "ip addr")
	for _, bad := range []string{"", "host", "::1:5:6", "[::1"} {
		_, err = Listen(t.Context(), bad)
		wants(t, err, ErrUsage, "HOST:PORT")
		_, err = Dial(t.Context(), bad)
		wants(t, err, ErrUsage, "HOST:PORT")
	}
}

func TestDial(t *testing.T) {
	noLeaks(t)
	addr := freeport.Addr(freeport.TCP(t))

	waiting := 0
	o := DialOptions{Window: 500 * time.Millisecond, Waiting: func(error) { waiting++ }}
	start := time.Now()
	_, err := o.Dial(t.Context(), addr)
	wants(t, err, syscall.ECONNREFUSED, addr, "tried", "is the other side started")
	if took := time.Since(start); took < o.Window || took > o.Window+2*time.Second || waiting != 1 {
		t.Errorf("took %v, said so %d times", took, waiting)
	}
	_, err = Dial(within(t, 500*time.Millisecond), addr) // in which it is refused once
	wants(t, err, syscall.ECONNREFUSED, addr, "tried")
	cancelled, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = Dial(cancelled, addr)
	wants(t, err, context.Canceled, addr)

	// A listener that comes later is found.
	late := make(chan *Listener, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		late <- must(Listen(context.Background(), addr))
	}()
	c, err := Dial(t.Context(), addr)
	l := <-late
	if err != nil {
		t.Fatal(err)
	}
	must(l.Accept(t.Context())).Close()
	c.Close()
	l.Close()
}
