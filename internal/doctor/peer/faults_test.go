package peer

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// after makes the nodes' fabric faulty as soon as the dialler has ended a step.
func (p *pair) after(step Name, plan device.FaultPlan) {
	p.here.Tell = func(_ *Result, s *Step) {
		if s.Name == step {
			p.nodes.Fabric().Faults().Set(plan)
		}
	}
}

// impatient gives one step of the dialler's a short deadline: it is expected to pass.
func (p *pair) impatient(step Name, d time.Duration) {
	p.here.limit = func(n Name) time.Duration {
		if n == step {
			return d
		}
		return patience
	}
}

// failed checks that a side names a step, that those before it are in order and those
// behind it not reached.
func failed(t *testing.T, o outcome, step Name, class error, words ...string) {
	t.Helper()
	if o.err == nil || o.result == nil || !errors.Is(o.err, class) {
		t.Fatalf("%v, want an error that is %v", o.err, class)
	}
	var e *StepError
	if !errors.As(o.err, &e) || e.Step != step || o.result.Failed != step || o.result.Verdict != Fail || o.result.Error == "" {
		t.Fatalf("%v\n%s", o.err, show(o.result))
	}
	after := false
	for _, s := range o.result.Steps {
		want := OK
		switch {
		case s.Name == step:
			after, want = true, Fail
		case after:
			want = NotReached
		}
		if s.Verdict != want {
			t.Errorf("%s is %s, want %s", s.Name, s.Verdict, want)
		}
	}
	st := o.result.step(step)
	all := strings.Join(append(append([]string{st.Summary, st.PeerError, st.Remedy}, st.Evidence...), st.PeerEvidence...), "\n")
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("nothing of %q in:\n%s", w, all)
		}
	}
	if o.result.Role == RoleDialler && st.Remedy == "" {
		t.Errorf("no remedy:\n%s", all)
	}
}

// TestFaults: each fault is found by the step that is there for it, at both sides, and
// each says what the other saw.
func TestFaults(t *testing.T) {
	nothingLeft(t)
	flip := func(step Name) func(Name, []byte) {
		var once sync.Once
		return func(at Name, b []byte) {
			if at == step {
				once.Do(func() { b[len(b)/2] ^= 4 })
			}
		}
	}
	for name, x := range map[string]struct {
		make  func(p *pair)
		step  Name
		class error
		here  []string
		there []string
	}{
		"the link is down": {
			func(p *pair) { p.nodes.Fabric().Faults().Set(device.FaultPlan{LinkDown: true}) }, StepSmall, nil,
			[]string{"a write of 64 bytes", "no notice of it came", "UDP port 4791"}, []string{"no notice of it came", "a write of 64 bytes"},
		},
		"the link goes down": {
			func(p *pair) { p.after(StepSmall, device.FaultPlan{LinkDown: true}) }, StepLarge, nil, []string{"a write of 256 bytes"}, nil,
		},
		"large packets are lost": {
			func(p *pair) {
				p.nodes.Fabric().Faults().Set(device.FaultPlan{LossAbove: 5000})
				p.impatient(StepLarge, 5*time.Second)
			}, StepLarge, ErrTimeout, []string{"a write of 8928 bytes", "a write of 4464 bytes has passed, with an MTU of 8928", "compare the MTU"}, nil,
		},
		"keys are refused": {
			func(p *pair) { p.after(StepConnect, device.FaultPlan{CorruptKey: 1}) }, StepSmall, nil, []string{"a write of 64 bytes", "BAD_ADDRESS", "refuses the memory"}, nil,
		},
		"a small write is damaged": {
			func(p *pair) { p.there.damage = flip(StepSmall) }, StepSmall, exchange.ErrVerification,
			[]string{"1 of 64 bytes are wrong, from offset 32 on"}, []string{"1 of 64 bytes are wrong"},
		},
		"a large write is damaged": {
			func(p *pair) { p.there.damage = flip(StepLarge) }, StepLarge, exchange.ErrVerification, []string{"1 of 256 bytes are wrong, from offset 128 on"}, nil,
		},
		"a notice before its bytes": {
			func(p *pair) { p.there.damage = flip(StepOrder) }, StepOrder, exchange.ErrVerification, []string{"when its notice was there", "report it"}, nil,
		},
		"a read is damaged": {
			func(p *pair) { p.here.damage = flip(StepRead) }, StepRead, exchange.ErrVerification, []string{"a read of 64 bytes: 1 of 64"}, []string{"a read of 64 bytes"},
		},
		"the other direction is damaged": {
			func(p *pair) { p.here.damage = flip(StepSmall) }, StepBack, exchange.ErrVerification, []string{"small-write in the other direction"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			x.make(p)
			here, there := p.run(t)
			class := x.class
			if class == nil {
				class = here.err
			}
			failed(t, here, x.step, class, x.here...)
			if x.class == exchange.ErrVerification && !errors.Is(there.err, x.class) {
				t.Errorf("the listener's error is %v", there.err)
			}
			failed(t, there, x.step, there.err, x.there...)
			for _, o := range []outcome{here, there} {
				if st := o.result.step(x.step); st.PeerError == "" && st.Summary == "" {
					t.Errorf("%s", show(o.result))
				}
			}
		})
	}
}

