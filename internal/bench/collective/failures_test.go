package collective

import (
	"errors"
	"syscall"
	"testing"
)

// TestWhatANodeSaysMovesNoCursor: and it is still found what it is.
func TestWhatANodeSaysMovesNoCursor(t *testing.T) {
	e := ending{Text: "gone\x1b[2J\r", Class: "no device"}
	err := e.error("node 1")
	if err.Error() != "node 1: gone?[2J?" || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("%q", err)
	}
}
