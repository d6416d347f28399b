//go:build lab

package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// lab is one of several machines that run a test together.
type lab struct {
	t      *testing.T
	ctx    context.Context
	me, n  int
	addrs  []string
	leader []*control.Conn // on node 0: to each other node; elsewhere: to node 0
	named  control.Credentials
	token  control.Credentials
}

const labToken = "the lab's own, and no secret"

// newLab meets the other machines, and has node 0 make certificates for all, which
// it gives them over a connection proved by a token.
func newLab(t *testing.T) *lab {
	t.Helper()
	n, _ := strconv.Atoi(os.Getenv("PEERDIRECT_NODES"))
	if n < 2 {
		t.Skip("needs several machines: lab run --nodes 2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	l := &lab{t: t, ctx: ctx, n: n, addrs: strings.Split(os.Getenv("PEERDIRECT_ADDRS"), ",")}
	l.me, _ = strconv.Atoi(os.Getenv("PEERDIRECT_NODE"))
	var err error
	l.token, err = control.Token(labToken)
	l.must(err)
	dir := t.TempDir()
	if l.me != 0 {
		l.dialLeader()
		l.send(l.leader[0], l.me)
		var files map[string][]byte
		l.receive(l.leader[0], &files)
		for name, b := range files {
			l.must(os.WriteFile(filepath.Join(dir, name), b, 0o600))
		}
		l.certificates(dir, "own.crt", "own.key", "ca.crt")
		return l
	}
	listener, err := control.Listen(ctx, net.JoinHostPort(l.addrs[0], "18640"), l.token, control.Options{Lease: time.Minute})
	l.must(err)
	defer listener.Close()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("node%d", i))
	}
	issued, err := control.Issue(dir, names, time.Hour)
	l.must(err)
	c := issued.Certificates[0]
	l.certificates("", c.Certificate, c.Key, issued.Authority)
	for range n - 1 {
		conn, err := listener.Accept(ctx)
		l.must(err)
		t.Cleanup(func() { conn.Close() })
		l.leader = append(l.leader, conn)
		var who int
		l.receive(conn, &who)
		c := issued.Certificates[who]
		files := make(map[string][]byte)
		for name, from := range map[string]string{"own.crt": c.Certificate, "own.key": c.Key, "ca.crt": issued.Authority} {
			files[name], err = os.ReadFile(from)
			l.must(err)
		}
		l.send(conn, files)
	}
	return l
}

func (l *lab) dialLeader() {
	l.t.Helper()
	conn, err := control.Dial(l.ctx, net.JoinHostPort(l.addrs[0], "18640"), l.token, control.Options{Window: 2 * time.Minute, Lease: time.Minute})
	l.must(err)
	l.t.Cleanup(func() { conn.Close() })
	l.leader = []*control.Conn{conn}
}

func (l *lab) certificates(dir, certificate, key, ca string) {
	l.t.Helper()
	var err error
	l.named, err = control.CertificateFiles(filepath.Join(dir, certificate), filepath.Join(dir, key), filepath.Join(dir, ca))
	l.must(err)
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("node %d: %v", l.me, err)
	}
}

func (l *lab) send(c *control.Conn, v any) {
	l.t.Helper()
	b, err := json.Marshal(v)
	l.must(err)
	l.must(c.Send(control.TypeUser, b))
}

func (l *lab) receive(c *control.Conn, v any) {
	l.t.Helper()
	_, b, err := c.Receive(l.ctx)
	l.must(err)
	l.must(json.Unmarshal(b, v))
}

// together waits until every node is here.
func (l *lab) together(where string) {
	l.t.Helper()
	var there string
	if l.me != 0 {
		l.send(l.leader[0], where)
	}
	for _, c := range l.leader {
		if l.receive(c, &there); there != where {
			l.t.Fatalf("node %d is at %q, another at %q", l.me, where, there)
		}
	}
	if l.me == 0 {
		for _, c := range l.leader {
			l.send(c, where)
		}
	}
}

// labNode is this machine's engine.
type labNode struct {
	*lab
	*engine.Engine
	mem    []byte
	region *engine.Region
	listen *engine.Listener
	peers  []*engine.Peer // by node
	target []*engine.Target
	sent   []uint64 // notices, by node
	came   []uint64
	accel  *accelerated // where the machine has an accelerator
}

// area is what each node has in every node's memory, bytes. Its first half is
// written by the other, its second read.
const area = 256 << 10

// engineOf opens this machine's engine.
func (l *lab) engineOf(rails transfer.Opener, workers int) *labNode {
	l.t.Helper()
	o := engine.Options{Name: fmt.Sprintf("node%d", l.me), Rails: engine.Specs(rails, transfer.Want{Peers: 4 * l.n}, workers),
		CoolDown: 200 * time.Millisecond, FenceTime: time.Minute, MaxPiece: 64 << 10}
	if accelerators() != nil {
		topology, err := pci.Read(os.DirFS("/"))
		l.must(err)
		placed, err := engine.Placed(topology, rails, transfer.Want{Peers: 4 * l.n}, pci.PairOptions{})
		l.must(err)
		o.Rails, o.Workers, o.Near = placed.Rails, placed.Workers, placed.Near
	}
	accelerator := l.accelerator()
	e, err := engine.New(o)
	l.must(err)
	n := &labNode{lab: l, Engine: e, peers: make([]*engine.Peer, l.n), target: make([]*engine.Target, l.n), sent: make([]uint64, l.n), came: make([]uint64, l.n)}
	buf, err := verbs.NewBuffer(area*(l.n+1), verbs.BufferOptions{})
	l.must(err)
	l.t.Cleanup(func() { buf.Close() })
	l.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			l.t.Error("closing the engine: ", err)
		}
	})
	n.mem = buf.Bytes()
	n.region, err = e.Register(n.mem)
	l.must(err)
	n.accelerate(accelerator)
	n.listen, err = e.Listen(l.ctx, net.JoinHostPort(l.addrs[l.me], "18631"), l.credentials(l.me), control.Options{Lease: time.Minute})
	l.must(err)
	l.t.Cleanup(func() { n.listen.Close() })
	return n
}

