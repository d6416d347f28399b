//go:build lab

// Run inside a guest of the lab, where PEERDIRECT_DEVICE is rxe0 or siw0, or in
// two of them:
//
//	go test -c -tags lab -o DIR/exchange.test ./verbs/exchange
//	cd DIR && peerdirect lab run --link siw -- exchange.test -test.v -test.run Lab
//	cd DIR && peerdirect lab run --link siw --nodes 2 -- exchange.test -test.v -test.run LabTwoNodes
package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

func TestLabConnectRC(t *testing.T) {
	device, addr := guest(t)
	for _, n := range []int{4, 0, 64} {
		t.Run(fmt.Sprintf("%d queue pairs", n), func(t *testing.T) {
			nothingLeft(t, device)
			ctx := within(t, time.Minute)
			a, b := talk(t, ctx, addr)
			x, y := newStation(t, device, n), newStation(t, device, n)
			start := time.Now()
			la, lb, ea, eb := connectBoth(ctx, a, b, x, y)
			if ea != nil || eb != nil {
				t.Fatal(ea, eb)
			}
			t.Logf("%v (%s) in %v", x.dev.Transport(), device, time.Since(start))
			for i := range n {
				move(t, ctx, x, y, i)
				move(t, ctx, y, x, i)
			}
			if err := errors.Join(la.Err(), lb.Err()); err != nil {
				t.Error(err)
			}
			// The conversation goes on after it.
			if err := a.Send(ctx, TypeUser, 1); err != nil {
				t.Error(err)
			}
			if err := b.Receive(ctx, TypeUser, nil); err != nil {
				t.Error(err)
			}
			closeQPs(t, x, la)
			closeQPs(t, y, lb)
		})
	}
}

func TestLabCountsDiffer(t *testing.T) {
	device, addr := guest(t)
	nothingLeft(t, device)
	ctx := within(t, time.Minute)
	a, b := talk(t, ctx, addr)
	x, y := newStation(t, device, 2), newStation(t, device, 3)
	_, _, ea, eb := connectBoth(ctx, a, b, x, y)
	for _, err := range []error{ea, eb} {
		if err == nil || !strings.Contains(err.Error(), "queue pairs") {
			t.Errorf("error %v", err)
		}
	}
	t.Log(ea)
	t.Log(eb)
}

// A peer that goes in the middle ends the other side long before its deadline.
func TestLabPeerGoes(t *testing.T) {
	device, addr := guest(t)
	for _, role := range []string{"dialer", "acceptor"} {
		t.Run(role+" goes", func(t *testing.T) {
			nothingLeft(t, device)
			ctx := within(t, time.Minute)
			goes, stays := talk(t, ctx, addr)
			if role == "acceptor" {
				goes, stays = stays, goes
			}
			x, y := newStation(t, device, 2), newStation(t, device, 2)
			own, err := MakeOffer(x.qps)
			if err != nil {
				t.Fatal(err)
			}
			if err := goes.Send(ctx, typeEndpoints, own); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(200*time.Millisecond, func() { goes.Close() })
			start := time.Now()
			_, err = ConnectRC(ctx, stays, y.qps, Options{})
			wants(t, err, ErrGone, stays.Peer())
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			t.Log(err)
		})
	}
}

// One side cannot: both are told why.
func TestLabOneSideFails(t *testing.T) {
	device, addr := guest(t)
	nothingLeft(t, device)
	ctx := within(t, time.Minute)
	a, b := talk(t, ctx, addr)
	x, y := newStation(t, device, 2), newStation(t, device, 2)
	var ea, eb error
	var wg sync.WaitGroup
	if x.dev.Transport() == verbs.TransportIWARP {
		// An address that the device does not have.
		wg.Go(func() { _, ea = ConnectRC(ctx, a, x.qps, Options{}) })
		wg.Go(func() { _, eb = ConnectRC(ctx, b, y.qps, Options{Address: netip.MustParseAddr("203.0.113.1")}) })
	} else {
		// A queue pair that is not in INIT.
		if err := y.qps[1].Reset(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _, ea = ConnectRC(ctx, a, x.qps, Options{}) })
		wg.Go(func() { _, eb = ConnectRC(ctx, b, y.qps, Options{}) })
	}
	wg.Wait()
	var remote *RemoteError
	if eb == nil || errors.As(eb, &remote) || !errors.As(ea, &remote) {
		t.Errorf("errors %v and %v", ea, eb)
	}
	t.Log(ea)
	t.Log(eb)
}

