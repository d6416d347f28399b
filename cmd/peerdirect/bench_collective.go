package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/peerdirect/peerdirect/internal/bench/collective"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

// embeddedMost is the largest size among nodes in one process, which share its memory
// and CPUs, unless another is given.
const embeddedMost = 16 << 20

// collectiveFlags say which node this is, and how it proves itself.
type collectiveFlags struct {
	o              collective.Options
	p              collective.Place
	device, memory string
	sizes          []string
	least, most    report.Bytes
	credentials    credentialFlags
	svg            string
	json           bool
}

func newBenchCollective() *cobra.Command {
	var b collectiveFlags
	cmd := &cobra.Command{
		Use:   "collective",
		Short: "Find where all-reduce and all-gather lose efficiency, and by what",
		Long: `collective does all-reduce and all-gather over a ring of nodes, by sizes and
numbers of nodes, in four ways: direct from registered memory into registered
memory; the same with the memory registered for each operation; through host
memory, into which and out of which every byte is copied; and by TCP. It prints
the bus bandwidth of each, how efficient more nodes are than the fewest, and a
verdict: where the curve falls, and which hop, path, registration or placement
it comes of. Results are compared, bit for bit, before and after the times are
taken.

On a machine without any RDMA device all nodes are inside this process, on
software EFA devices, which takes a minute. Otherwise run it on every node, with
the same --peers and each with its own --rank; node 0 listens on its address
there, leads, and prints. The nodes prove themselves to each other by
certificates ('peerdirect cert') or by a token, which --token-file or
PEERDIRECT_TOKEN gives without showing it. A lab's machines (PEERDIRECT_NODES)
know their peers.

The CPU makes the sums. Of an accelerator's memory (--memory) the elements that
are added are therefore copied to the host by every path; the rest of what is
direct is not.

Exit codes: 1 a node was lost or did not come, or it was interrupted; 2 a flag
that makes no sense; 3 no such device; 4 no permission, or wrong credentials; 5
memory that is not supported here, or not by this NIC; 6 a result differs.`,
		Example: `  peerdirect bench collective --max 1M          # nodes inside this process
  peerdirect bench collective -d embedded:nodes=4,nics=2,gbps=1 --svg curve.svg

  # Two machines, with certificates of one authority:
  peerdirect bench collective --rank 0 --peers 192.0.2.1:18632,192.0.2.2:18632 \
    --cert node-0.pem --key node-0.key --ca authority.pem
  peerdirect bench collective --rank 1 --peers 192.0.2.1:18632,192.0.2.2:18632 \
    --cert node-1.pem --key node-1.key --ca authority.pem`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntSliceVar(&b.o.Nodes, "nodes", nil, "how many nodes take part, the first ones (default 2, 4, … and all)")
	f.StringSliceVar(&b.sizes, "sizes", nil, "`sizes` of the vector at each node, bytes, as 1K,64K,1M (default by --min and --max)")
	f.Var(&b.least, "min", "smallest `size`, bytes, as 4K (default 1K)")
	f.Var(&b.most, "max", "largest `size`, by powers of 4 (default 256M, of nodes in this process 16M)")
	f.StringSliceVar(&b.o.Operations, "operation", nil, "`operations`: all-reduce, all-gather (default both)")
	f.IntVarP(&b.o.Rounds, "rounds", "n", 3, "rounds through all paths; medians count")
	f.DurationVar(&b.o.Duration, "duration", 0, "how long a path is measured in each round (default 100ms, of nodes in this process 20ms)")
	f.BoolVar(&b.o.Unverified, "no-verify", false, "do not compare results")
	f.DurationVar(&b.o.Timeout, "timeout", 0, "how long a node may be silent (default 30s)")
	f.IntVar(&b.p.Rank, "rank", 0, "this node's `number`, from 0 (default 0)")
	f.StringSliceVar(&b.p.Peers, "peers", nil, "`host:port` of every node, this one's too, in the order of their numbers (default none: nodes inside this process)")
	f.DurationVar(&b.p.Wait, "wait", 0, "how long nodes are waited for (default 1m)")
	b.credentials.register(f)
	f.StringVarP(&b.device, "device", "d", "", deviceUsage)
	f.StringVarP(&b.memory, "memory", "m", transfer.HostMemory, memoryUsage("this node's"))
	f.StringVar(&b.svg, "svg", "", "draw the curves into this `file` (default none)")
	f.BoolVar(&b.json, "json", false, "print the result as JSON, schema "+collective.Schema)
	completeMemory(cmd)
	complete(cmd, "operation", collective.AllReduce, collective.AllGather)
	completeDevices(cmd, "efa", transfer.EmbeddedName)
	return cmd
}

func (b *collectiveFlags) run(cmd *cobra.Command) error {
	err := positive(cmd.Flags(), "min", "max", "rounds", "duration", "timeout", "wait")
	if err != nil {
		return err
	}
	if b.o.Sizes, err = parseSizes(b.sizes); err != nil {
		return err
	}
	b.o.Min, b.o.Max = uint64(b.least), uint64(b.most)
	if b.p.Memory, err = memoryNamed(b.memory); err != nil {
		return err
	}
	if err := b.lab(); err != nil {
		return err
	}
	tell, end := benchProgress(cmd.ErrOrStderr())
	if tell != nil {
		b.o.Tell = func(p collective.Progress) { tell(p.Done, p.Total, p.What) }
	}
	r, err := b.measure(cmd, end)
	if err != nil {
		return err
	}
	if r == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "node %d is done; node 0 has the result\n", b.p.Rank)
		return nil
	}
	return b.show(cmd.OutOrStdout(), r)
}

