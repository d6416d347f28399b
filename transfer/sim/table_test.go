package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/golden"
)

// TestTable: what a report looks like, of figures that are made up.
func TestTable(t *testing.T) {
	r := Run{Shape: P6B300, Nodes: 57, Pattern: Scatter, Seed: 3, Model: Model{Oversubscribed: 2, Costs: Costs{Factor: 3}}}
	if err := r.defaults(); err != nil {
		t.Fatal(err)
	}
	us := func(a, b, c float64) Spread {
		of := func(v float64) time.Duration { return time.Duration(v * 1000) }
		return Spread{of(a), of(b), of(c)}
	}
	f := &Figure{Run: r, Limit: Limit{Gbits: 1000, By: "window", Latency: 40 * time.Microsecond, Posting: 1500},
		Transfers: 200, Gbits: 900, OfLine: 0.14, OfLimit: 0.9, Latency: us(50, 60, 61.25), Posting: us(3.1, 3.5, 4),
		Called: us(5, 6, 7), Requests: 12.5e6, PerCore: 5e6, Busy: 0.3}
	var b bytes.Buffer
	if err := Table(&b, NewReport([]*Figure{f})); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "table.txt", b.Bytes())
	if got := spread([]Time{3000, 1000, 2000, 4000}); got != (Spread{3, 4, 4}) {
		t.Errorf("of 1 to 4 ns: %v", got)
	}
}
