package main

import (
	"github.com/peerdirect/peerdirect/internal/perf/benchlab"
	"github.com/spf13/cobra"
)

// newPerfBenchLab is what make bench-lab runs on two nodes of the lab.
func newPerfBenchLab() *cobra.Command {
	var o benchlab.Options
	cmd := &cobra.Command{
		Use:    "bench-lab",
		Short:  "Compare perf with perftest, in the lab",
		Hidden: true,
		Example: `  peerdirect lab run --nodes 2 --cpus 1 --timeout 30m --out build/bench -- \
    peerdirect perf bench-lab --out /peerdirect/out`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Stdout, o.Log = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return benchlab.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.Rounds, "rounds", 11, "runs of each tool and test; medians count")
	cmd.Flags().StringVar(&o.Only, "only", "", "tests whose name contains this")
	cmd.Flags().StringVar(&o.Out, "out", "", "folder for perf-LINK.json")
	return cmd
}
