package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/peerdirect/peerdirect/transfer/sim"
	"github.com/spf13/cobra"
)

func newBenchSimulate() *cobra.Command {
	var (
		r      sim.Run
		shape  string
		sizes  []string
		gbits  float64
		nics   int
		worker int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate the engine on many NICs and nodes (no measurement)",
		Long: `simulate runs the engine, unchanged, on a virtual clock and a modelled fabric:
NICs with a rate and a time for each request, a way with jitter, ports that take
one message after the other, and workers whose time goes by what they do, at
prices measured on one machine. What it prints are figures of a SIMULATION, to
be quoted as such; docs/simulation.md tells the inputs, their sources, and what
the model leaves out.

Shapes (--nics, --gbps and --workers change them):
` + shapesHelp() + `
Patterns:
  pair     one node writes to another
  all      every node writes to others, drawn by lot, as KV caches go
  scatter  one node writes a page to each of the others, again and again
  weights  half of the nodes write to each of the other half, by a schedule

A transfer is so many pages and a notice. "of limit" is against what the model
allows whatever the engine does, "set by" the line, the NICs' requests, the
workers' CPU, the fabric's core or the window of transfers on their way; "least"
is a bound on the mean latency. One seed gives the same figures each time.

Exit codes: 1 interrupted, or a run that failed; 2 a flag that makes no sense.`,
		Example: `  peerdirect bench simulate
  peerdirect bench simulate --shape p6-b300 --page-size 64K,1M --json
  peerdirect bench simulate --nodes 57 --pattern scatter --page-size 4K
  peerdirect bench simulate --nodes 128 --pattern all --page-size 64K \
    --transfers 50                              # takes minutes`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd.Flags(), "nics", "gbps", "workers", "nodes", "pages", "window", "transfers", "batch", "request", "latency", "depth", "oversubscribed", "cost-factor"); err != nil {
				return err
			}
			i := slices.IndexFunc(sim.Shapes(), func(s sim.Shape) bool { return s.Name == shape })
			if i < 0 {
				return usageError{fmt.Errorf("--shape %s: there are %s", shape, strings.Join(shapeNames(), ", "))}
			}
			r.Shape = sim.Shapes()[i]
			for _, c := range []struct {
				flag   string
				change func()
			}{
				{"nics", func() { r.Shape.NICs = nics }},
				{"gbps", func() { r.Shape.Gbits = gbits }},
				{"workers", func() { r.Shape.Workers = worker }},
			} {
				if cmd.Flags().Changed(c.flag) {
					c.change()
				}
			}
			if r.Model.Jitter == 0 {
				r.Model.Jitter = -1 // none, where the model's zero is its default
			}
			runs := make([]sim.Run, len(sizes))
			for i, s := range sizes {
				var size report.Bytes
				if err := size.Set(s); err != nil {
					return usageError{fmt.Errorf("--page-size: %w", err)}
				}
				runs[i] = r
				runs[i].Page = uint64(size)
				if err := runs[i].Check(); err != nil {
					return usageError{err}
				}
			}
			tell, end := benchProgress(cmd.ErrOrStderr())
			defer end()
			var figures []*sim.Figure
			for i, one := range runs {
				if tell != nil {
					tell(i, len(runs), "pages of "+report.Bytes(one.Page).String())
				}
				f, err := sim.Simulate(cmd.Context(), one)
				if err != nil {
					return err
				}
				figures = append(figures, f)
			}
			end()
			result := sim.NewReport(figures)
			if asJSON {
				return perfJSON(cmd.OutOrStdout(), result)
			}
			return sim.Table(cmd.OutOrStdout(), result)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&shape, "shape", sim.P5.Name, "`shape` of the nodes: "+strings.Join(shapeNames(), ", "))
	f.IntVar(&nics, "nics", 0, "NICs of a node (default the shape's)")
	f.Float64Var(&gbits, "gbps", 0, "rate of each NIC, `Gbit/s` (default the shape's)")
	f.IntVar(&worker, "workers", 0, "workers of a node, each with as many NICs (default the shape's)")
	f.IntVar(&r.Nodes, "nodes", 2, "how many nodes there are")
	f.StringVar(&r.Pattern, "pattern", sim.Pair, "`pattern` of the traffic: "+strings.Join(sim.Patterns(), ", "))
	f.StringSliceVar(&sizes, "page-size", []string{"1K", "4K", "16K", "64K", "256K", "1M"}, "`sizes` of a page, bytes, a run for each, up to 1M")
	f.IntVar(&r.Pages, "pages", 64, "pages of a transfer")
	f.IntVar(&r.Window, "window", 32, "transfers of a node on their way at once")
	f.IntVar(&r.Transfers, "transfers", 200, "transfers that are measured, of each node that writes")
	f.IntVar(&r.Batch, "batch", 16, "requests that go to a NIC with one doorbell")
	f.Uint64Var(&r.Seed, "seed", 1, "seed of what is drawn by lot")
	f.DurationVar(&r.Model.Request, "request", 950*time.Nanosecond, "how long a request occupies a NIC at least")
	f.DurationVar(&r.Model.Latency, "latency", 8*time.Microsecond, "time from NIC to NIC")
	f.DurationVar(&r.Model.Jitter, "jitter", 2*time.Microsecond, "how late a message may be")
	f.IntVar(&r.Model.Depth, "depth", 2048, "requests that a NIC holds")
	f.Float64Var(&r.Model.Oversubscribed, "oversubscribed", 1, "how many times more all NICs carry than the fabric's core")
	f.Float64Var(&r.Model.Costs.Factor, "cost-factor", 1, "multiplies what the steps of workers cost")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON, schema "+sim.Schema)
	complete(cmd, "shape", shapeNames()...)
	complete(cmd, "pattern", sim.Patterns()...)
	return cmd
}

func shapeNames() (names []string) {
	for _, s := range sim.Shapes() {
		names = append(names, s.Name)
	}
	return names
}

func shapesHelp() string {
	var b strings.Builder
	for _, s := range sim.Shapes() {
		fmt.Fprintf(&b, "  %-8s %2d NICs of %v Gbit/s, %d workers\n", s.Name, s.NICs, s.Gbits, s.Workers)
	}
	return b.String()
}
