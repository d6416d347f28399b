package engine

import (
	"errors"
	"testing"
)

// TestPagesBeyondAllAddresses: a page whose offset is more than 64 bits hold is
// outside of every region.
func TestPagesBeyondAllAddresses(t *testing.T) {
	first := Pages{Index: []uint32{0}}
	for _, far := range []Pages{
		{Offset: 1 << 32, Stride: 1 << 32, Index: []uint32{1<<32 - 1}},
		{Offset: 1 << 63, Stride: 1 << 32, Index: []uint32{1 << 31}},
	} {
		for _, w := range []work{{local: far, remote: first, size: 4096}, {local: first, remote: far, size: 4096}} {
			if _, err := w.check(1<<20, 1<<20); !errors.Is(err, ErrRange) {
				t.Errorf("%+v: %v", far, err)
			}
		}
	}
}
