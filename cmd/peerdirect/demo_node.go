package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/spf13/cobra"
)

// newDemoNode is what the demonstration's machines run: one receives, the other
// sends.
func newDemoNode() *cobra.Command {
	return &cobra.Command{
		Use:    "node LAYOUT",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var layout transfer.Layout
			if err := json.Unmarshal([]byte(args[0]), &layout); err != nil {
				return usageError{err}
			}
			node, err := strconv.Atoi(os.Getenv("PEERDIRECT_NODE"))
			if err != nil {
				return usageError{fmt.Errorf("this is for the machines of the demonstration: PEERDIRECT_NODE: %w", err)}
			}
			result, err := demoNode(cmd, node, layout)
			if result == nil {
				return err
			}
			b, failed := json.Marshal(demoResult{Result: result, PageOK: result.PageOK})
			if failed == nil {
				failed = os.WriteFile(demoFile("/peerdirect/out", node), b, 0o644)
			}
			if err == nil {
				err = failed
			}
			return err
		},
	}
}

func demoNode(cmd *cobra.Command, node int, layout transfer.Layout) (*transfer.Result, error) {
	o := transfer.Options{Program: version()}
	device := os.Getenv("PEERDIRECT_DEVICE")
	if all := os.Getenv("PEERDIRECT_EFA"); all != "" {
		device = all
	}
	var err error
	if o.Rail, err = transfer.Named(device, transfer.RCOptions{}); err != nil {
		return nil, err
	}
	ctx := cmd.Context()
	if node == demoReceiver {
		l, err := transfer.Listen(ctx, withPort(os.Getenv("PEERDIRECT_ADDR")), transfer.ListenOptions{Options: o})
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return l.Receive(ctx)
	}
	// A line of JSON for each thing that the host is to show.
	out := json.NewEncoder(cmd.OutOrStdout())
	o.Tell = func(p transfer.Progress) { out.Encode(p) }
	return transfer.To(ctx, withPort(os.Getenv("PEERDIRECT_PEERS")), transfer.SendOptions{
		Options: o, Layout: layout, Window: 30 * time.Second,
	})
}
