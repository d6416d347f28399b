package transfer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// TestALinkedPeerIsShutOut: embedded devices of two fabrics, as of two
// processes. One floods the other, which disconnects it; then they connect anew.
func TestALinkedPeerIsShutOut(t *testing.T) {
	fabrics := [2]*Embedded{embedded(t, EmbeddedOptions{Nodes: 1}), embedded(t, EmbeddedOptions{Nodes: 1})}
	var rails [2]Rail
	var mem [2][]byte
	var region [2]*Region
	for i := range rails {
		var err error
		if rails[i], err = fabrics[i].Node(0).Open(Want{}); err != nil {
			t.Fatal(err)
		}
		defer rails[i].Close()
		mem[i] = make([]byte, 1<<20)
		if region[i], err = rails[i].Register(mem[i]); err != nil {
			t.Fatal(err)
		}
	}
	link(t, fabrics)
	for round := range byte(4) {
		peers := ConnectRails(t, rails[0], rails[1])
		clear(mem[1])
		for i := range mem[0] {
			mem[0][i] = round + 1
		}
		posted, back := 0, 0
		step := func(post bool) {
			t.Helper()
			for post {
				n, err := rails[0].Post([]Op{{Kind: OpWrite, Peer: peers[0], Local: region[0].At(0, 8192), Remote: region[1].Descriptor().At(uint64(posted) * 8192 % (1 << 20))}})
				if err != nil {
					t.Fatal(err)
				}
				if posted += n; n == 0 || posted-back >= 64 {
					break
				}
			}
			var got [32]Completion
			n, err := rails[0].Poll(got[:])
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got[:n] {
				if c.Kind != Lost {
					back++
				}
			}
		}
		for end := time.Now().Add(20 * time.Second); back < 4; step(true) {
			if time.Now().After(end) {
				t.Fatal("no write is done")
			}
		}
		step(true)
		if err := rails[1].Disconnect(peers[1]); err != nil {
			t.Fatal(err)
		}
		then := bytes.Clone(mem[1])
		for range 20 {
			step(true)
			time.Sleep(time.Millisecond)
		}
		if err := rails[0].Disconnect(peers[0]); err != nil && !errors.Is(err, ErrNotFenced) {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); back < posted; step(false) {
			if time.Now().After(end) {
				t.Fatalf("%d of %d operations have come back", back, posted)
			}
		}
		if !bytes.Equal(mem[1], then) {
			t.Fatalf("round %d: memory changed after the writer was disconnected", round)
		}
	}
}

// link joins two fabrics through a stream, as those of two processes are.
func link(t *testing.T, fabrics [2]*Embedded) {
	t.Helper()
	a, b := net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		l, err := fabrics[1].Fabric().Link(ctx, b)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		ended <- err
	}()
	l, err := fabrics[0].Fabric().Link(ctx, a)
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// TestAFabricThatNoLinkLeadsTo is refused, and says what to do.
func TestAFabricThatNoLinkLeadsTo(t *testing.T) {
	fabrics := [2]*Embedded{embedded(t, EmbeddedOptions{Nodes: 1}), embedded(t, EmbeddedOptions{Nodes: 1})}
	var rails [2]Rail
	var peers [2]Peer
	var offers [2][]byte
	for i := range rails {
		var err error
		if rails[i], err = fabrics[i].Node(0).Open(Want{}); err != nil {
			t.Fatal(err)
		}
		defer rails[i].Close()
		if peers[i], offers[i], err = rails[i].Offer(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rails[0].Accept(peers[0], offers[1]); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "device.Fabric.Link") {
		t.Errorf("%v", err)
	}
	link(t, fabrics)
	if err := rails[0].Accept(peers[0], offers[1]); err != nil {
		t.Errorf("once a link leads there: %v", err)
	}
	if fabrics[0].ID() == fabrics[1].ID() || EmbeddedOf(fabrics[0].Node(0)) != fabrics[0] || EmbeddedOf(NICs{EFAOptions{}}) != nil || EmbeddedOf(RCOptions{}) != nil {
		t.Error("which fabric it is")
	}
}