// Two devices on one interface share its address, and two of different
// transports cannot be connected.
func TestLabTwoDevices(t *testing.T) {
	device, addr := guest(t)
	kind, module := "rxe", "rdma_rxe"
	if strings.HasPrefix(device, "rxe") {
		kind, module = "siw", "siw"
	}
	if out, err := exec.Command("modprobe", module).CombinedOutput(); err != nil {
		t.Skipf("modprobe %s: %v: %s", module, err, out)
	}
	c := must(nldev.Open())
	defer c.Close()
	other := "second"
	if err := c.AddLink(t.Context(), other, kind, netdevOf(t, addr)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.DelLink(context.Background(), other); err != nil {
			t.Error(err)
		}
	}()
	t.Run("mixed", func(t *testing.T) {
		nothingLeft(t, device)
		ctx := within(t, time.Minute)
		a, b := talk(t, ctx, addr)
		_, _, ea, eb := connectBoth(ctx, a, b, newStation(t, device, 1), newStation(t, other, 1))
		for _, err := range []error{ea, eb} {
			if err == nil || !strings.Contains(err.Error(), "choose devices of one transport") {
				t.Errorf("error %v", err)
			}
		}
		t.Log(ea)
		t.Log(eb)
	})
	for _, name := range []string{device, other} {
		t.Run("same interface "+name, func(t *testing.T) {
			nothingLeft(t, name)
			ctx := within(t, time.Minute)
			a, b := talk(t, ctx, addr)
			x, y := newStation(t, name, 1), newStation(t, name, 1)
			la, lb, ea, eb := connectBoth(ctx, a, b, x, y)
			if ea == nil && eb == nil {
				move(t, ctx, x, y, 0)
				closeQPs(t, x, la)
				closeQPs(t, y, lb)
				return
			}
			for _, err := range []error{ea, eb} {
				if err == nil || !strings.Contains(err.Error(), "keep one RDMA device an interface") {
					t.Errorf("error %v", err)
				}
			}
			t.Log(ea)
			t.Log(eb)
		})
	}
}

func netdevOf(t *testing.T, addr netip.Addr) string {
	t.Helper()
	for _, ifi := range must(net.Interfaces()) {
		for _, a := range must(ifi.Addrs()) {
			if p, ok := prefixOf(a); ok && p.Addr() == addr {
				return ifi.Name
			}
		}
	}
	t.Fatalf("no interface has %v", addr)
	return ""
}

const twoNodesPort = 18515

// Two guests: node 0 listens.
func TestTwoNodes(t *testing.T) {
	device, _ := guest(t)
	peers := os.Getenv("PEERDIRECT_PEERS")
	if peers == "" {
		t.Skip("one node: run with --nodes 2")
	}
	nothingLeft(t, device)
	ctx := within(t, 2*time.Minute)
	s := newStation(t, device, 4)
	hello := Hello{Program: "exchange.test", Purpose: "lab"}
	var c *Conn
	first := os.Getenv("PEERDIRECT_NODE") == os.Getenv("PEERDIRECT_FIRST") || os.Getenv("PEERDIRECT_NODE") == "0"
	if first {
		l, err := Listen(ctx, fmt.Sprintf("0.0.0.0:%d", twoNodesPort))
		if err != nil {
			t.Fatal(err)
		}
		c, err = l.Accept(ctx)
		l.Close()
		if err != nil {
			t.Fatal(err)
		}
	} else {
		peer, _, _ := strings.Cut(strings.Fields(strings.ReplaceAll(peers, ",", " "))[0], "/")
		var err error
		c, err = DialOptions{Window: time.Minute}.Dial(ctx, net.JoinHostPort(peer, fmt.Sprint(twoNodesPort)))
		if err != nil {
			t.Fatal(err)
		}
	}
	defer c.Close()
	if _, err := c.Greet(ctx, hello); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	link, err := ConnectRC(ctx, c, s.qps, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v connected in %v", s.dev.Transport(), time.Since(start))
	// Each tells its region and that its receives are posted, writes and sends.
	for i, qp := range s.qps {
		recv := qp.RecvBatch()
		recv.Recv(s.mr.At(pieceSize, pieceSize), uint64(i))
		if err := recv.Post(); err != nil {
			t.Fatal(err)
		}
		recv.Close()
	}
	var theirs verbs.RemoteRegion
	if err := c.Send(ctx, TypeUser, s.mr.Remote()); err != nil {
		t.Fatal(err)
	}
	if err := c.Receive(ctx, TypeUser, &theirs); err != nil {
		t.Fatal(err)
	}
	mem := s.buf.Bytes()
	copy(mem, bytes.Repeat([]byte{0x5a}, pieceSize))
	for i, qp := range s.qps {
		send := qp.Batch()
		send.Write(s.mr.At(0, pieceSize), theirs.At(2*pieceSize), 10+uint64(i))
		send.Send(s.mr.At(0, pieceSize), 20+uint64(i))
		if err := send.Post(); err != nil {
			t.Fatal(err)
		}
		send.Close()
	}
	s.await(t, ctx, 3*len(s.qps))
	if !bytes.Equal(mem[:pieceSize], mem[pieceSize:2*pieceSize]) || !bytes.Equal(mem[:pieceSize], mem[2*pieceSize:3*pieceSize]) {
		t.Error("what arrived is not what was sent")
	}
	if err := c.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	closeQPs(t, s, link)

	// A machine that is lost without a word: node 1 takes its interface down.
	if first {
		err := c.Receive(ctx, TypeUser, nil)
		wants(t, err, ErrGone, c.Peer())
		var errno syscall.Errno
		t.Logf("%v (errno %v)", err, errors.As(err, &errno))
		return
	}
	_, addr := guest(t)
	dev := netdevOf(t, addr)
	if out, err := exec.Command("ip", "link", "set", dev, "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	begun := time.Now()
	watched, stop := c.Watch(ctx)
	defer stop()
	<-watched.Done()
	wants(t, context.Cause(watched), ErrGone)
	t.Logf("noticed after %v: %v", time.Since(begun), context.Cause(watched))
	if took := time.Since(begun); took > 3*DefaultPeerTimeout {
		t.Errorf("took %v", took)
	}
}
