package pages

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestWhoIsNotLetIn: another token, other devices, another number of queue pairs,
// and those who say nothing that makes sense. The listener's owner is told.
func TestWhoIsNotLetIn(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	warned := make(chan error, 8)
	l := listen(t, open(t, Options{Rail: e.Node(0)}), "127.0.0.1:0", ListenOptions{Warn: func(err error) { warned <- err }})
	told := func(words string) {
		t.Helper()
		select {
		case err := <-warned:
			if !strings.Contains(err.Error(), words) {
				t.Errorf("the owner is told: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("the owner is not told of %q", words)
		}
	}
	what := SendOptions{Layout: Layout{PageSize: 4096, Pages: 4, Stride: 1}}
	stranger := open(t, Options{Rail: e.Node(1)})
	var err error
	if stranger.o.Credentials, err = control.Token("a token of somebody else's"); err != nil {
		t.Fatal(err)
	}
	if o := send(t.Context(), stranger, l.Addr().String(), what); !errors.Is(o.err, fs.ErrPermission) || o.result != nil {
		t.Errorf("another token: %v", o.err)
	}
	told("were not let in")
	for name, change := range map[string]func(*hello){
		"queue pairs": func(h *hello) { h.Queues = 2 },
		"device":      func(h *hello) { h.Kind = transfer.KindRC },
	} {
		c, err := control.Dial(t.Context(), l.Addr().String(), known(t), control.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := stranger.hello()
		change(&h)
		if err := sendHello(c, h); err != nil {
			t.Fatal(err)
		}
		// The listener answers with its reason.
		if _, err := receiveHello(t.Context(), c, stranger.hello()); err == nil || !strings.Contains(err.Error(), "it refuses") || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "--device") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		told("do not go together")
	}
	c, err := control.Dial(t.Context(), l.Addr().String(), known(t), control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Send(control.TypeUser, []byte("nonsense"))
	told("makes no sense")
	c.Close()
	got := receive(l)
	if o := send(t.Context(), open(t, Options{Rail: e.Node(1)}), l.Addr().String(), what); o.err != nil {
		t.Errorf("one who is well, afterwards: %v", o.err)
	}
	within(t, time.Minute, got)
}

// TestAPeerThatSpeaksNonsense once it is joined: the transfer ends and says so.
func TestAPeerThatSpeaksNonsense(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	l := listen(t, open(t, Options{Rail: e.Node(0)}), "127.0.0.1:0", ListenOptions{})
	other := open(t, Options{Rail: e.Node(1)})
	over := letter{kind: kindPropose, layout: Layout{PageSize: 4096, Pages: 1, Stride: 1}, iterations: 1, notices: 1}
	for name, say := range map[string]func(p *engine.Peer) error{
		"garbage": func(p *engine.Peer) error { return p.Send(t.Context(), []byte("who are you?")) },
		"verdict": func(p *engine.Peer) error {
			m := letter{kind: kindVerdict}
			return p.Send(t.Context(), m.encode(nil))
		},
		"notices": func(p *engine.Peer) error {
			if err := p.Send(t.Context(), over.encode(nil)); err != nil {
				return err
			}
			m := letter{kind: kindReady}
			if err := p.Send(t.Context(), m.encode(nil)); err != nil {
				return err
			}
			for range 3 {
				n, err := p.Notify(t.Context(), number)
				if err != nil {
					return err
				}
				if err := n.Wait(t.Context()); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		got := receive(l)
		c, err := control.Dial(t.Context(), l.Addr().String(), known(t), control.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := other.connect(t.Context(), c, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := say(s.peer); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		<-s.ctx.Done() // it is told why, and leaves
		s.close(nil)
		r := within(t, time.Minute, got)
		if name == "notices" { // the first is due, and may be taken alone
			if r.err == nil {
				t.Errorf("%s: %v", name, r.err)
			}
		} else if !errors.Is(r.err, errLetter) {
			t.Errorf("%s: %v", name, r.err)
		}
	}
}
