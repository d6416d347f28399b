package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/bench/path"
	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
)

func newBenchPath() *cobra.Command {
	var (
		o                        path.Options
		smallest, largest, chunk = report.Bytes(4 << 10), report.Bytes(256 << 20), report.Bytes(2 << 20)
		ways                     []string
		unverified, asJSON       bool
	)
	cmd := &cobra.Command{
		Use:   "path [cuda:A cuda:B]",
		Short: "Measure the ways between two GPUs of this machine",
		Long: `path copies memory of one GPU to another of the same machine, by each way that
there is, and shows what it carries and how long one copy takes:

  peer-write      straight, with peer access; the source's GPU copies
  peer-read       the same; the destination's GPU copies
  without-access  cuMemcpyPeerAsync without peer access: the driver chooses
  pinned-piped    through pinned buffers of the host, in chunks, down and up at
                  once; of each NUMA node, where there are several
  pinned-plain    down into one pinned buffer, then up
  pageable        the same, through memory that is not pinned

"Back to back" copies are begun without waiting for the one before, up to
--depth of them or 256 MiB. All bytes that came are compared with what was sent.
Ways take turns; medians over the rounds count. At the end it says in words
which way is the best by size, what the others cost, and whether the topology
makes a detour.

It needs NVIDIA's driver, no toolkit. While copies are under way, it keeps one
CPU busy for each direction.

Exit codes: 1 interrupted, or the driver refused; 2 a pair or a flag that makes
no sense; 3 no driver, or no such GPU; 4 no permission; 5 no way that --ways
names; 6 bytes came that were not sent.`,
		Example: `  peerdirect bench path
  peerdirect bench path cuda:0 cuda:1 --max 1G --rounds 9
  peerdirect bench path --ways peer-write,pinned-piped --chunk 512K --json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := positive(cmd.Flags(), "min", "max", "chunk", "buffers", "depth", "rounds", "duration"); err != nil {
				return err
			}
			if o.GPUs, err = gpuPair(args); err != nil {
				return usageError{err}
			}
			o.Min, o.Max, o.Chunk, o.Trust = uint64(smallest), uint64(largest), uint64(chunk), unverified
			for _, w := range ways {
				o.Ways = append(o.Ways, path.Way(w))
			}
			if err := o.Check(); err != nil {
				return usageError{err}
			}
			if root, err := sysroot.Open("/"); err == nil {
				// What cannot be read of it is unknown in the report.
				o.Topology, _ = pci.Read(root)
			}
			tell, end := benchProgress(cmd.ErrOrStderr())
			if tell != nil {
				o.Tell = func(p path.Progress) { tell(p.Done, p.Total, p.What) }
			}
			r, err := path.Run(cmd.Context(), o)
			end()
			return printMeasured(cmd.OutOrStdout(), r, err, asJSON, path.Table)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&ways, "ways", nil, "`ways` to measure (default all)")
	f.Var(&smallest, "min", "smallest size, bytes; sizes go in fours")
	f.Var(&largest, "max", "largest size, bytes, up to 4G; memory is taken for it")
	f.Var(&chunk, "chunk", "bytes of a chunk of the way pinned-piped")
	f.IntVar(&o.Buffers, "buffers", 2, "buffers of the way pinned-piped, in each direction")
	f.IntVar(&o.Depth, "depth", 16, "copies under way, back to back")
	f.BoolVar(&o.Both, "both", true, "measure both directions at once as well")
	f.IntVarP(&o.Rounds, "rounds", "n", 5, "rounds through everything; medians count")
	f.DurationVar(&o.Duration, "duration", 20*time.Millisecond, "how long a value is measured in each round")
	f.BoolVar(&unverified, "no-verify", false, "do not compare what came with what was sent")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON, schema "+path.Schema)
	var names []string
	for _, w := range path.Ways() {
		names = append(names, string(w))
	}
	complete(cmd, "ways", names...)
	return cmd
}

// gpuPair reads the two names.
func gpuPair(args []string) (pair [2]int, err error) {
	switch len(args) {
	case 0:
		return [2]int{0, 1}, nil
	case 1:
		return pair, fmt.Errorf("%s alone is no path: name two GPUs, as cuda:0 cuda:1", args[0])
	}
	for i, name := range args {
		number, ok := strings.CutPrefix(name, "cuda:")
		if pair[i], err = strconv.Atoi(number); !ok || err != nil || pair[i] < 0 {
			return pair, fmt.Errorf("%q is no GPU: the names are cuda:0, cuda:1 and so on, as the driver counts them", name)
		}
	}
	return pair, nil
}
