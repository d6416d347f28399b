package control

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Messages of all sizes in both directions at once, from several goroutines.
func TestMessages(t *testing.T) {
	noLeaks(t)
	d, a := pair(t, Options{Queue: 64 << 20}, Options{Queue: 64 << 20})
	const senders, each = 3, 60
	sizes := []int{8, 9, 1000, readSize - headerSize, readSize, 100_000, MaxPayload - 1, MaxPayload}
	var running sync.WaitGroup
	for _, side := range [][2]*Conn{{d, a}, {a, d}} {
		from, to := side[0], side[1]
		for s := range senders {
			running.Go(func() {
				random := rand.New(rand.NewPCG(uint64(s), 7))
				for i := range each {
					size := 8 + random.IntN(300)
					if i < len(sizes) {
						size = sizes[i]
					}
					p := bytes.Repeat([]byte{byte(s), byte(i)}, size/2+1)[:size]
					binary.BigEndian.PutUint32(p, uint32(i))
					binary.BigEndian.PutUint32(p[4:], uint32(size))
					if err := from.Send(TypeUser+Type(s), p); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		running.Go(func() {
			var next [senders]uint32
			for range senders * each {
				typ, p, err := to.Receive(soon(t))
				if err != nil {
					t.Error(err)
					return
				}
				s := byte(typ - TypeUser)
				i := binary.BigEndian.Uint32(p)
				if i != next[s] {
					t.Errorf("sender %d: message %d where %d was due", s, i, next[s])
					return
				}
				next[s]++
				if want := int(binary.BigEndian.Uint32(p[4:])); len(p) != want {
					t.Errorf("%d bytes, want %d", len(p), want)
				}
				if filler := bytes.Repeat([]byte{s, byte(i)}, len(p)/2+1); !bytes.Equal(p[8:], filler[8:len(p)]) {
					t.Errorf("message %d of sender %d has other bytes", i, s)
				}
			}
		})
	}
	running.Wait()
	wants(t, d.Send(TypeUser-1, nil), ErrUsage, "type 15", "type 16")
	wants(t, d.Send(TypeUser, make([]byte, MaxPayload+1)), ErrUsage, "1048577 bytes", "1048576")
	if d.Err() != nil || a.Err() != nil {
		t.Error(d.Err(), a.Err())
	}
}

func TestReceiveEndsWithItsContextOnly(t *testing.T) {
	noLeaks(t)
	d, a := pair(t, Options{}, Options{})
	_, _, err := d.Receive(within(t, 5*time.Millisecond))
	wants(t, err, context.DeadlineExceeded, "receive from token at", "no message came")
	a.Send(TypeUser+65519, nil)
	if typ, p, err := d.Receive(soon(t)); typ != 65535 || len(p) != 0 || err != nil {
		t.Error(typ, p, err)
	}
	a.Send(TypeUser, []byte("x"))
	if typ, p, err := d.Receive(soon(t)); typ != TypeUser || string(p) != "x" || err != nil {
		t.Error(typ, p, err)
	}
}

// Who leaves is told apart from who is lost, and all that was said before comes.
func TestLeave(t *testing.T) {
	noLeaks(t)
	for range 50 {
		d, a := pair(t, Options{}, Options{})
		for i := range 3 {
			d.Send(TypeUser, []byte{byte(i)})
		}
		a.Send(TypeUser, nil) // nobody reads it
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		<-a.Done()
		for i := range 3 {
			if _, p, err := a.Receive(soon(t)); err != nil || p[0] != byte(i) {
				t.Fatal(i, p, err)
			}
		}
		_, _, err := a.Receive(soon(t))
		wants(t, err, ErrLeft, "control connection with token at", "closed its side")
		wants(t, a.Send(TypeUser, nil), ErrLeft)
		wants(t, a.Err(), ErrLeft)
		_, _, err = d.Receive(soon(t))
		wants(t, err, ErrClosed, "closed by this side")
		wants(t, d.Send(TypeUser, nil), ErrClosed)
		wants(t, d.Err(), ErrClosed)
		a.Close()
		wants(t, a.Err(), ErrLeft) // once, the first cause
	}
}

func TestBothLeave(t *testing.T) {
	noLeaks(t)
	for range 50 {
		d, a := pair(t, Options{}, Options{})
		var both sync.WaitGroup
		both.Go(func() { d.Close() })
		both.Go(func() { a.Close(); a.Close() })
		both.Wait()
		for _, c := range []*Conn{d, a} {
			if err := c.Err().(*Error).Err; err != ErrClosed && err != ErrLeft {
				t.Error(err)
			}
		}
	}
}

// A peer whose connection is cut, at each side.
func TestCut(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	l := listen(t, secret, Options{})
	w := wire(t, l.Addr().String())
	d, a := join(t, l, w.addr(), secret, Options{})
	w.cut()
	for _, c := range []*Conn{d, a} {
		<-c.Done()
		wants(t, c.Err(), ErrGone, "without a word", c.RemoteAddr().String())
		_, _, err := c.Receive(soon(t))
		wants(t, err, ErrGone)
	}
}

// A network, or a process, that takes all and answers nothing.
func TestSilence(t *testing.T) {
	noLeaks(t)
	secret := token(t)
	o := Options{Heartbeat: 20 * time.Millisecond, Lease: 2 * time.Second}
	l := listen(t, secret, o)
	w := wire(t, l.Addr().String())
	d, a := join(t, l, w.addr(), secret, o)
	// Nothing is sent, and yet both live: for longer than a lease.
	select {
	case <-d.Done():
	case <-a.Done():
	case <-time.After(3 * o.Lease / 2):
	}
	if d.Err() != nil || a.Err() != nil {
		t.Fatal(d.Err(), a.Err())
	}
	w.swallow()
	for _, c := range []*Conn{d, a} {
		<-c.Done()
		wants(t, c.Err(), ErrGone, "nothing came from it for", "stopped or cut off")
	}
}

// A side whose heartbeat is slow pings often enough for the peer's lease.
func TestLeaseOfThePeer(t *testing.T) {
	noLeaks(t)
	d, a := pair(t, Options{Heartbeat: time.Hour, Lease: time.Hour}, Options{Lease: 2 * time.Second})
	select {
	case <-a.Done():
		t.Error(a.Err())
	case <-d.Done():
		t.Error(d.Err())
	case <-time.After(3 * time.Second):
	}
}

// A side that does not receive for many leases loses nothing: the silence is its
// own. Then the queue to it fills, and that is the end.
func TestSlow(t *testing.T) {
	noLeaks(t)
	o := Options{Heartbeat: 20 * time.Millisecond, Lease: 4 * time.Second, Queue: 64 << 10} // longer than a busy machine leaves one side alone
	d, a := pair(t, o, o)
	p := make([]byte, 32<<10)
	sent := 0
	for ; ; sent++ {
		if err := d.Send(TypeUser, p); err != nil {
			wants(t, err, ErrSlow, "does not read", "bytes wait for it")
			break
		}
		if sent > 10_000 {
			t.Fatal("no end to it")
		}
	}
	wants(t, d.Err(), ErrSlow)
	// What it has got of it, it still receives; then it learns.
	for n := 0; ; n++ {
		_, got, err := a.Receive(soon(t))
		if err != nil {
			wants(t, err, ErrGone, "given this side up")
			break
		}
		if len(got) != len(p) || n > sent {
			t.Fatal(n, len(got))
		}
	}
}

// tooMuch is how many of the longest messages the kernel does not take for a
// reader that does not read.
const tooMuch = 12

// The same without the queue becoming full: what was sent is not taken.
func TestStuck(t *testing.T) {
	noLeaks(t)
	slow := Options{Heartbeat: 10 * time.Millisecond, Queue: 64 << 10}
	// The lease is long for the sake of machines on which a may have no turn for a second.
	d, a := pair(t, Options{Lease: 4 * time.Second, Queue: 64 << 20}, slow)
	p := make([]byte, MaxPayload)
	for range tooMuch {
		d.Send(TypeUser, p)
	}
	<-d.Done()
	wants(t, d.Err(), ErrSlow, "took no bytes for 8s")
	if err := a.Close(); err != nil { // whose reader waits for Receive
		t.Error(err)
	}
}

// Close does not wait for a peer that takes nothing.
func TestCloseIsBounded(t *testing.T) {
	noLeaks(t)
	d, a := pair(t, Options{Queue: 64 << 20}, Options{Queue: 64 << 10})
	p := make([]byte, MaxPayload)
	for range tooMuch {
		d.Send(TypeUser, p)
	}
	begin := time.Now()
	d.Close()
	if took := time.Since(begin); took > 10*time.Second {
		t.Error(took)
	}
	a.Close()
}

// A reader that is stuck for longer than a lease because nobody receives holds nothing
// against the peer.
func TestOwnSilence(t *testing.T) {
	noLeaks(t)
	o := Options{Heartbeat: 10 * time.Millisecond, Lease: 2 * time.Second, Queue: 1 << 10}
	d, a := pair(t, Options{Heartbeat: 10 * time.Millisecond}, o)
	for i := range 20 {
		d.Send(TypeUser, fmt.Append(make([]byte, 256), i))
	}
	time.Sleep(5 * o.Lease / 2)
	for i := range 20 {
		if _, p, err := a.Receive(soon(t)); err != nil || string(p[256:]) != fmt.Sprint(i) {
			t.Fatal(i, err)
		}
	}
	if a.Err() != nil || d.Err() != nil {
		t.Error(a.Err(), d.Err())
	}
}
