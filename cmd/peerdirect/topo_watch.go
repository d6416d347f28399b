package main

import (
	"context"
	"io"
	"io/fs"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/watch"
	"github.com/spf13/cobra"
)

// follow prints this machine's changes until it is interrupted. Captures do not
// change, and the kernel's events are of this machine.
func (o *topoOptions) follow(cmd *cobra.Command) error {
	root, err := o.source.open(nil)
	if err != nil {
		return err
	}
	return o.followRoot(cmd.Context(), root, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

func (o *topoOptions) followRoot(ctx context.Context, root fs.FS, stdout, stderr io.Writer) error {
	first := true
	read := func() (*pci.Topology, error) {
		t, problems := pci.Read(root)
		if !first {
			return t, problems
		}
		first = false
		if t == nil {
			return nil, o.source.failure(problems)
		}
		warn(stderr, problems, "topo --json has all")
		// Later a device of the overrides may go; at first it is a mistake.
		if _, err := t.Pair(o.pair); err != nil {
			return nil, overridesError(o.overrides, err)
		}
		return t, nil
	}
	for r, err := range watch.Watch(ctx, watch.Options{Interval: o.interval, Read: read, Pair: o.pair}) {
		if err != nil {
			return err
		}
		print := r.WriteText
		if o.json {
			print = r.WriteJSON
		}
		if err := print(stdout); err != nil {
			return err
		}
	}
	return nil
}
