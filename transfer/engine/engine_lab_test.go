//go:build lab

package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// TestTwoNodesEngine runs on all of several machines with an RDMA device.
func TestTwoNodesEngine(t *testing.T) {
	device := os.Getenv("PEERDIRECT_DEVICE")
	switch {
	case device == "":
		t.Skip("needs a lab guest with an RDMA device: make test-lab")
	case strings.HasPrefix(device, "siw"):
		t.Skip("needs rails that come again when they have failed: iWARP acknowledges nothing, and the loss of its only rail ends the peer")
	}
	for _, queues := range []int{1, 2} { // in one order on all
		t.Run(fmt.Sprint("QueuePairs", queues), func(t *testing.T) {
			engineTogether(t, transfer.RCOptions{Device: device, SendDepth: 64, Queues: queues}, 1)
		})
	}
}

// TestTwoNodesEFAEngine is that over all EFA devices of the machines.
func TestTwoNodesEFAEngine(t *testing.T) {
	engineTogether(t, efaNICs(t), 2)
}

// efaNICs are the guest's EFA devices, under the kernel's driver.
func efaNICs(t *testing.T) transfer.Opener {
	t.Helper()
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	nics, err := transfer.Named(os.Getenv("PEERDIRECT_EFA"), transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rail, err := nics.Open(transfer.Want{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	return nics
}

func engineTogether(t *testing.T, rails transfer.Opener, workers int) {
	t.Cleanup(func() {
		if v, e := verbs.Live(), efa.Live(); len(v)+len(e) > 0 {
			t.Errorf("objects are left: %v %v", v, e)
		}
	})
	l := newLab(t)
	n := l.engineOf(rails, workers)
	n.mesh()
	begun := time.Now()
	n.exchange(6)
	t.Logf("node %d: exchanged with %d others, %v", n.me, n.n-1, time.Since(begun).Round(time.Millisecond))
	n.reads()
	n.together("exchanged")
	n.leaveAndCome(rails, workers)
	n.withdraw()
	n.together("withdrawn")
	n.railLost()
	n.together("rail lost")
	n.exchange(2)
	n.together("end")
	t.Logf("node %d: %+v", n.me, n.Stats())
}

// reads has every node read what it wrote into the others' memory.
func (n *labNode) reads() {
	n.t.Helper()
	if !n.Rails()[0].Reads {
		n.t.Log("no reads on these rails")
		return
	}
	for to, p := range n.peers {
		if to == n.me {
			continue
		}
		into := n.mem[area*n.n+area/2:][:area/2]
		clear(into)
		t, err := p.Read(n.ctx, engine.Move{Local: n.region, Remote: n.target[to],
			Segments: []engine.Segment{{Local: uint64(area*n.n + area/2), Remote: uint64(area * n.me), Length: area / 2}}})
		n.must(err)
		n.must(t.Wait(n.ctx))
		if !bytes.Equal(into, pattern(n.me, to, n.sent[to])) {
			n.t.Fatalf("node %d read from node %d what it had not written there", n.me, to)
		}
	}
}

// leaveAndCome has the last node close its engine in the middle of traffic, and
// come again as another incarnation, while the others go on.
func (n *labNode) leaveAndCome(rails transfer.Opener, workers int) {
	n.t.Helper()
	last := n.n - 1
	if n.me == last {
		stop, flood := n.flood(0)
		time.Sleep(300 * time.Millisecond)
		n.must(n.listen.Close())
		n.must(n.Close())
		stop()
		if err := <-flood; err == nil {
			n.t.Error("writes of an engine that was closed went on")
		}
		*n = *n.engineOf(rails, workers)
		for other := range last {
			n.join(other)
		}
		n.exchange(2)
		n.together("came again")
		return
	}
	stop, flood := n.flood(last)
	if n.n > 2 {
		n.exchange(4, last)
	}
	old := n.peers[last]
	select {
	case <-old.Fenced():
	case <-n.ctx.Done():
		n.t.Fatal("a peer that left is not fenced")
	}
	stop()
	if err := <-flood; !errors.Is(err, engine.ErrLost) {
		n.t.Errorf("writes to a peer that left: %v", err)
	}
	before := old.Incarnation()
	n.accept()
	if n.peers[last].Incarnation() == before {
		n.t.Error("who came again is the incarnation that left")
	}
	// Counters of the new one begin anew; the pairs that stayed go on.
	n.exchange(2)
	n.together("came again")
}

// flood writes to a node without an end; the error is the first.
func (n *labNode) flood(to int) (stop func(), ended chan error) {
	var stopped atomic.Bool
	ended = make(chan error, 1)
	p, target, region := n.peers[to], n.target[to], n.region
	go func() {
		for !stopped.Load() {
			t, err := p.Write(n.ctx, engine.Move{Local: region, Remote: target,
				Segments: []engine.Segment{{Local: uint64(area*n.n + area/2), Remote: uint64(area*n.me + area/2), Length: area / 2}}})
			if err == nil {
				err = t.Wait(n.ctx)
			}
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return sync.OnceFunc(func() { stopped.Store(true) }), ended
}

// withdraw has node 0 take its grant to node 1 back while that writes, and give it
// again.
func (n *labNode) withdraw() {
	n.t.Helper()
	switch n.me {
	case 0:
		time.Sleep(100 * time.Millisecond)
		n.must(n.peers[1].Withdraw(n.ctx, "memory"))
		half := n.mem[area+area/2:][:area/2]
		seen := bytes.Clone(half)
		time.Sleep(200 * time.Millisecond)
		if !bytes.Equal(half, seen) {
			n.t.Error("node 1 wrote after the withdrawal")
		}
		n.must(n.peers[1].Grant("memory", n.region, engine.Read|engine.Write))
	case 1:
		_, flood := n.flood(0)
		if err := <-flood; !errors.Is(err, engine.ErrRights) {
			n.t.Errorf("writes into a region that was withdrawn: %v", err)
		}
		var err error
		n.target[0], err = n.peers[0].Target(n.ctx, "memory")
		n.must(err)
	}
}

// railLost has node 0's link go down under traffic and come again. The control
// connection is on it as well: TCP and the lease bear it.
func (n *labNode) railLost() {
	n.t.Helper()
	before := n.losses()
	efa := os.Getenv("PEERDIRECT_EFA") != "" // the lab has their links fail by --efa-flap
	if n.me == 0 && !efa {
		go func() {
			time.Sleep(200 * time.Millisecond)
			link := netdev(n.t)
			for _, to := range []string{"down", "up"} {
				if out, err := exec.Command("ip", "link", "set", link, to).CombinedOutput(); err != nil {
					n.t.Errorf("ip link set %s %s: %v: %s", link, to, err, out)
				}
				time.Sleep(8 * time.Second)
			}
		}()
	}
	for begun, over := time.Now(), false; !over; {
		n.exchange(2)
		n.together("again")
		over = n.agree(time.Since(begun) > 12*time.Second && (efa || n.losses() > before))
	}
	n.t.Logf("node %d: %d connections of rails were lost and came again", n.me, n.losses()-before)
}

// agree has node 0 decide for all.
func (n *labNode) agree(enough bool) bool {
	n.t.Helper()
	if n.me == 0 {
		for _, c := range n.leader {
			n.send(c, enough)
		}
		return enough
	}
	n.receive(n.leader[0], &enough)
	return enough
}

func (n *labNode) losses() (all uint64) {
	for _, s := range n.Stats() {
		all += s.Losses
	}
	return all
}

// netdev is the interface below the guest's RDMA device.
func netdev(t *testing.T) string {
	list, err := filepath.Glob("/sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0")
	if err != nil || len(list) != 1 {
		t.Errorf("netdev of the RDMA device: %v %v", list, err)
		return ""
	}
	b, err := os.ReadFile(list[0])
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b))
}
