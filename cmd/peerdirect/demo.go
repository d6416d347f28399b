package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

// demoFlags say what the demonstration moves, and on what.
type demoFlags struct {
	pages  int
	page   report.Bytes
	stride report.Bytes
	seed   uint64
	nics   int
	lab    bool
	kernel string
	link   string
	efa    int
	json   bool
}

const demoSchema = "peerdirect.demo/3"

func newDemo() *cobra.Command {
	d := demoFlags{page: 64 << 10}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Move pages by RDMA from one node to another, and draw it",
		Long: `demo moves scattered pages of one node's memory into scattered pages of
another's, as 'peerdirect transfer' does, and draws both memories as the
receiver found them, page by page, the path that the bytes took, their rate and
latency.

By itself it runs at once, anywhere: both nodes are in this process, and their
NICs are software EFA devices, driven through the same rings as hardware is.

With --lab the nodes are virtual machines with stock kernels and a software RDMA
device each (--link), or with EFA devices under the unmodified upstream driver
(--efa). The lab is built first, if it is not there yet, from Debian's packages:
that takes some minutes, once.

The picture takes 60 columns; a narrower terminal is told the result in words.

Exit codes: 0 moved and verified; 1 it failed or was interrupted; 2 usage; 6
pages differ.`,
		Example: `  peerdirect demo
  peerdirect demo --pages 2048 --page-size 4K --nics 8
  peerdirect demo --json | jq '.receiver.verified'
  peerdirect demo --lab --efa 2                 # two virtual machines`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&d.pages, "pages", 512, "how many pages to move")
	f.Var(&d.page, "page-size", "bytes of a page, a power of two, as 4K")
	f.Var(&d.stride, "stride", "bytes from one page to the next in the source, a multiple of the page size (default twice that)")
	f.Uint64Var(&d.seed, "scatter", 1, "`seed` that scatters the pages in the target; 0 keeps them in order")
	f.IntVar(&d.nics, "nics", 4, "NICs of each node in this process")
	f.BoolVar(&d.lab, "lab", false, "between two virtual machines instead")
	f.StringVar(&d.kernel, "kernel", lab.DefaultKernel, "with --lab: kernel `series`, "+strings.Join(lab.KernelSeries(), ", "))
	f.StringVar(&d.link, "link", string(lab.LinkRXE), "with --lab: RDMA `driver` of the machines, rxe or siw")
	f.IntVar(&d.efa, "efa", 0, "with --lab: EFA `devices` of each machine, which are used instead (default none)")
	f.BoolVar(&d.json, "json", false, "print both sides' results as JSON, schema "+demoSchema)
	complete(cmd, "kernel", lab.KernelSeries()...)
	complete(cmd, "link", string(lab.LinkRXE), string(lab.LinkSIW))
	cmd.AddCommand(newDemoNode())
	return cmd
}

// demoMemory is what each side can spare, bytes: a machine of the lab has not
// much more.
const demoMemory = 256 << 20

func (d *demoFlags) run(cmd *cobra.Command) error {
	f := cmd.Flags()
	if err := positive(f, "page-size", "stride", "nics", "efa"); err != nil {
		return err
	}
	for _, name := range []string{"kernel", "link", "efa"} {
		if f.Changed(name) && !d.lab {
			return usageError{fmt.Errorf("--%s is for --lab", name)}
		}
	}
	if f.Changed("nics") && d.lab {
		return usageError{errors.New("--nics is for nodes in this process; --lab takes --efa")}
	}
	if d.nics < 1 || d.nics > transfer.MaxNICs {
		return usageError{fmt.Errorf("--nics %d: a node has 1 to %d", d.nics, transfer.MaxNICs)}
	}
	layout, err := layoutOf(pages.Layout{Pages: d.pages, Seed: d.seed}, d.page, d.stride)
	switch {
	case err != nil:
		return err
	case layout.Span() > demoMemory:
		return usageError{fmt.Errorf("the pages span %v; a node of the demonstration has %v for them", report.Bytes(layout.Span()), report.Bytes(demoMemory))}
	}
	if d.lab {
		return d.runLab(cmd, layout)
	}
	return d.runEmbedded(cmd, layout)
}

// show draws a transfer, which pages that differ do not prevent.
func (d *demoFlags) show(w io.Writer, sent, received *pages.Result, pageOK []bool) error {
	if d.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"schema": demoSchema, "sender": sent, "receiver": received})
	}
	columns, colour := terminal(w)
	return picture(w, report.Sides{
		From: "node1", To: "node0", Sent: sent, Received: received, PageOK: pageOK,
	}, report.Style{Columns: columns, Colour: colour})
}

// picture draws both sides, or has each tell its result where there is no room.
func picture(w io.Writer, s report.Sides, style report.Style) error {
	if style.Columns >= report.LeastColumns {
		return report.Picture(w, s, style)
	}
	fmt.Fprintf(w, "The picture takes %d columns, and this terminal has %d. In words:\n\n", report.LeastColumns, style.Columns)
	if err := report.Text(w, s.Sent); err != nil {
		return err
	}
	return report.Text(w, s.Received)
}
