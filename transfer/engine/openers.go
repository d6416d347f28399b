package engine

import (
	"github.com/peerdirect/peerdirect/transfer"
)

// Specs makes a rail of each NIC that an opener has, driven by workers in turn.
func Specs(o transfer.Opener, want transfer.Want, workers int) []RailSpec {
	nics, ok := o.(transfer.NICs)
	if !ok {
		nics = transfer.NICs{o}
	}
	want.NICs, want.NoSpin = 1, true // the worker does
	specs := make([]RailSpec, len(nics))
	for i, nic := range nics {
		specs[i] = RailSpec{Worker: i % max(workers, 1), Open: func() (Rail, error) { return nic.Open(want) }}
	}
	return specs
}
