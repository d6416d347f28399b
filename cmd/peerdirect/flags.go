package main

import (
	"strings"

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