// measure takes this node's part, or everybody's.
func (b *collectiveFlags) measure(cmd *cobra.Command, end func()) (*collective.Report, error) {
	defer end()
	if len(b.p.Peers) == 0 {
		return b.inside(cmd)
	}
	if err := b.p.Check(); err != nil {
		return nil, usageError{err}
	}
	if err := b.o.Check(len(b.p.Peers)); err != nil {
		return nil, usageError{err}
	}
	var err error
	if b.p.Credentials, err = b.credentials.read(); err != nil {
		return nil, err
	}
	rails, embedded, err := openDevices(b.device, transfer.RCOptions{}, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	if embedded != nil {
		embedded.Close()
		return nil, usageError{errors.New("software devices of several processes do not reach each other here: leave out --peers, and all nodes are inside this process")}
	}
	b.p.Rails = rails
	return collective.Run(cmd.Context(), b.o, b.p)
}

// inside runs all nodes in this process.
func (b *collectiveFlags) inside(cmd *cobra.Command) (*collective.Report, error) {
	device := b.device
	if device == "" && !transfer.HasDevices(os.DirFS("/")) {
		device = transfer.EmbeddedName + ":nodes=8"
		fmt.Fprintln(cmd.ErrOrStderr(), "no RDMA device on this machine: 8 nodes on software EFA devices inside this process (--device embedded:nodes=8)")
	}
	eo, ok, err := transfer.ParseEmbedded(device)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, usageError{errors.New("which nodes? Give --peers and --rank, or --device embedded:nodes=8 for nodes inside this process")}
	}
	if eo.Nodes == 0 {
		eo.Nodes = 2
	}
	if b.o.Max == 0 {
		b.o.Max = max(embeddedMost, b.o.Min)
	}
	if b.o.Duration == 0 {
		b.o.Duration = embeddedDuration
	}
	if err := b.o.Check(eo.Nodes); err != nil {
		return nil, usageError{err}
	}
	fabric, err := transfer.NewEmbedded(eo)
	if err != nil {
		return nil, err
	}
	defer fabric.Close()
	return collective.Embedded(cmd.Context(), b.o, fabric, b.p.Memory)
}
