package peer

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// iwarp is a side whose NIC is on the loopback address and speaks iWARP, with an
// interface of this MTU.
func iwarp(mtu int) NIC {
	n := roce(4096)
	n.Device, n.Transport, n.NetdevMTU = "siw0", transfer.IWARP, mtu
	return n
}

// TestOddMTUs: MTUs that are unknown, smaller than a probe and larger than IP's packets.
func TestOddMTUs(t *testing.T) {
	here := netip.MustParseAddr("127.0.0.1")
	for mtu, x := range map[int]struct {
		words string
		times int
	}{
		0:     {"MTUs are not known: 65536 bytes here, 0 there", 1},
		40:    {"MTUs are not known: 65536 bytes here, 40 there", 1},
		51:    {"MTUs are not known", 1},
		52:    {"packets of 52 bytes pass", 2}, // the smallest probe
		65536: {"packets of 65535 bytes pass", 2},
	} {
		r := newRun(context.Background(), RoleDialler, Options{})
		r.result.Local, r.result.Remote = iwarp(65536), iwarp(mtu)
		st := r.result.step(StepMTU)
		err := r.probes(t.Context(), st, here, here, narrow(t, 1<<16, 1<<16))
		if all := strings.Join(st.Evidence, "\n"); err != nil || strings.Count(all, x.words) != x.times {
			t.Errorf("MTU %d: %v\n%s", mtu, err, all)
		}
		if err := r.finish(); err != nil {
			t.Error(err)
		}
	}
}

// TestLostProbesOfIWARP are told, in both directions, and do not end the test: TCP's
// packets may pass.
func TestLostProbesOfIWARP(t *testing.T) {
	here := netip.MustParseAddr("127.0.0.1")
	for name, x := range map[string]struct {
		there, back     int
		words, evidence string
	}{
		"there": {1499, 1500, "packets of 1500 bytes, as the NICs send them, do not pass", "packets of 1500 bytes pass"},
		"back":  {1500, 1499, "do not pass from 127.0.0.1 to 127.0.0.1 (nothing comes back), and of ", "packets of 1500 bytes pass"},
		"both":  {1499, 1497, "they do: whether TCP", "whether TCP finds its way is large-write's to tell: give every interface"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(context.Background(), RoleDialler, Options{})
			defer r.finish()
			r.result.Local, r.result.Remote = iwarp(1500), iwarp(9000)
			at := narrow(t, x.there, x.back)
			if err := r.step(StepMTU, func(_ context.Context, st *Step) error { return r.probes(t.Context(), st, here, here, at) }); err != nil {
				t.Fatal(err)
			}
			st := r.result.step(StepMTU)
			if st.Verdict != Warn || r.result.Verdict != Warn || !strings.Contains(st.Summary, x.words) || !strings.Contains(st.Remedy, "MTU of 1500 bytes") || !strings.Contains(strings.Join(st.Evidence, "\n"), x.evidence) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestWidest: the largest that passes is found, and where that takes too long the largest
// so far.
func TestWidest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[time.Duration]int{time.Hour: 40_000, 10 * time.Second: 38_912} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			p := &prober{tries: 3, wait: time.Minute}
			got := p.widest(ctx, 0, 1<<16, func(bytes int) (bool, error) {
				time.Sleep(time.Second)
				return bytes <= 40_000, nil
			})
			if got != want || ctx.Err() != nil || p.tries != 3 || p.wait != time.Minute {
				t.Errorf("%d bytes within %v, want %d; %+v", got, limit, want, p)
			}
			cancel()
		}
	})
}

// TestMTUStep is the step at both sides, on the loopback address.
func TestMTUStep(t *testing.T) {
	nothingLeft(t)
	l, err := control.Listen(t.Context(), "127.0.0.1:0", known(t), control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	side := func(role string, conn *control.Conn, n NIC) *run {
		r := newRun(context.Background(), role, Options{Timeout: patience})
		r.conn, r.result.Local, r.result.Remote = conn, n, n
		r.listen()
		return r
	}
	for words, n := range map[string]NIC{"had 4160 bytes": roce(4096), "had 1500 bytes": iwarp(1500)} {
		far := make(chan outcome, 1)
		go func() {
			c, err := l.Accept(context.Background())
			if err != nil {
				far <- outcome{nil, err}
				return
			}
			r := side(RoleListener, c, n)
			if _, err := r.asked(StepMatch); err == nil {
				r.step(StepMTU, r.answer(StepMTU, r.mtuAnswer))
			}
			far <- outcome{r.result, r.finish()}
		}()
		c, err := control.Dial(t.Context(), l.Addr().String(), known(t), control.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := side(RoleDialler, c, n)
		r.step(StepMTU, r.both(StepMTU, r.mtuProbe))
		st := r.result.step(StepMTU)
		if err := r.finish(); err != nil || st.Verdict != OK || strings.Count(strings.Join(st.Evidence, "\n"), "bytes pass from") != 2 {
			t.Errorf("%v\n%s", err, show(r.result))
		}
		if o := within(t, 2*time.Minute, far); o.err != nil || !strings.Contains(show(o.result), words) {
			t.Errorf("%v: nothing of %q in\n%s", o.err, words, show(o.result))
		}
	}
}
