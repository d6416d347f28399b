package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/peerdirect/peerdirect/internal/regbench"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/mrcache"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newBenchRegistration() *cobra.Command {
	var (
		o              regbench.Options
		device, memory string
		smallest       report.Bytes
		largest        report.Bytes
		asJSON, trace  bool
	)
	cmd := &cobra.Command{
		Use:   "registration",
		Short: "Compare registering for each transfer, a cache, and one pool",
		Long: `registration measures what it costs to make memory reachable for a NIC:

  each time   registered before a transfer and deregistered after it
  cached      asked of the registration cache, which has it in so many of a
              hundred cases; in the others it first ends another registration
  whole pool  registered once; a transfer finds its piece

and what another piece costs when much is registered already, with the lowest or
the highest addresses first. Nothing is transferred. With --memory each piece is
exported as a dma-buf before it is registered, which counts. Of several devices
all register each piece, one after the other.

Sizes go in fours from --min to what the machine allows: the device's
max_mr_size, the memlock limit, half of the free memory, 1 GiB; --max asks for
another end. Values are medians over the runs of means in each; --json has their
extremes too.

Exit codes: 1 interrupted, or the device or the kernel refused; 2 a flag that
makes no sense; 3 no such device or memory; 4 no permission; 5 memory that is
not supported here, or not by this device.`,
		Example: `  peerdirect bench registration -d embedded --max 16M --rounds 3 --hits 0,95,100
  peerdirect bench registration -d efa_0 --json
  peerdirect bench registration -d mlx5_0 --memory cuda:0 --max 16G`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd.Flags(), "min", "max", "rounds", "duration"); err != nil {
				return err
			}
			if o.Runs < 1 || o.Each <= 0 {
				return usageError{fmt.Errorf("--rounds %d, --duration %v: both must be above 0", o.Runs, o.Each)}
			}
			o.Min, o.Max = uint64(smallest), uint64(largest)
			var err error
			if o.Memory, err = memoryNamed(memory); err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			rail, embedded, err := openDevices(device, transfer.RCOptions{}, stderr)
			if err != nil {
				return err
			}
			defer embedded.Close()
			o.Rail = rail
			tell, end := benchProgress(stderr)
			if tell != nil {
				o.Tell = func(p regbench.Progress) { tell(p.Done, p.Total, p.What) }
			}
			if trace {
				// Nothing that is overwritten among the lines.
				o.Tell, end = nil, func() {}
				lines := log.New(stderr, "", 0)
				o.Trace = func(e mrcache.Event) { lines.Print(e) }
			}
			r, err := regbench.Run(cmd.Context(), o)
			end()
			return printMeasured(cmd.OutOrStdout(), r, err, asJSON, regbench.Table)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&device, "device", "d", "", deviceUsage)
	f.StringVarP(&memory, "memory", "m", transfer.HostMemory, memoryUsage("the"))
	f.Var(&smallest, "min", "smallest `size`, bytes, a power of two (default 4K)")
	f.Var(&largest, "max", "largest `size`, bytes, which the pool has too (default as above)")
	f.IntSliceVar(&o.Hits, "hits", []int{0, 50, 90, 99, 100}, "shares of hits in the cache, `percent`")
	f.IntVarP(&o.Runs, "rounds", "n", 5, "rounds through everything; medians count")
	f.DurationVar(&o.Each, "duration", 20*time.Millisecond, "how long a value is measured in each round")
	f.BoolVar(&trace, "trace", false, "a line on standard error for each registration that the cache makes or ends, with what it took and why; the lines cost time, which the values have")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON, schema "+regbench.Schema)
	completeMemory(cmd)
	completeDevices(cmd, "efa", transfer.EmbeddedName)
	return cmd
}

// benchProgress shows on a terminal what is measured, on one line that end takes
// away.
func benchProgress(w io.Writer) (tell func(done, total int, what string), end func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	tell = func(done, total int, what string) {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns < 20 {
			columns = 80
		}
		fmt.Fprintf(f, "\r%s\x1b[K", cut(fmt.Sprintf("%3d%%  %s", 100*done/total, what), columns-1))
	}
	return tell, func() { fmt.Fprint(f, "\r\x1b[K") }
}
