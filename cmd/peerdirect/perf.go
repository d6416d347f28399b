package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/perf"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

func newPerf() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure bandwidth and latency between two machines",
		Long: `perf measures bandwidth and latency between two machines, over RDMA or, to
compare with, over a TCP socket or a copy through shared memory.

Start it without an address on one machine, which is the server, and with the
server's address on the other. The client's flags hold for both; a server that
was given a different one refuses. Both print the same result.`,
		Example: `  peerdirect perf write bw --listen 192.0.2.1   # the server
  peerdirect perf write bw 192.0.2.1            # the client`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, op := range []struct {
		op    perf.Op
		short string
	}{
		{perf.Write, "RDMA writes into the server's memory"},
		{perf.Read, "RDMA reads from the server's memory"},
		{perf.Send, "sends, which the server receives"},
		{perf.Atomic, "fetch-and-add on the server's memory"},
	} {
		sub := &cobra.Command{
			Use:   string(op.op),
			Short: "Measure " + op.short,
			Args:  noCommand,
			RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		}
		sub.AddCommand(newPerfTest(op.op, perf.Bandwidth, "Bandwidth of "+op.short),
			newPerfTest(op.op, perf.Latency, "Latency of "+op.short))
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(newPerfBenchLab())
	return cmd
}

func newPerfTest(op perf.Op, test perf.Test, short string) *cobra.Command {
	o := perf.Defaults(op, test)
	o.Version = version()
	var show perfShow
	cmd := &cobra.Command{
		Use:   string(test) + " [SERVER]",
		Short: short,
		Long: short + ".\n\n" + `Start it without SERVER on one machine, and with that one's address on the
other. The client's flags hold for both; a server that was given a different one
refuses. Both print the same result.`,
		Example: perfExamples(op, test),
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Server = args[0]
			}
			if err := positive(cmd.Flags(), "size", "iters", "duration", "qp", "tx-depth", "rx-depth", "post-list", "cq-mod", "mtu"); err != nil {
				return err
			}
			for what, host := range map[string]string{"SERVER": o.Server, "--listen": o.Listen} {
				if strings.Contains(host, ":") && net.ParseIP(host) == nil {
					return usageError{fmt.Errorf("%s %s: give a host's name or address; its port goes with --port", what, host)}
				}
			}
			o.Given = make(map[string]bool)
			cmd.Flags().Visit(func(f *pflag.Flag) { o.Given[f.Name] = true })
			return show.run(cmd, o)
		},
	}
	perfFlags(cmd.Flags(), &o, &show)
	complete(cmd, "transport", "rdma", "tcp", "memcpy")
	complete(cmd, "mtu", "256", "512", "1024", "2048", "4096")
	completeDevices(cmd)
	return cmd
}

// perfExamples shows both sides, and what fits the test best.
func perfExamples(op perf.Op, test perf.Test) string {
	name := fmt.Sprintf("  peerdirect perf %s %s ", op, test)
	client := map[string]string{
		"write bw": "-s 1M -q 4 192.0.2.1", "write lat": "-s 64 -n 10000 192.0.2.1",
		"read bw": "-q 4 --verify 192.0.2.1", "read lat": "-s 4K 192.0.2.1",
		"send bw": "-b --report-gbits 192.0.2.1", "send lat": "-s 64 --events 192.0.2.1",
		"atomic bw": "-q 8 --json 192.0.2.1", "atomic lat": "-D 5 192.0.2.1",
	}[string(op)+" "+string(test)]
	lines := name + "--listen 192.0.2.1          # the server\n" + name + client
	if op == perf.Write {
		lines += "\n" + name + "--transport memcpy          # in one process"
	}
	return lines
}

