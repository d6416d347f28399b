//go:build lab

package efa

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// hello is what the two nodes tell each other.
type hello struct {
	Address Address
	Region  RemoteRegion
	Step    string
}

// node is one of two machines, with the other's words.
type node struct {
	first bool
	dec   *json.Decoder
	enc   *json.Encoder
}

// meet connects the two nodes over TCP: the first listens.
func meet(t *testing.T) *node {
	t.Helper()
	addrs := strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")
	if len(addrs) != 2 {
		t.Skip("needs two machines: peerdirect lab run --nodes 2 --efa 1")
	}
	n := &node{first: os.Getenv("PEERDIRECT_NODE") == "0"}
	end := time.Now().Add(time.Minute)
	at := net.JoinHostPort(addrs[0], "18515")
	var c net.Conn
	if n.first {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		l.(*net.TCPListener).SetDeadline(end)
		if c, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	} else {
		for {
			var err error
			if c, err = net.DialTimeout("tcp", at, time.Second); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(end.Add(2 * time.Minute))
	n.dec, n.enc = json.NewDecoder(c), json.NewEncoder(c)
	return n
}

// swap tells the other node, and hears it. Both must be at the same step.
func (n *node) swap(t *testing.T, h hello) hello {
	t.Helper()
	if err := n.enc.Encode(h); err != nil {
		t.Fatal(err)
	}
	var theirs hello
	if err := n.dec.Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	if theirs.Step != h.Step {
		t.Fatalf("the other node is at %q, this one at %q", theirs.Step, h.Step)
	}
	return theirs
}

// TestTwoNodesEFA runs on both of two machines: writes, reads and messages both
// ways at once, over every path that both have.
func TestTwoNodesEFA(t *testing.T) {
	names := labDevices(t)
	n := meet(t)
	for _, o := range []OpenOptions{{}, {Library: true}} {
		t.Run(fmt.Sprintf("library %v", o.Library), func(t *testing.T) {
			dev := labDevice(t, names[0], o)
			t.Logf("path %v", dev.Path())
			if dev.Attr().Caps&(CapRead|CapWrite) != CapRead|CapWrite {
				t.Skipf("needs what the device lacks: it has %v", dev.Attr().Caps)
			}
			const size, piece = 4 << 20, 64 << 10
			s := &side{dev: dev, mem: memoryFor(t, dev, 3*size)}
			s.mr = must[*MR](t)(dev.Register(s.mem, accessOf(dev)))
			s.ep = must[*Endpoint](t)(dev.CreateSRD(SRDOptions{MaxSend: 128, MaxRecv: 128}))
			s.b, s.r = s.ep.Batch(), s.ep.RecvBatch()
			t.Cleanup(s.b.Close)
			t.Cleanup(s.r.Close)
			other := n.swap(t, hello{Address: s.ep.Address(), Region: s.remote(), Step: "address"})
			s.peer = must[*AH](t)(dev.CreateAH(other.Address.GID)).To(other.Address.QPN, other.Address.QKey)
			seed := byte(1)
			if n.first {
				seed = 2
			}
			fill(s.mem[:size], seed)
			s.receive(t, 64, 2*size, 64, 0)
			n.swap(t, hello{Step: "ready"})

			// My first part to the other's second, piece by piece.
			for off := 0; off < size; off += piece {
				s.b.Write(s.peer, s.mr.At(uint64(off), piece), other.Region.At(uint64(size+off)), uint64(off))
			}
			post(t, s.b)
			for _, c := range complete(t, s.ep, size/piece) {
				if c.Err() != nil {
					t.Fatal(c.Err())
				}
			}
			n.swap(t, hello{Step: "written"})
			want := make([]byte, size)
			fill(want, 3-seed)
			if !bytes.Equal(s.mem[size:2*size], want) {
				t.Error("what the other node wrote differs")
			}

			// The other's first part into my third, whose receives are not there yet.
			s.b.Read(s.peer, s.mr.At(2*size+64*64, 1<<20), other.Region.At(0), 1)
			post(t, s.b)
			if c := complete(t, s.ep, 1)[0]; c.Err() != nil {
				t.Fatal(c.Err())
			}
			if !bytes.Equal(s.mem[2*size+64*64:][:1<<20], want[:1<<20]) {
				t.Error("what this node read differs")
			}
			n.swap(t, hello{Step: "read"})

			for i := range uint32(32) {
				s.b.SendImm(s.peer, s.mr.At(0, 16), i, uint64(i))
				s.b.WriteImm(s.peer, s.mr.At(0, 16), other.Region.At(uint64(size)), 1000+i, uint64(i))
			}
			post(t, s.b)
			var sum uint32
			sent, received := 0, 0
			for _, c := range complete(t, s.ep, 64+64) {
				switch {
				case c.Err() != nil:
					t.Fatal(c.Err())
				case c.Op == OpRecv || c.Op == OpRecvWrite:
					received++
					sum += c.Imm
				default:
					sent++
				}
			}
			if sent != 64 || received != 64 || sum != 32*1000+2*(31*32/2) {
				t.Errorf("%d sent, %d received, immediates add up to %d", sent, received, sum)
			}
			n.swap(t, hello{Step: "done"})
		})
	}
}
