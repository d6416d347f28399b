package peer

import (
	"context"
	"errors"
	"testing"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// TestWhatHasComeCounts: a peer that says its last word and leaves is heard, every time.
func TestWhatHasComeCounts(t *testing.T) {
	for range 50 {
		r := newRun(context.Background(), RoleDialler, Options{})
		r.inbox <- message{Kind: kindDone, Step: StepMTU}
		r.inbox <- message{Kind: kindFailed, Step: StepKeys, Error: &said{Text: "no room"}, Evidence: []string{"of the peer"}}
		r.cancel(control.ErrLeft)
		close(r.inbox)
		if m, err := r.hear(r.ctx, kindDone, StepMTU); err != nil || m.Step != StepMTU {
			t.Fatalf("%+v, %v", m, err)
		}
		var p *PeerError
		if _, err := r.hear(r.ctx, kindDone, StepKeys); !errors.As(err, &p) || len(r.result.step(StepKeys).PeerEvidence) != 1 {
			t.Fatalf("%v, %v", err, r.result.step(StepKeys).PeerEvidence)
		}
		if _, err := r.hear(r.ctx, kindDone, StepKeys); !errors.Is(err, control.ErrLeft) {
			t.Fatal(err)
		}
		r.finish()
	}
}
