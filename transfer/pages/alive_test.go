package pages

import (
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// patience is the timeout of transfers in which work takes longer.
const patience = 4 * time.Second

// TestWorkLongerThanTheTimeoutIsNoSilence: the sender sees nothing of pages that are
// read out of its memory, nor of the receiver's comparing them.
func TestWorkLongerThanTheTimeoutIsNoSilence(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 s twice")
	}
	busy := ListenOptions{MaxBytes: MaxSpan, corrupt: func([]byte) { time.Sleep(patience * 5 / 4) }}
	for name, c := range map[string]struct {
		e    transfer.EmbeddedOptions
		what SendOptions
		lo   ListenOptions
	}{
		"compare": {transfer.EmbeddedOptions{}, SendOptions{Layout: Layout{PageSize: 4096, Pages: 8, Stride: 1}}, busy},
		"read": {transfer.EmbeddedOptions{Gbps: 0.05},
			SendOptions{Layout: Layout{PageSize: 64 << 10, Pages: 480, Stride: 1, Seed: 1}, Read: true}, ListenOptions{MaxBytes: MaxSpan}},
	} {
		t.Run(name, func(t *testing.T) {
			e := embedded(t, c.e)
			sent, _, err := inside(t.Context(), e, 1, 0, Options{Timeout: patience, Batch: 1, Depth: 4}, c.what, c.lo, nil)
			if err != nil || !sent.Verified {
				t.Errorf("%v; %s", err, show(sent))
			}
		})
	}
}

// TestWaitingForAnotherReceiverIsNoSilence: one is there, and one does not come.
func TestWaitingForAnotherReceiverIsNoSilence(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 s")
	}
	e := embedded(t, transfer.EmbeddedOptions{})
	l := listen(t, open(t, Options{Rail: e.Node(0), Timeout: patience}), "127.0.0.1:0", ListenOptions{})
	got := receive(l)
	n := open(t, Options{Rail: e.Node(1), Timeout: patience, Control: control.Options{Window: patience * 5 / 4}})
	results, err := n.To(t.Context(), []string{l.Addr().String(), "127.0.0.1:1"}, SendOptions{Layout: Layout{PageSize: 4096, Pages: 8, Stride: 1}})
	if theirs := within(t, time.Minute, got); theirs.err != nil || !theirs.result.Verified {
		t.Errorf("the one that is there: %v", theirs.err)
	}
	if err == nil || results[0] == nil || !results[0].Verified || results[1] != nil {
		t.Errorf("%v; %s", err, show(results[0]))
	}
}
