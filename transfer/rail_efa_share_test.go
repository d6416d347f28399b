package transfer

import (
	"errors"
	"testing"
)

// TestReceivesAreShared: a device's receives go round, however many peers are wanted.
func TestReceivesAreShared(t *testing.T) {
	e, err := NewEmbedded(EmbeddedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct{ peers, receives, each int }{
		{1, 0, 128}, {64, 0, 128}, {65, 0, 126}, {300, 0, 27}, {512, 0, 16}, {513, 0, 0},
		{256, 32, 32}, {257, 32, 0}, {1, minReceives - 1, 0},
	} {
		r, err := e.Node(0).Open(Want{Peers: c.peers, Receives: c.receives})
		if c.each == 0 {
			if !errors.As(err, new(*OptionError)) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if got := r.Receives(); got != c.each {
			t.Errorf("%+v: %d receives", c, got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
