//go:build lab

package rdmacm_test

import (
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/golden"
)

// What the documentation shows does what it says, on a device.
func TestTheExampleConnects(t *testing.T) {
	addr := newMachine(t).addr
	var err error
	if got := golden.Stdout(t, func() { err = connect(within(t, time.Minute), addr) }); got != "connected: true\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
