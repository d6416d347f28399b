package peer

import (
	"context"
	"errors"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
)

// noisy is a rail to a peer that sends notices without end, and nothing else.
type noisy struct {
	transfer.Rail
	given int
}

func (n *noisy) Poll(out []transfer.Completion) (int, error) {
	for i := range out {
		out[i] = transfer.Completion{Kind: transfer.Notice, Imm: uint32(n.given)}
		n.given++
	}
	return len(out), nil
}

func (n *noisy) Post(ops []transfer.Op) (int, error) { return len(ops), nil }
func (n *noisy) Close() error                        { return nil }

// TestNotices: as many as an honest peer may have sent ahead are kept in their order, and
// more end the test instead of filling memory.
func TestNotices(t *testing.T) {
	r := newRun(context.Background(), RoleListener, Options{})
	defer r.finish()
	rail := &noisy{}
	r.rail = rail
	for want := range uint32(depth) {
		if imm, err := r.notice(t.Context()); err != nil || imm != want {
			t.Fatalf("notice %d, want %d: %v", imm, want, err)
		}
	}
	if err := r.carry(t.Context(), make([]transfer.Op, 1)); !errors.Is(err, ErrProtocol) || remedy(StepLarge, err) == "" {
		t.Errorf("%v", err)
	}
	if len(r.notices) > receives || rail.given > depth+receives+2*len(r.got) {
		t.Errorf("%d notices are kept, %d were taken", len(r.notices), rail.given)
	}
}
