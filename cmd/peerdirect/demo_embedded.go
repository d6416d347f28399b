package main

import (
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/spf13/cobra"
)

// runEmbedded moves the pages between two nodes in this process.
func (d *demoFlags) runEmbedded(cmd *cobra.Command, layout pages.Layout) error {
	stages := newDemoStages(cmd.ErrOrStderr())
	stages.begin("devices", fmt.Sprintf("two nodes with %d software EFA devices each, joined by a fabric", d.nics))
	embedded, err := transfer.NewEmbedded(transfer.EmbeddedOptions{Nodes: 2, NICs: d.nics})
	if err != nil {
		stages.end()
		return err
	}
	defer embedded.Close()
	o := pages.Options{Version: version(), Tell: stages.tell}
	sent, received, err := pages.Inside(cmd.Context(), embedded, demoSender, demoReceiver, o, pages.SendOptions{Layout: layout}, nil)
	stages.end()
	if sent == nil || received == nil || received.PageOK == nil {
		return err // there is nothing to be drawn
	}
	if show := d.show(cmd.OutOrStdout(), sent, received, received.PageOK); err == nil {
		err = show
	}
	if err == nil && !d.json {
		fmt.Fprintln(cmd.ErrOrStderr(), `
The same between two virtual machines with stock kernels:
  peerdirect demo --lab             their software RoCE device
  peerdirect demo --lab --efa 4     EFA devices under the upstream driver`)
	}
	return err
}
