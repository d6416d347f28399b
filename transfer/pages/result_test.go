package pages

import (
	"testing"
	"time"
)

// TestPagesThatAreNotComparedAreNotVerified: a transfer that ends between the arrival
// of an iteration's pages and their verdict says nothing of them.
func TestPagesThatAreNotComparedAreNotVerified(t *testing.T) {
	var r Result
	l := Layout{PageSize: 4096, Pages: 3, Stride: 1}
	r.moved(l, 1, time.Second)
	if r.verdict(nil, 0, [digestSize]byte{1}); !r.Verified {
		t.Fatal("a good verdict verifies nothing")
	}
	if r.moved(l, 2, 2*time.Second); r.Iterations != 2 || r.Verified || r.Checksum != "" {
		t.Errorf("the second iteration is not compared, and %s", show(&r))
	}
}
