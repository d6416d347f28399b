package lab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ether makes a frame as it goes over a port.
func ether(to, from byte, payload string) []byte {
	frame := []byte{0, 0, 0, 0, 0x52, 0, 0, 0, 0, to, 0x52, 0, 0, 0, 0, from, 8, 0}
	if to == 0xff {
		copy(frame[4:10], "\xff\xff\xff\xff\xff\xff")
	}
	frame = append(frame, payload...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// plug connects n guests to a switch and waits until it has them.
func plug(t *testing.T, n int) (s *etherSwitch, guests []net.Conn, served []chan error) {
	s = newEtherSwitch()
	var all sync.WaitGroup
	for range n {
		ours, theirs := net.Pipe()
		done := make(chan error, 1)
		all.Go(func() {
			_, err := s.serve(theirs)
			done <- err
		})
		guests, served = append(guests, ours), append(served, done)
	}
	t.Cleanup(func() {
		for _, g := range guests {
			g.Close()
		}
		all.Wait()
	})
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		have := len(s.ports)
		s.mu.Unlock()
		if have == n {
			return s, guests, served
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d ports", have, n)
		}
	}
}

func expect(t *testing.T, guest net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	guest.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(guest, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %x, %v; want %x", got, err, want)
	}
}

func expectNothing(t *testing.T, guest net.Conn) {
	t.Helper()
	guest.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := guest.Read(make([]byte, 1)); n != 0 {
		t.Fatalf("got a byte, %v", err)
	}
}

func TestSwitchLearns(t *testing.T) {
	_, g, _ := plug(t, 3)
	hello := ether(0xff, 1, "who has")
	g[0].Write(hello)
	expect(t, g[1], hello)
	expect(t, g[2], hello)
	expectNothing(t, g[0]) // not back to where it came from

	answer := ether(1, 2, "I have")
	g[1].Write(answer)
	expect(t, g[0], answer)
	expectNothing(t, g[2]) // known by now

	unknown := ether(9, 1, "anyone")
	g[0].Write(unknown)
	expect(t, g[1], unknown)
	expect(t, g[2], unknown)
}

func TestSwitchCutsGarbage(t *testing.T) {
	s, g, served := plug(t, 3)
	g[0].Write([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	select {
	case err := <-served[0]:
		if err == nil {
			t.Error("garbage is no orderly end")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the port is still served")
	}
	// Runts are dropped, and the others go on.
	g[1].Write([]byte{0, 0, 0, 0})
	g[1].Write([]byte{0, 0, 0, 2, 1, 2})
	frame := ether(0xff, 2, "still here")
	g[1].Write(frame)
	expect(t, g[2], frame)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ports) != 2 {
		t.Errorf("%d ports", len(s.ports))
	}
}

// A guest that takes nothing must not stop the others.
func TestSwitchSlowGuest(t *testing.T) {
	s, g, _ := plug(t, 3)
	frame := ether(0xff, 1, "flood")
	var reader sync.WaitGroup
	var read atomic.Int64
	const frames = 3 * portQueue // more than a port's queue and buffer hold
	reader.Go(func() {
		defer read.Store(frames)
		for range frames {
			expect(t, g[1], frame)
			read.Add(1)
		}
	})
	for i := range int64(frames) {
		g[0].Write(frame)
		for i-read.Load() > portQueue/2 {
			time.Sleep(time.Millisecond) // g[1] is not the slow one
		}
	}
	reader.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := 0
	for _, p := range s.ports {
		dropped += p.dropped
	}
	if dropped == 0 {
		t.Error("a queue without end")
	}
}

func TestSwitchForgets(t *testing.T) {
	s, g, served := plug(t, 2)
	for i := range 2 * maxSeen {
		frame := ether(9, 1, "x")
		frame[12], frame[13] = byte(i>>8), byte(i) // another source each
		frame[10] = 0x52
		g[0].Write(frame)
		expect(t, g[1], frame)
	}
	s.mu.Lock()
	if len(s.seen) > maxSeen {
		t.Errorf("%d addresses", len(s.seen))
	}
	s.mu.Unlock()
	g[0].Close()
	if err := <-served[0]; err != nil {
		t.Errorf("an orderly end: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) != 0 {
		t.Errorf("%d addresses of a port that is gone", len(s.seen))
	}
}

func FuzzReadEther(f *testing.F) {
	f.Add(ether(1, 2, "hello"))
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		s := newEtherSwitch()
		from, to := &switchPort{out: make(chan []byte, 1)}, &switchPort{out: make(chan []byte, 1)}
		s.ports = []*switchPort{from, to}
		r := bufio.NewReader(bytes.NewReader(stream))
		for n := 0; ; {
			frame, err := readEther(r)
			if err != nil {
				return
			}
			// What is passed on is what came in, length and all.
			if !bytes.Equal(frame, stream[n:n+len(frame)]) || binary.BigEndian.Uint32(frame) != uint32(len(frame)-4) {
				t.Fatalf("%x out of %x", frame, stream)
			}
			n += len(frame)
			s.forward(from, frame)
		}
	})
}
