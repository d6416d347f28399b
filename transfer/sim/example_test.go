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
	fmt.Println("simulated:", f.Gbits > 0.9*f.Limit.Gbits, "- more than 90 % of what the model allows, set by the", f.Limit.By)
	// Output: simulated: true - more than 90 % of what the model allows, set by the line
}
