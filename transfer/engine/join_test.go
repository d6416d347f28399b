package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// credentialsOf gives two nodes' credentials, by certificates or a token.
func credentialsOf(t *testing.T, token bool) (both [2]control.Credentials) {
	t.Helper()
	if token {
		c, err := control.Token("a secret of this test, no other's")
		if err != nil {
			t.Fatal(err)
		}
		return [2]control.Credentials{c, c}
	}
	issued, err := control.Issue(t.TempDir(), []string{"node0", "node1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range issued.Certificates {
		if both[i], err = control.CertificateFiles(c.Certificate, c.Key, issued.Authority); err != nil {
			t.Fatal(err)
		}
	}
	return both
}

// TestJoin: engines find each other over TCP and TLS; one with other credentials,
// or of another name than was asked for, is not joined.
func TestJoin(t *testing.T) {
	for _, token := range []bool{false, true} {
		t.Run(map[bool]string{false: "certificates", true: "token"}[token], func(t *testing.T) {
			c := newCluster(t, clusterOptions{EmbeddedOptions: transfer.EmbeddedOptions{Nodes: 2}, Alone: true})
			a, b := c.nodes[0], c.nodes[1]
			credentials := credentialsOf(t, token)
			l, err := b.Listen(within(t), "127.0.0.1:0", credentials[1], control.Options{Lease: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accepted := make(chan *engine.Peer, 1)
			go func() {
				p, err := l.Accept(within(t))
				if err != nil {
					t.Error(err)
				}
				accepted <- p
			}()
			stranger := credentialsOf(t, !token)
			if _, err := a.Join(within(t), l.Addr().String(), stranger[0], control.Options{Window: 10 * time.Millisecond}); err == nil {
				t.Error("a stranger joined")
			}
			o := control.Options{Lease: patience}
			if !token {
				if _, err := a.Join(within(t), l.Addr().String(), credentials[0], control.Options{Peer: "node7"}); !errors.Is(err, control.ErrPermission) {
					t.Errorf("joined one of another name: %v", err)
				}
				o.Peer = "node1"
			}
			p, err := a.Join(within(t), l.Addr().String(), credentials[0], o)
			if err != nil {
				t.Fatal(err)
			}
			q := <-accepted
			if q == nil {
				t.FailNow()
			}
			if !token && (p.Identity() != "node1" || q.Identity() != "node0") {
				t.Errorf("%q and %q", p.Identity(), q.Identity())
			}
			if err := q.Grant("memory", b.region, engine.Write); err != nil {
				t.Fatal(err)
			}
			target, err := p.Target(within(t), "memory")
			if err != nil {
				t.Fatal(err)
			}
			fill(a.mem, 9)
			w, err := p.Write(within(t), engine.Move{Local: a.region, Remote: target, Segments: []engine.Segment{{Length: 5000}}, Notify: engine.Counts(1)})
			if err != nil {
				t.Fatal(err)
			}
			a.done(w)
			if err := q.Counter(1).Wait(within(t), 1); err != nil {
				t.Fatal(err)
			}
			same(t, "joined", b.mem[:5000], a.mem[:5000])
			p.Close()
			<-q.Fenced()
			if err := q.Err(); !errors.Is(err, engine.ErrLost) {
				t.Errorf("the one that was left: %v", err)
			}
		})
	}
}
