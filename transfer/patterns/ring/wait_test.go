package ring

import (
	"strings"
	"testing"
)

// TestTooFewCounters: a peer whose counters are all used has no more, and the ring says
// what to raise.
func TestTooFewCounters(t *testing.T) {
	err := new(Ring).wait(t.Context(), nil, nil, 1)
	if err == nil || !strings.Contains(err.Error(), "engine.Options.Counters") {
		t.Errorf("without a counter: %v", err)
	}
}