// cannot is a NIC that does not open.
type cannot struct{ err error }

func (c cannot) Kind() transfer.Kind                       { return transfer.KindRC }
func (c cannot) NICs() int                                 { return 1 }
func (c cannot) Open(transfer.Want) (transfer.Rail, error) { return nil, c.err }

// TestDevice: a NIC that does not open, or several.
func TestDevice(t *testing.T) {
	nothingLeft(t)
	for _, class := range []error{verbs.ErrNoDevice, fs.ErrPermission, errors.ErrUnsupported} {
		r, err := Check(t.Context(), "127.0.0.1:1", Options{Rail: cannot{class}, Credentials: known(t)})
		failed(t, outcome{r, err}, StepDevice, class, "peerdirect doctor")
		if _, err := Listen(t.Context(), "127.0.0.1:0", Options{Rail: cannot{class}, Credentials: known(t)}); !errors.Is(err, class) {
			t.Errorf("listen: %v", err)
		}
	}
	several := embedded(t, transfer.EmbeddedOptions{NICs: 2})
	r, err := Check(t.Context(), "127.0.0.1:1", Options{Rail: several.Node(0), Credentials: known(t)})
	if failed(t, outcome{r, err}, StepDevice, err, "--device"); !errors.As(err, new(*transfer.OptionError)) {
		t.Errorf("%T %v", err, err)
	}
}

// TestTwoFabrics: devices of two processes, here of two fabrics, are linked.
func TestTwoFabrics(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	p.here.Rail = embedded(t, transfer.EmbeddedOptions{}).Node(0)
	here, there := p.run(t)
	for _, o := range []outcome{here, there} {
		if o.err != nil || o.result.Verdict != OK || o.result.Local.Fabric == o.result.Remote.Fabric || !strings.Contains(show(o.result), "are linked") {
			t.Errorf("%v\n%s", o.err, show(o.result))
		}
	}
}

// TestCredentials: another token, and no listener of this kind.
func TestCredentials(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	warned := make(chan error, 1)
	p.there.Warn = func(err error) { warned <- err }
	l := listener(t, "127.0.0.1:0", p.there)
	var err error
	if p.here.Credentials, err = control.Token("a token of somebody else's"); err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), l.Addr().String(), p.here)
	failed(t, outcome{r, err}, StepCredentials, fs.ErrPermission, "token")
	select {
	case err := <-warned:
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("the listener's owner is told: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the listener's owner is not told")
	}
}

// TestNobodyListens: the port is closed.
func TestNobodyListens(t *testing.T) {
	nothingLeft(t)
	p := newPair(t)
	l := listener(t, "127.0.0.1:0", p.there)
	at := l.Addr().String()
	l.Close()
	r, err := Check(context.Background(), at, p.here)
	failed(t, outcome{r, err}, StepReach, syscall.ECONNREFUSED, "refused", "doctor --listen")
}
