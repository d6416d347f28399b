package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

// demoFlags say what the demonstration moves, and on what.
type demoFlags struct {
	pages  int
	page   report.Bytes
	stride report.Bytes
	seed   uint64
	kernel string
	link   string
	json   bool
}

func newDemo() *cobra.Command {
	d := demoFlags{page: 64 << 10}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Boot two machines, move pages by RDMA from one to the other, and draw it",
		Long: `demo boots two virtual machines of the lab and moves scattered pages of the one's
memory into scattered pages of the other's, as 'peerdirect transfer' does between
real ones. Then it draws both memories as the receiver found them, page by page,
the path that the bytes took, their rate and latency. It needs no RDMA hardware:
each machine has a stock kernel with a software RDMA device. The lab is built
first, if it is not there yet.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&d.pages, "pages", 512, "how many pages to move")
	f.Var(&d.page, "page-size", "bytes of a page, a power of two, as 4K")
	f.Var(&d.stride, "stride", "bytes from one page to the next in the source, a multiple of the page size; default: twice that")
	f.Uint64Var(&d.seed, "scatter", 1, "`seed` that scatters the pages in the target; 0 keeps them in order")
	f.StringVar(&d.kernel, "kernel", lab.DefaultKernel, "kernel series: "+fmt.Sprint(lab.KernelSeries()))
	f.StringVar(&d.link, "link", string(lab.LinkRXE), "RDMA driver of the machines: rxe or siw")
	f.BoolVar(&d.json, "json", false, "print both sides' results as JSON instead of the picture")
	cmd.AddCommand(newDemoNode())
	return cmd
}

// Nodes of the demonstration, and the files in which they leave their results.
const (
	demoReceiver = 0
	demoSender   = 1
	demoMemory   = 256 << 20 // bytes that each machine can spare
)

func (d *demoFlags) run(cmd *cobra.Command) error {
	kernel, err := lab.KernelBySeries(d.kernel)
	if err != nil {
		return usageError{err}
	}
	layout, err := layoutOf(transfer.Layout{Pages: d.pages, Seed: d.seed}, d.page, d.stride)
	switch {
	case err != nil:
		return err
	case layout.Span() > demoMemory:
		return usageError{fmt.Errorf("the pages span %v; the machines of the demonstration have %v for them", report.Bytes(layout.Span()), report.Bytes(demoMemory))}
	case d.link != string(lab.LinkRXE) && d.link != string(lab.LinkSIW):
		return usageError{fmt.Errorf("--link %s: choose rxe or siw", d.link)}
	}
	out, err := os.MkdirTemp("", "peerdirect-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	stages := newDemoStages(cmd.ErrOrStderr())
	built, err := lab.Build(cmd.Context(), kernel, stages)
	if err != nil {
		return err
	}
	stages.begin("boot", fmt.Sprintf("two machines, linux %s, %s0", built.Release, d.link))
	text, err := json.Marshal(layout)
	if err != nil {
		return err
	}
	err = labError(lab.Run(cmd.Context(), lab.Options{
		Kernel: kernel, Nodes: 2, Link: lab.Link(d.link), Out: out, Agent: exe, Timeout: 5 * time.Minute,
		Command: []string{filepath.Base(exe), "demo", "node", string(text)},
		Stdout:  stages, Stderr: cmd.ErrOrStderr(), Log: cmd.ErrOrStderr(),
	}))
	stages.end()
	if errors.Is(err, context.Canceled) {
		return transfer.ErrCancelled
	}
	if show := d.show(cmd.OutOrStdout(), out); err == nil {
		err = show
	}
	return err
}

// demoResult is what a node leaves behind.
type demoResult struct {
	Result *transfer.Result `json:"result"`
	PageOK []bool           `json:"page_ok,omitempty"`
}

func demoFile(dir string, node int) string {
	return filepath.Join(dir, fmt.Sprintf("node%d.json", node))
}

// show draws what the nodes left, which pages that differ do not prevent.
func (d *demoFlags) show(w io.Writer, dir string) error {
	var nodes [2]demoResult
	for i := range nodes {
		b, err := os.ReadFile(demoFile(dir, i))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, &nodes[i]); err != nil {
			return err
		}
	}
	sent, received := nodes[demoSender], nodes[demoReceiver]
	if d.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"schema": "peerdirect.demo/1", "sender": sent.Result, "receiver": received.Result})
	}
	columns, colour := terminal(w)
	return report.Picture(w, report.Sides{
		From: "node1", To: "node0", Sent: sent.Result, Received: received.Result, PageOK: received.PageOK,
	}, report.Style{Columns: columns, Colour: colour})
}
