package pages

import (
	"errors"
	"slices"
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

// TestVerdictsThatCannotBe verify nothing.
func TestVerdictsThatCannotBe(t *testing.T) {
	digest := [digestSize]byte{1}
	for name, m := range map[string]letter{
		"another checksum": {digest: [digestSize]byte{2}},
		"too many":         {bad: 4, digest: digest},
		"not a page":       {bad: 1, listed: []byte{0, 0, 0, 3}, digest: digest},
	} {
		if _, err := differing(&m, 3, digest); !errors.Is(err, errLetter) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if bad, err := differing(&letter{bad: 3, listed: []byte{0, 0, 0, 0, 0, 0, 0, 2}}, 3, digest); err != nil || !slices.Equal(bad, []int{0, 2}) {
		t.Errorf("%v, %v", bad, err)
	}
	if _, err := differing(&letter{digest: digest}, 3, digest); err != nil {
		t.Error(err)
	}
}
