package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/draw"
	"github.com/peerdirect/peerdirect/pci/report"
	"github.com/peerdirect/peerdirect/pci/watch"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// topoOptions are what topo is asked for.
type topoOptions struct {
	matrix, pairs, findings, json bool
	all                           bool
	svg, ncclXML                  string // files; "-" is standard output
	scheme                        string

	source topoSource
	from   string
	pciIDs string

	overrides string
	pair      pci.PairOptions

	watch    bool
	interval time.Duration
}

func newTopo() *cobra.Command {
	var o topoOptions
	cmd := &cobra.Command{
		Use:   "topo",
		Short: "Show where accelerators and NICs sit, and which are whose rails",
		Long: `topo shows the PCI Express tree of this machine: NUMA nodes, root complexes,
switches, devices, their links now and at most, and the rails of each
accelerator: the NICs that it should use. It reads files of the kernel only;
neither a vendor's driver nor a privilege is needed. As root it also tells what
kind of port each bridge is and whether access control turns peer-to-peer
traffic up to the root complex.

Instead of the tree it prints the distance of each pair (--matrix, as
nvidia-smi topo -m does), the pairing with its reasons (--pairs), what costs
bandwidth and what to do (--findings), or everything for programs (--json).
--svg and --nccl-xml write files, with one of these or alone.

Other machines are read from a capture ('peerdirect topo capture' makes one), a
folder that holds a /sys, or a topology file in the XML of NCCL or of hwloc.

A file of overrides has the last word on rails, one accelerator to a line:
"GPU0 = mlx5_0, mlx5_1", or "ignore = mlx5_4" or "also = eth4" for NICs.

What cannot be read is unknown, never guessed: "?" in the text, null in JSON.
What could not be read is told on standard error, and under "problems" in JSON.

--watch prints the devices and then what changes until it is interrupted:
devices that come and go, links, drivers, rails, findings. With --json one
record a line.

Exit codes: 0 shown, perhaps with parts unknown, or a watch was interrupted;
1 a file cannot be read or written, or is none of these; 2 usage, or a line of
the overrides that cannot be followed; 3 no PCI device; 4 no permission, and
nothing could be read.`,
		Example: `  peerdirect topo
  peerdirect topo --pairs --overrides rails.txt
  peerdirect topo --findings --svg node.svg
  peerdirect topo --json | jq '.pairs[] | {accelerator, rails}'
  peerdirect topo --nccl-xml nccl.xml           # NCCL_TOPO_FILE=nccl.xml
  peerdirect topo --matrix --from nccl.xml
  peerdirect topo --watch
  ssh node7 peerdirect topo capture - | peerdirect topo --sysroot -`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd.Flags()); err != nil {
				return usageError{err}
			}
			var err error
			if o.pair.Overrides, err = readOverrides(o.overrides); err != nil {
				return err
			}
			if o.watch {
				return o.follow(cmd)
			}
			return o.show(cmd)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.matrix, "matrix", false, "print the distances between accelerators and NICs")
	f.BoolVar(&o.pairs, "pairs", false, "print the rails of each accelerator, and why")
	f.BoolVar(&o.findings, "findings", false, "print what costs, how much, and what to do")
	f.BoolVar(&o.json, "json", false, "print JSON, schema "+report.Schema+" (--watch: "+watch.Schema+")")
	f.BoolVarP(&o.all, "all", "a", false, "leave nothing out of the tree, or of --findings")
	f.StringVar(&o.svg, "svg", "", "draw it into this `file`; - is standard output (default none)")
	f.StringVar(&o.scheme, "scheme", "auto", "`colours` of --svg: auto (as the screen's), light, dark")
	f.StringVar(&o.ncclXML, "nccl-xml", "", "write a topology `file` for NCCL; - is standard output (default none)")
	f.StringVar(&o.from, "from", "", "read this `file` of NCCL or hwloc, in XML; - is standard input (default none)")
	f.StringVar((*string)(&o.source), "sysroot", "", topoSourceUsage)
	f.StringVar(&o.overrides, "overrides", "", "`file` with the rails of accelerators (default none)")
	f.IntVar(&o.pair.Most, "rails", 0, "rails of an accelerator at most; 0 is no bound (default 0)")
	f.StringVar(&o.pciIDs, "pci-ids", "", "`file` that names devices (default this machine's pci.ids)")
	f.BoolVar(&o.watch, "watch", false, "print changes until interrupted")
	f.DurationVar(&o.interval, "interval", time.Second, "how often --watch looks by itself")
	complete(cmd, "scheme", schemes...)
	complete(cmd, "rails", "1", "2", "4", "8")
	cmd.MarkFlagFilename("svg", "svg")
	cmd.MarkFlagFilename("nccl-xml", "xml")
	cmd.MarkFlagFilename("from", "xml")
	cmd.MarkFlagFilename("sysroot", captureNames...)
	cmd.MarkFlagFilename("overrides")
	cmd.MarkFlagFilename("pci-ids", "ids", "gz")
	cmd.AddCommand(newTopoCapture())
	return cmd
}

// schemes are those of draw by their names.
var schemes = []string{draw.Auto: "auto", draw.Light: "light", draw.Dark: "dark"}

// check judges flags that do not go together.
func (o *topoOptions) check(f *pflag.FlagSet) error {
	for _, name := range []string{"svg", "nccl-xml", "from", "sysroot", "overrides", "pci-ids"} {
		if f.Changed(name) && f.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s needs a name", name)
		}
	}
	var out []string // what goes to standard output
	for _, name := range []string{"matrix", "pairs", "findings", "json"} {
		if f.Lookup(name).Value.String() == "true" {
			out = append(out, "--"+name)
		}
	}
	for _, name := range []string{"svg", "nccl-xml"} {
		if f.Lookup(name).Value.String() == "-" {
			out = append(out, "--"+name+" -")
		}
	}
	switch {
	case len(out) > 1:
		return fmt.Errorf("%s: choose one of them", strings.Join(out, " and "))
	case o.svg != "" && o.svg == o.ncclXML:
		return fmt.Errorf("--svg and --nccl-xml name the same file, %s", o.svg)
	case f.Changed("from") && f.Changed("sysroot"):
		return errors.New("--from and --sysroot each name a machine: choose one")
	case f.Changed("scheme") && o.svg == "":
		return errors.New("--scheme is for --svg")
	case !slices.Contains(schemes, o.scheme):
		return fmt.Errorf("--scheme %s: choose %s", o.scheme, strings.Join(schemes, ", "))
	case o.pair.Most < 0:
		return fmt.Errorf("--rails %d: 1 or more, or 0 for no bound", o.pair.Most)
	case o.all && !o.tree() && !o.findings:
		return errors.New("--all is for the tree and --findings; the others leave nothing out")
	case f.Changed("interval") && !o.watch:
		return errors.New("--interval is for --watch")
	case o.interval < 50*time.Millisecond:
		return fmt.Errorf("--interval %v: at least 50ms", o.interval)
	}
	if o.watch {
		for _, name := range []string{"matrix", "pairs", "findings", "all", "svg", "nccl-xml", "from", "sysroot", "pci-ids"} {
			if f.Changed(name) {
				return fmt.Errorf("--watch does not go with --%s: it prints changes of this machine", name)
			}
		}
		return nil
	}
	for _, name := range []string{"overrides", "rails"} {
		if f.Changed(name) && !o.pairing() {
			return fmt.Errorf("--%s is about rails, of which nothing that was asked for tells", name)
		}
	}
	return nil
}
