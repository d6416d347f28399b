package sim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/peerdirect/peerdirect/transfer/sim"
)

// One node of 32 NICs writes to another, on a virtual clock: the same run gives the
// same figures on every machine. They are of a simulation, and said to be.
func ExampleSimulate() {
	f, err := sim.Simulate(context.Background(), sim.Run{Shape: sim.P5, Pattern: sim.Pair, Transfers: 50, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("simulated: %.0f Gbit/s, %.0f %% of the line\n", f.Gbits, 100*f.OfLine)
	// Output: simulated: 3032 Gbit/s, 95 % of the line
}
