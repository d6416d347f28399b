package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/spf13/cobra"
)

const railsUsage = "which NICs of --device: `names` with commas, how many, the first ones, or near: those that the machine's topology gives --memory (default all)"

// railsNear has the engine choose by topology.
const railsNear = "near"

// completeRails offers the NICs' names, which go together with commas, and near.
func completeRails(cmd *cobra.Command) {
	cmd.RegisterFlagCompletionFunc("rails", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(inventory.Names(), railsNear), cobra.ShellCompDirectiveNoFileComp
	})
}

// chooseRails gives those of an opener's NICs that --rails names.
func chooseRails(o transfer.Opener, rails string) (transfer.Opener, error) {
	if rails == "" || rails == railsNear {
		return o, nil
	}
	nics, ok := o.(transfer.NICs)
	if !ok {
		nics = transfer.NICs{o}
	}
	if n, err := strconv.Atoi(rails); err == nil {
		if n < 1 || n > len(nics) {
			return nil, usageError{fmt.Errorf("--rails %d: there are %d NICs (--device)", n, len(nics))}
		}
		return transfer.Several(nics[:n]...)
	}
	var have []string
	for _, nic := range nics {
		have = append(have, transfer.DeviceName(nic))
	}
	var chosen []transfer.Opener
	for i, name := range strings.Split(rails, ",") {
		at := slices.Index(have, name)
		if at < 0 {
			return nil, usageError{fmt.Errorf("--rails %s: %q is none of the NICs of --device, which are %s", rails, name, strings.Join(have, ", "))}
		}
		if slices.Contains(strings.Split(rails, ",")[:i], name) {
			return nil, usageError{fmt.Errorf("--rails %s names %s twice", rails, name)}
		}
		chosen = append(chosen, nics[at])
	}
	return transfer.Several(chosen...)
}
