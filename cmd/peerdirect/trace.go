package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/tracereport"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newTrace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Show what registration costs, on any process, while it runs",
		Long: `trace attaches small programs (BPF) to functions of the running kernel and shows
what RDMA costs there, on any process, without changing or restarting it. The
kernel counts into histograms; single calls are shown on request.

It needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, or root. Nothing stays attached
when it ends, however it ends.`,
		Example: `  sudo peerdirect trace registrations --duration 10s`,
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTraceProbes(), newTraceRegistrations(), newTraceCompletions(), newTraceLeaks(), newTraceConnections(), newTraceErrors())
	return cmd
}

// traceHelp is what the long help of every command that traces ends with.
const traceHelp = `
On a terminal the table is drawn anew each interval; elsewhere it is printed
once at the end, or with --interval each time. Ctrl-C, SIGTERM and --duration
end the trace with the final table, and so does the end of process --pid. A
second signal ends it at once.

SIGUSR1 detaches everything, so that drivers can be unloaded, which attached
programs may prevent; what was counted stays. SIGUSR1 again attaches.

Now and then the kernel measures for a second what the programs cost. If that is
more than --max-overhead of the time of all CPUs, the dearest ones that the
trace can do without are detached, those that tell phases apart first; if that
is not enough, all are.

Exit codes: 0 traced to the end; 1 failed; 2 usage; 4 no permission; 5 the
kernel has nothing to attach to, or not in a way that it allows: 'peerdirect
trace probes' tells why.`

// traceOutputs are the flags that all traces have: how long, and where it goes.
type traceOutputs struct {
	interval, duration time.Duration
	everyInterval      bool // print in a pipe too
	json, log2         bool
	svg, listen        string
	series             int
	budget             percentFlag
}

func (o *traceOutputs) flags(cmd *cobra.Command, schema string) {
	o.commonFlags(cmd, schema)
	f := cmd.Flags()
	f.BoolVar(&o.log2, "log2", false, "print the histogram of each row, by powers of two")
	f.StringVar(&o.svg, "svg", "", "draw a heat map over time into this `file` at the end; - is standard output (default none)")
	cmd.MarkFlagFilename("svg", "svg")
}

// commonFlags are those of traces that have no histograms, too.
func (o *traceOutputs) commonFlags(cmd *cobra.Command, schema string) {
	o.budget, o.series = 0.01, tracereport.MostSeries
	if o.interval == 0 {
		o.interval = time.Second
	}
	f := cmd.Flags()
	f.DurationVar(&o.duration, "duration", 0, "end after this time; 0 is never (default 0s)")
	f.DurationVar(&o.interval, "interval", o.interval, "how often the table is drawn, or printed in a pipe")
	f.BoolVar(&o.json, "json", false, "print records of JSON, one a line, schema "+schema)
	f.StringVar(&o.listen, "listen", "", "serve metrics for Prometheus at this `address`: HOST:PORT, or :PORT on loopback only (default none)")
	f.IntVar(&o.series, "max-series", o.series, "series of a metric of --listen at most; further ones are summed")
	f.Var(&o.budget, "max-overhead", "`share` of the time of all CPUs that tracing may take; 0 is no bound, and nothing is measured")
}

// check judges flags that do not go together.
func (o *traceOutputs) check(f *pflag.FlagSet) error {
	o.everyInterval = f.Changed("interval")
	switch {
	case o.duration < 0:
		return fmt.Errorf("--duration %v: 0 or more", o.duration)
	case o.interval < 50*time.Millisecond:
		return fmt.Errorf("--interval %v: at least 50ms", o.interval)
	case f.Changed("svg") && o.svg == "":
		return errors.New("--svg needs a name")
	case f.Changed("listen") && o.listen == "":
		return errors.New("--listen needs an address")
	case o.listen != "" && tracereport.CheckAddress(o.listen) != nil:
		return fmt.Errorf("--listen %w", tracereport.CheckAddress(o.listen))
	case o.log2 && o.json:
		return errors.New("--log2 is for the table; --json has the histograms")
	case o.svg == "-" && o.json:
		return errors.New("--json and --svg -: choose one of them")
	case o.svg == "-" && o.everyInterval:
		return errors.New("--svg - leaves standard output to the picture: --interval has nothing to print there")
	case f.Changed("max-series") && o.listen == "":
		return errors.New("--max-series is for --listen")
	case o.series < 2:
		return fmt.Errorf("--max-series %d: at least 2", o.series)
	}
	return nil
}

// percentFlag is a share: 1%, 0.5% or 0.005.
type percentFlag float64

func (p *percentFlag) String() string {
	return strconv.FormatFloat(100*float64(*p), 'g', -1, 64) + "%"
}

func (p *percentFlag) Set(s string) error {
	number, isPercent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if isPercent {
		v /= 100
	}
	// A bare number above 1 could be meant as a percentage: it is not guessed.
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q is no share: give it as 1%% or 0.01, at most 100%%", s)
	}
	*p = percentFlag(v)
	return nil
}

func (p *percentFlag) Type() string { return "share" }
