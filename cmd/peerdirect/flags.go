package main

import (
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// memoryUsage is of the flag that names memory; whose says of which side.
func memoryUsage(whose string) string {
	return whose + " `memory`: host, or that of a dma-buf exporter, as udmabuf, heap:system, accel:0, cuda:0"
}

// perftestNames lets perftest's long flags be written as there: with underscores,
// and with its word for the device.
func perftestNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if name == "ib-dev" {
		name = "device"
	}
	return pflag.NormalizedName(name)
}

// completeDevices offers this machine's RDMA devices to the shell for --device,
// and other names that it may have.
func completeDevices(cmd *cobra.Command, more ...string) {
	cmd.RegisterFlagCompletionFunc("device", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(inventory.Names(), more...), cobra.ShellCompDirectiveNoFileComp
	})
}
