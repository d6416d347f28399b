package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
)

func newTraceProbes() *cobra.Command {
	var (
		asJSON  bool
		purpose string
	)
	cmd := &cobra.Command{
		Use:   "probes",
		Short: "Show what would be attached to this kernel, and why not",
		Long: `probes shows the places in this kernel that the traces would attach to: their
role, the function and its module, in which way (fentry is the cheapest; a
kprobe does not hold the module), and why something cannot be used. Nothing is
attached.

A role may be played by one of several functions, which differ between kernels
and drivers: that most drivers' are not there is no fault. Without the needed
roles there is no trace; without another one only what it tells apart is
missing. What cannot be found out is unknown.

Exit codes: 0 every needed role has a place; 2 usage; 4 it would need more
privilege; 5 a needed role has none.`,
		Example: `  sudo peerdirect trace probes --purpose leaks
  sudo peerdirect trace probes --json`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			probes := ebpfprobes.Probes()
			if cmd.Flags().Changed("purpose") {
				var err error
				if probes, err = ofPurpose(probes, purpose); err != nil {
					return usageError{err}
				}
			}
			out := cmd.OutOrStdout()
			var err error
			if asJSON {
				err = tracereport.WriteProbes(out, probes)
			} else {
				err = tracereport.WriteProbesText(out, probes, terminalWidth(out))
			}
			if err != nil {
				return err
			}
			return ebpfprobes.Lacking(probes)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, schema "+tracereport.ProbesSchema)
	cmd.Flags().StringVar(&purpose, "purpose", "", "only those of one `trace`: registrations, completions, leaks, connections, errors (default all)")
	complete(cmd, "purpose", "registrations", "completions", "leaks", "connections", "errors")
	return cmd
}

// ofPurpose leaves the probes of one trace.
func ofPurpose(probes []ebpfprobes.Probe, purpose string) ([]ebpfprobes.Probe, error) {
	var left []ebpfprobes.Probe
	var purposes []string
	for _, p := range probes {
		if p.Purpose == purpose {
			left = append(left, p)
		}
		if !slices.Contains(purposes, p.Purpose) {
			purposes = append(purposes, p.Purpose)
		}
	}
	if len(left) == 0 {
		return nil, fmt.Errorf("--purpose %s: choose %s", purpose, strings.Join(purposes, ", "))
	}
	return left, nil
}
