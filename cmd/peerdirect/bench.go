package main

import (
	"io"

	"github.com/spf13/cobra"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the parts of a transfer cost on this machine",
		Example: `  peerdirect bench ladder
  peerdirect bench registration -d embedded --max 16M`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchRegistration(), newBenchLadder(), newBenchSimulate(), newBenchPath(), newBenchCollective())
	return cmd
}

// printMeasured prints what a measurement gave, unless it failed.
func printMeasured[R any](w io.Writer, r R, err error, asJSON bool, table func(io.Writer, R) error) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return perfJSON(w, r)
	}
	return table(w, r)
}
