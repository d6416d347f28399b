package sim

import (
	"context"
	"testing"
)

// TestFewTransfers: a short run measures the steady state as a long one does, not the
// transfers that all began at once.
func TestFewTransfers(t *testing.T) {
	small := Shape{Name: "small", NICs: 4, Gbits: 100, Workers: 2}
	for _, pattern := range []string{Pair, All} {
		for _, transfers := range []int{5, 20, 50} {
			f, err := Simulate(context.Background(), Run{Shape: small, Pattern: pattern, Nodes: 4, Transfers: transfers})
			if err != nil {
				t.Fatal(err)
			}
			if f.OfLimit < 0.9 || f.OfLimit > 1.02 {
				t.Errorf("%s, %d transfers: %.4f of the limit", pattern, transfers, f.OfLimit)
			}
		}
	}
}