func perfFlags(f *pflag.FlagSet, o *perf.Options, show *perfShow) {
	f.SortFlags = false
	f.SetNormalizeFunc(perftestNames)
	f.StringVarP(&o.Device, "device", "d", "", "RDMA `device` (default the only one)")
	f.IntVarP(&o.IBPort, "ib-port", "i", o.IBPort, "port of the device")
	f.IntVarP(&o.GID, "gid-index", "x", o.GID, "index into the port's GID table; -1 chooses, RoCE v2 and IPv4 first")
	f.IntVarP(&o.TCPPort, "port", "p", o.TCPPort, "TCP port where the sides meet")
	f.VarP((*sizeFlag)(&o.Size), "size", "s", "bytes of a message, as 64K (default 64K for bw, 2 for lat, 8 for atomic)")
	f.BoolVarP(&o.All, "all", "a", false, "all sizes, from 2 bytes to 8M")
	f.IntVarP(&o.Iters, "iters", "n", 0, "messages a queue pair (default 5000 for bw, 1000 for lat)")
	f.VarP((*secondsFlag)(&o.Duration), "duration", "D", "run for this time instead of --iters: seconds, or as 1m (default none)")
	f.IntVarP(&o.QPs, "qp", "q", o.QPs, "queue pairs, or TCP connections")
	f.IntVarP(&o.TxDepth, "tx-depth", "t", 0, "requests in a send queue (default 128 for bw, 1 for lat)")
	f.IntVarP(&o.RxDepth, "rx-depth", "r", o.RxDepth, "requests in a receive queue")
	f.BoolVarP(&o.Bidirectional, "bidirectional", "b", false, "both sides ask for messages at once")
	f.IntVarP(&o.Inline, "inline-size", "I", o.Inline, "bytes that a request may carry itself; -1: 220 for write lat, 236 for send lat, or what the device has")
	f.IntVarP(&o.List, "post-list", "l", o.List, "requests handed over at once")
	f.IntVarP(&o.CQMod, "cq-mod", "Q", 0, "messages a completion stands for (default 100, or 1 for one size over 8K)")
	f.IntVarP(&o.MTU, "mtu", "m", 0, "path MTU, `bytes` (default the port's)")
	f.BoolVarP(&o.Events, "events", "e", false, "sleep until a completion raises an event, instead of polling")
	f.IntVarP(&o.SL, "sl", "S", 0, "service `level` (default 0)")
	f.IntVarP(&o.QPTimeout, "qp-timeout", "u", o.QPTimeout, "acknowledgement timeout, 4.096 us * 2^N")
	f.VarP((*secondsFlag)(&o.Timeout), "timeout", "T", "deadline of every wait: seconds, or as 500ms")
	f.BoolP("cpu-freq", "F", false, "accepted and ignored: clocks are calibrated in each run")
	f.StringVar((*string)(&o.Transport), "transport", string(o.Transport), "`transport`: rdma, or to compare with, tcp or memcpy")
	f.StringVar(&o.Listen, "listen", "", "`address` that the server binds to (default loopback only)")
	f.BoolVar(&o.Verify, "verify", false, "check the bytes that arrived")
	f.BoolVar(&show.gbits, "report-gbits", false, "bandwidth in Gb/s instead of MiB/s")
	f.BoolVar(&show.json, "json", false, "print the result as JSON, schema "+perf.Schema)
	f.Lookup("cpu-freq").Hidden = true
}

// perfShow is how the result is printed.
type perfShow struct{ json, gbits bool }

func (s perfShow) run(cmd *cobra.Command, o perf.Options) error {
	var out perf.Output
	if f, ok := cmd.ErrOrStderr().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		out.Progress = f
	}
	if !s.json {
		table := perf.NewTable(cmd.OutOrStdout(), s.gbits)
		out.Begin, out.Row = table.Begin, table.Row
	}
	report, err := perf.Run(cmd.Context(), o, out)
	if err != nil || !s.json {
		return err
	}
	return perfJSON(cmd.OutOrStdout(), report)
}

func perfJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// sizeFlag is a number of bytes with K, M or G.
type sizeFlag int

func (f *sizeFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.Itoa(int(*f))
}

func (f *sizeFlag) Set(s string) error {
	v, err := perf.ParseSize(s)
	*f = sizeFlag(v)
	return err
}

func (f *sizeFlag) Type() string { return "size" }

// secondsFlag is a time in seconds, or with a unit.
type secondsFlag time.Duration

func (f *secondsFlag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}

func (f *secondsFlag) Set(s string) error {
	if v, err := strconv.ParseFloat(s, 64); err == nil && v >= 0 && v < 1e9 {
		*f = secondsFlag(v * float64(time.Second))
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no time: give seconds, or as 500ms", s)
	}
	*f = secondsFlag(v)
	return nil
}

func (f *secondsFlag) Type() string { return "duration" }
