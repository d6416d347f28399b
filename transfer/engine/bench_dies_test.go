package engine_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// relay carries one TCP connection, until it falls silent.
type relay struct {
	net.Listener
	to     string
	silent chan struct{}
	both   sync.WaitGroup
	ends   [2]net.Conn
}

func newRelay(b *testing.B, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	r := &relay{Listener: l, to: to, silent: make(chan struct{})}
	r.both.Go(func() {
		var err error
		if r.ends[0], err = l.Accept(); err != nil {
			return
		}
		if r.ends[1], err = net.Dial("tcp", to); err != nil {
			b.Error(err)
			return
		}
		for i := range r.ends {
			r.both.Go(func() { r.carry(r.ends[i], r.ends[1-i]) })
		}
	})
	return r
}

// carry copies; once silent, it takes what comes and passes nothing on.
func (r *relay) carry(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		select {
		case <-r.silent:
			io.Copy(io.Discard, from)
			return
		default:
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut ends both connections, as a kernel does whose process was killed.
func (r *relay) cut() {
	r.Close()
	for _, c := range r.ends {
		if c != nil {
			c.Close()
		}
	}
	r.both.Wait()
}

// BenchmarkPeerDies is how long it takes, from the moment at which nothing more comes
// from a peer, until it is known to be gone and until nothing of it can land: with its
// control connection silent, or closed by its kernel, over TCP on the loopback
// address; idle, or with a write under way to its NIC, which does not answer either
// and is given up after 100 ms.
func BenchmarkPeerDies(b *testing.B) {
	for _, lease := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		for _, closed := range []bool{false, true} {
			for _, busy := range []bool{false, true} {
				how := map[bool]string{false: "silent", true: "closed"}[closed] + "/" + map[bool]string{false: "idle", true: "busy"}[busy]
				b.Run(fmt.Sprintf("lease=%v/%s", lease, how), func(b *testing.B) { peerDies(b, lease, closed, busy) })
			}
		}
	}
}

func peerDies(b *testing.B, lease time.Duration, closed, busy bool) {
	c := newCluster(b, clusterOptions{Alone: true, EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2, PeerTimeout: 100 * time.Millisecond}})
	x, y := c.nodes[0], c.nodes[1]
	token, err := control.Token("a secret of this benchmark, no other's")
	if err != nil {
		b.Fatal(err)
	}
	o := control.Options{Lease: lease}
	l, err := y.Listen(within(b), "127.0.0.1:0", token, o)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var gone, fenced []time.Duration
	for b.Loop() {
		r := newRelay(b, l.Addr().String())
		accepted := make(chan *engine.Peer, 1)
		go func() {
			q, err := l.Accept(within(b))
			if err != nil {
				b.Error(err)
			}
			accepted <- q
		}()
		p, err := x.Join(within(b), r.Addr().String(), token, o)
		q := <-accepted
		if err != nil || q == nil {
			b.Fatal(err)
		}
		if err := q.Grant("memory", y.region, engine.Write); err != nil {
			b.Fatal(err)
		}
		target, err := p.Target(within(b), "memory")
		if err != nil {
			b.Fatal(err)
		}
		if busy {
			c.faults(1, 0).Set(device.FaultPlan{Unresponsive: true})
			if _, err := p.Write(within(b), engine.Move{Local: x.region, Remote: target, Segments: []engine.Segment{{Length: 1 << 20}}}); err != nil {
				b.Fatal(err)
			}
		}
		dead := time.Now()
		close(r.silent)
		if closed {
			r.cut()
		}
		<-p.Gone()
		gone = append(gone, time.Since(dead))
		<-p.Fenced()
		fenced = append(fenced, time.Since(dead))
		<-q.Fenced()
		c.faults(1, 0).Clear()
		r.cut()
	}
	report := func(of []time.Duration, name string) {
		slices.Sort(of)
		b.ReportMetric(float64(of[len(of)/2].Microseconds())/1e3, "p50-ms-to-"+name)
		b.ReportMetric(float64(of[len(of)-1].Microseconds())/1e3, "most-ms-to-"+name)
	}
	report(gone, "gone")
	report(fenced, "fenced")
}
