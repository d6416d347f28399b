package main

import (
	"time"

	"github.com/peerdirect/peerdirect/internal/bench/ladder"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

func newBenchLadder() *cobra.Command {
	var o ladder.Options
	pages := report.Bytes(64 << 10)
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ladder",
		Short: "Measure what each part of the engine's design is worth",
		Long: `ladder moves pages between two nodes inside this process over paced software
NICs, by rungs: each drives the NICs as the one before it does, and in one way
better. It needs no device and no privilege.

Without --gbps it first finds how much the machine moves when nothing is paced,
and paces the NICs to 40 % of that together; the rate is printed. Where the
machine cannot keep up with the NICs, the table shows the machine.

Rungs run one after the other, in rounds; medians count. A rung is timed from
the first submission to the last completion, with new devices and connections:
"first" is how long the first operation took.

Exit codes: 1 interrupted, or it failed; 2 a flag that makes no sense.`,
		Example: `  peerdirect bench ladder
  peerdirect bench ladder --nics 8 --gbps 2 --page-size 4K --rounds 5
  peerdirect bench ladder --json`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd.Flags(), "nics", "gbps", "page-size", "workers", "rounds", "duration"); err != nil {
				return err
			}
			o.PageSize = int(pages)
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			tell, end := benchProgress(cmd.ErrOrStderr())
			if tell != nil {
				o.Tell = func(p ladder.Progress) { tell(p.Done, p.Total, p.What) }
			}
			r, err := ladder.Run(cmd.Context(), o)
			end()
			return printMeasured(cmd.OutOrStdout(), r, err, asJSON, ladder.Table)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.NICs, "nics", 32, "NICs of each node")
	f.Float64Var(&o.Gbps, "gbps", 0, "rate of each NIC, `Gbit/s` (default as above)")
	f.Var(&pages, "page-size", "bytes of a page, as 4K")
	f.IntVar(&o.Workers, "workers", 0, "workers of the rungs with several (default one for 4 NICs, at most one for each CPU)")
	f.IntVarP(&o.Rounds, "rounds", "n", 3, "rounds through all rungs; medians count")
	f.DurationVar(&o.Duration, "duration", time.Second, "how long a rung takes in each round, at line rate")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON, schema "+ladder.Schema)
	return cmd
}
