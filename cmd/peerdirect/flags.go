package main

import (
	"cmp"
	"fmt"
	"net"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/transfer/report"
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

// positive is an error if a flag was given that must be above 0: its zero value
// stands for the default.
func positive(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		given := f.Lookup(name)
		if !given.Changed {
			continue
		}
		switch v := given.Value.String(); {
		case v == "", v == "0", v == "0s", v == report.Bytes(0).String(), strings.HasPrefix(v, "-"):
			return usageError{fmt.Errorf("--%s %s: it must be above 0", name, cmp.Or(v, "0"))}
		}
	}
	return nil
}

// checkAddress is an error if addr, HOST:PORT, cannot be one, whoever has that name.
// what says where it was given.
func checkAddress(what, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port) // of a number it tells the range
	}
	if err != nil || strings.Contains(host, ":") && net.ParseIP(strings.Split(host, "%")[0]) == nil {
		return usageError{fmt.Errorf("%s: %q is no address: give HOST, HOST:PORT or [IPv6]:PORT, with a port up to 65535", what, addr)}
	}
	return nil
}