// credentials are those that a node listens with: certificates, or a token on odd
// nodes.
func (l *lab) credentials(node int) control.Credentials {
	if node%2 == 1 {
		return l.token
	}
	return l.named
}

// join joins another node and exchanges grants with it.
func (n *labNode) join(other int) {
	n.t.Helper()
	o := control.Options{Window: time.Minute, Lease: time.Minute}
	if other%2 == 0 {
		o.Peer = fmt.Sprintf("node%d", other)
	}
	p, err := n.Join(n.ctx, net.JoinHostPort(n.addrs[other], "18631"), n.credentials(other), o)
	n.must(err)
	n.joined(p)
}

func (n *labNode) accept() {
	n.t.Helper()
	p, err := n.listen.Accept(n.ctx)
	n.must(err)
	if n.me%2 == 0 && p.Identity() != p.Name() {
		n.t.Errorf("%s has proved to be %s", p.Name(), p.Identity())
	}
	n.joined(p)
}

func (n *labNode) joined(p *engine.Peer) {
	n.t.Helper()
	at, err := strconv.Atoi(strings.TrimPrefix(p.Name(), "node"))
	n.must(err)
	n.peers[at], n.sent[at], n.came[at] = p, 0, 0
	n.must(p.Grant("memory", n.region, engine.Read|engine.Write))
	n.target[at], err = p.Target(n.ctx, "memory")
	n.must(err)
	if n.accel != nil {
		n.accel.joined(at, p)
	}
}

// mesh joins each node with each: the later one dials.
func (n *labNode) mesh() {
	n.t.Helper()
	for other := range n.me {
		n.join(other)
	}
	for range n.n - 1 - n.me {
		n.accept()
	}
	n.together("mesh")
}

// pattern is what a node writes to another in a round.
func pattern(from, to int, round uint64) []byte {
	b := make([]byte, area/2)
	fill(b, uint64(from)<<48|uint64(to)<<32|round)
	return b
}

// exchange has every pair of nodes but those left out write to each other, by
// pages and by segments in turn, and verifies what came when it was counted.
func (n *labNode) exchange(rounds int, without ...int) {
	n.t.Helper()
	for round := range rounds {
		for to, p := range n.peers {
			if to == n.me || p == nil || slices.Contains(without, to) {
				continue
			}
			n.sent[to]++
			from := n.mem[area*n.n:][:area/2]
			copy(from, pattern(n.me, to, n.sent[to]))
			move := engine.Move{Local: n.region, Remote: n.target[to], Notify: engine.Counts(5)}
			local, remote := uint64(area*n.n), uint64(area*n.me)
			if round%2 == 0 {
				move.Segments = []engine.Segment{{Local: local, Remote: remote, Length: 1001}, {Local: local + 1001, Remote: remote + 1001, Length: area/2 - 1001}}
			} else {
				move.PageSize = 4096
				move.LocalPages, move.RemotePages = engine.Pages{Offset: local}, engine.Pages{Offset: remote}
				for i := range uint32(area / 2 / 4096) {
					move.LocalPages.Index, move.RemotePages.Index = append(move.LocalPages.Index, i), append(move.RemotePages.Index, i)
				}
			}
			t, err := p.Write(n.ctx, move)
			n.must(err)
			n.must(t.Wait(n.ctx)) // its memory is the next one's
			if n.accel != nil {
				n.accel.write(to)
			}
		}
		for by, p := range n.peers {
			if by == n.me || p == nil || slices.Contains(without, by) {
				continue
			}
			n.came[by]++
			n.must(p.Counter(5).Wait(n.ctx, n.came[by]))
			if !bytes.Equal(n.mem[area*by:][:area/2], pattern(by, n.me, n.came[by])) {
				n.t.Fatalf("node %d: what node %d wrote in round %d differs", n.me, by, n.came[by])
			}
			if got := p.Counter(5).Count(); got != n.came[by] {
				n.t.Fatalf("node %d: %d notices of node %d, want %d", n.me, got, by, n.came[by])
			}
			if n.accel != nil {
				n.accel.verify(by)
			}
		}
		// Nobody writes the next before all have looked at this.
		for to, p := range n.peers {
			if to == n.me || p == nil || slices.Contains(without, to) {
				continue
			}
			t, err := p.Write(n.ctx, engine.Move{Local: n.region, Remote: n.target[to], Notify: engine.Counts(6)})
			n.must(err)
			n.must(t.Wait(n.ctx))
			n.must(p.Counter(6).Wait(n.ctx, n.came[to]))
		}
	}
}
