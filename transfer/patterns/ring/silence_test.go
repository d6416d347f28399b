package ring

import (
	"context"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// TestSilenceIsWaitedFor: a node that is slow itself, while its neighbours have given
// all that it needs, does not take them for silent.
func TestSilenceIsWaitedFor(t *testing.T) {
	r := &Ring{size: 2, silence: time.Millisecond}
	err := r.do(context.Background(), allReduce, 1, func(ctx context.Context, o *operation) error {
		if err := r.wait(ctx, o, new(engine.Counter), 0); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond) // the node's own work
		if err := context.Cause(ctx); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
