package main

import "github.com/spf13/cobra"

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the parts of a transfer cost on this machine",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchRegistration(), newBenchLadder(), newBenchSimulate(), newBenchPath(), newBenchCollective())
	return cmd
}
