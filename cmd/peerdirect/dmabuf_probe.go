package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/internal/dmabufprobe"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newDMABufProbe() *cobra.Command {
	var (
		o      dmabufprobe.Options
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Try every exporter with every RDMA device, and say what works",
		Long: `probe allocates a few pages of each exporter's memory, exports one of them,
registers it with each RDMA device, has the device move it into host memory and
other bytes back, compares, and takes all down again. The matrix has a verdict
in each cell:

  moved    the bytes went out and in again, and nothing beside them changed
  refused  the kernel, the device or the exporter said no, and it is known why
  absent   the exporter cannot be used on this machine
  differs  bytes came out wrong
  failed   something went wrong that should not

The row 'host' is ordinary memory by its address: where it does not move, the
device is at fault and not the dma-buf. The device talks to itself; no other
machine is needed, and no more than a page is moved.

Exit codes: 0 every cell moved, or was refused or absent for a known reason; 1 a
cell failed; 3 no RDMA device; 6 bytes differ.`,
		Example: `  peerdirect dmabuf probe
  peerdirect dmabuf probe --embedded --exporter host
  peerdirect dmabuf probe --device mlx5_0 --exporter udmabuf --exporter cuda:0
  peerdirect dmabuf probe --json --embedded | jq '.cells[].verdict'`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			stderr := cmd.ErrOrStderr()
			clear := func() {}
			if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				o.Progress = func(exporter, device string) { fmt.Fprintf(stderr, "\r\x1b[K%s on %s", exporter, device) }
				clear = func() { fmt.Fprint(stderr, "\r\x1b[K") }
			}
			m, err := dmabufprobe.Run(cmd.Context(), o)
			clear()
			if errors.As(err, new(*dmabufprobe.NameError)) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), m)
			} else {
				err = m.Write(cmd.OutOrStdout())
			}
			switch worst := m.Worst(); {
			case err != nil:
				return err
			case worst == dmabufprobe.Differs:
				return exitStatus(exitVerify)
			case worst == dmabufprobe.Failed:
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.Exporters, "exporter", "e", nil, "only this `exporter`, or host; repeatable (default all)")
	f.StringArrayVarP(&o.Devices, "device", "d", nil, "only this RDMA `device`; repeatable (default all)")
	f.BoolVar(&o.Embedded, "embedded", false, "a software EFA device in this process: alone, or with --device beside others")
	f.BoolVar(&asJSON, "json", false, "print JSON, schema "+dmabufprobe.Schema)
	cmd.RegisterFlagCompletionFunc("exporter", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		names := []string{dmabufprobe.HostMemory}
		for _, e := range dmabuf.Exporters() {
			names = append(names, e.Name())
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	completeDevices(cmd)
	return cmd
}
