package perf

import (
	"fmt"
	"io"
	"strings"
)

// Table prints results as they come, in the columns that the field reads.
type Table struct {
	w     io.Writer
	gbits bool
	test  Test
}

// NewTable prints to w; gbits has bandwidth in Gb/s instead of MiB/s.
func NewTable(w io.Writer, gbits bool) *Table { return &Table{w: w, gbits: gbits} }

// Begin prints the conditions and the head of the table.
func (t *Table) Begin(c Conditions) error {
	t.test = c.Test
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s over %s\n", c.Op, c.Test, c.Transport)
	sideLine(&b, "client", c.Client)
	sideLine(&b, "server", c.Server)
	var opts []string
	add := func(format string, args ...any) { opts = append(opts, fmt.Sprintf(format, args...)) }
	if c.Transport != Memcpy {
		add("queue pairs %d", c.QPs)
	}
	if c.Transport == RDMA {
		add("tx depth %d", c.TxDepth)
		if c.Op == Send {
			add("rx depth %d", c.RxDepth)
		}
		add("post list %d", c.List)
		add("cq moderation %d", c.CQMod)
	}
	if c.Bidirectional {
		add("bidirectional")
	}
	if c.Duration > 0 {
		add("duration %v", c.Duration)
	}
	if c.Verify {
		add("verified")
	}
	if len(opts) > 0 {
		fmt.Fprintf(&b, "# %s\n", strings.Join(opts, ", "))
	}
	if c.Test == Bandwidth {
		unit := "MiB/s"
		if t.gbits {
			unit = "Gb/s"
		}
		fmt.Fprintf(&b, " %-10s %-12s %18s %18s %16s\n", "#bytes", "#iterations",
			"BW peak["+unit+"]", "BW average["+unit+"]", "MsgRate[Mpps]")
	} else {
		fmt.Fprintf(&b, " %-10s %-12s %12s %12s %15s %12s %13s %10s %12s\n", "#bytes", "#iterations",
			"t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]", "99%[usec]", "99.9%[usec]")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

func sideLine(b *strings.Builder, role string, s *Side) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "# %s: %s, Linux %s %s", role, s.Host, s.Kernel, s.Arch)
	if s.Device != "" {
		fmt.Fprintf(b, ", %s port %d, %s over %s", s.Device, s.Port, s.Protocol, s.LinkLayer)
		if s.GIDIndex >= 0 {
			fmt.Fprintf(b, ", GID %d (%s)", s.GIDIndex, s.GIDType)
		}
		if s.MTU > 0 {
			fmt.Fprintf(b, ", mtu %d", s.MTU)
		}
		fmt.Fprintf(b, ", inline %d", s.Inline)
	}
	if s.Events {
		b.WriteString(", events")
	}
	b.WriteByte('\n')
}

// Row prints one result.
func (t *Table) Row(r Result) error {
	var err error
	if t.test == Bandwidth {
		peak := "-"
		if r.Peak != nil {
			peak = fmt.Sprintf("%.2f", t.rate(*r.Peak))
		}
		_, err = fmt.Fprintf(t.w, " %-10d %-12d %18s %18.2f %16.6f\n", r.Bytes, r.Iterations, peak, t.rate(*r.Average), *r.Rate/1e6)
		return err
	}
	l := r.Latency
	if l == nil {
		l = new(LatencyStats)
	}
	_, err = fmt.Fprintf(t.w, " %-10d %-12d %12.2f %12.2f %15.2f %12.2f %13.2f %10.2f %12.2f\n", r.Bytes, r.Iterations,
		l.Min, l.Max, l.Typical, l.Avg, l.Stdev, l.P99, l.P999)
	return err
}

func (t *Table) rate(bytesPerSecond float64) float64 {
	if t.gbits {
		return bytesPerSecond * 8 / 1e9
	}
	return bytesPerSecond / (1 << 20)
}
