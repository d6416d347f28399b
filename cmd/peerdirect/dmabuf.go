package main

import "github.com/spf13/cobra"

// dmabufCommands lists the constructors below 'peerdirect dmabuf'.
var dmabufCommands = []func() *cobra.Command{newDMABufList, newDMABufShow, newDMABufCheck, newDMABufProbe}

func newDMABuf() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dmabuf",
		Short: "Show who exports memory to NICs, and whether they take it",
		Long: `dmabuf is about memory that a NIC reaches by a dma-buf: a descriptor that the
memory's driver exports. list shows the drivers that this program can ask, show
the dma-bufs that a process holds. check says whether the kernel would register
one, and if not by which rule; probe tries every exporter with every RDMA
device.`,
		Example: `  peerdirect dmabuf list
  peerdirect dmabuf probe`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, add := range dmabufCommands {
		cmd.AddCommand(add())
	}
	return cmd
}
