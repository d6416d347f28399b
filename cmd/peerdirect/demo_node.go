package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/spf13/cobra"
)

// newDemoNode is what the demonstration's machines run: one receives, the other
// sends.
func newDemoNode() *cobra.Command {
	return &cobra.Command{
		Use:    "node ORDER",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var order demoOrder
			if err := json.Unmarshal([]byte(args[0]), &order); err != nil {
				return usageError{err}
			}
			node, err := strconv.Atoi(os.Getenv("PEERDIRECT_NODE"))
			if err != nil {
				return usageError{fmt.Errorf("this is for the machines of the demonstration: PEERDIRECT_NODE: %w", err)}
			}
			result, err := demoNode(cmd, node, order)
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

func demoNode(cmd *cobra.Command, node int, order demoOrder) (*pages.Result, error) {
	o := pages.Options{Version: version()}
	device := os.Getenv("PEERDIRECT_DEVICE")
	if all := os.Getenv("PEERDIRECT_EFA"); all != "" {
		device = all
	}
	var err error
	if o.Rail, err = transfer.Named(device, transfer.RCOptions{}); err != nil {
		return nil, err
	}
	if o.Credentials, err = control.Token(order.Token); err != nil {
		return nil, err
	}
	o.Control.Window = 30 * time.Second
	if node == demoSender {
		// A line of JSON for each thing that the host is to show.
		out := json.NewEncoder(cmd.OutOrStdout())
		o.Tell = func(p pages.Progress) { out.Encode(p) }
	}
	n, err := pages.Open(o)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	if node == demoSender {
		results, err := n.To(cmd.Context(), []string{withPort(os.Getenv("PEERDIRECT_PEERS"))}, pages.SendOptions{Layout: order.Layout})
		if len(results) == 0 {
			return nil, err
		}
		return results[0], err
	}
	l, err := n.Listen(cmd.Context(), withPort(os.Getenv("PEERDIRECT_ADDR")), pages.ListenOptions{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Receive(cmd.Context())
}
