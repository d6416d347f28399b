package ladder

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/peerdirect/peerdirect/transfer/report"
)

// Schema names the form of a Report in JSON; it changes when a field does.
const Schema = "peerdirect.bench.ladder/1"

// Report is what was measured.
type Report struct {
	Schema     string     `json:"schema"`
	Conditions Conditions `json:"conditions"`
	Rungs      []Rung     `json:"rungs"`
}

// Conditions are what the figures hold for.
type Conditions struct {
	NICs     int     `json:"nics"`                   // of each node
	Gbps     float64 `json:"gbps"`                   // of each NIC
	Machine  float64 `json:"machine_gbps,omitempty"` // what the machine moved unpaced, where that decided
	PageSize uint64  `json:"page_bytes"`             //
	Workers  int     `json:"workers"`                // of the rungs with several
	CPUs     int     `json:"cpus"`                   // of the machine, for all: engine and devices
	Rounds   int     `json:"rounds"`                 //
	Seconds  float64 `json:"seconds"`                // of a rung in a round, at line rate
	Arch     string  `json:"arch"`                   //
	Devices  string  `json:"devices"`                // "embedded": software inside this process
}

// Rung is a rung's figures, medians over the rounds.
type Rung struct {
	Name       string  `json:"name"`
	NICs       int     `json:"nics"`
	Workers    int     `json:"workers"`
	Line       float64 `json:"line_gbps"` // of its NICs together
	Gbps       float64 `json:"gbps"`
	OfLine     float64 `json:"of_line_percent"`
	Least      float64 `json:"least_gbps"`
	Most       float64 `json:"most_gbps"`
	Operations float64 `json:"operations_per_second"` // pages
	First      float64 `json:"first_us"`              // until the first operation had ended
}

func conditions(o Options) Conditions {
	return Conditions{
		NICs: o.NICs, PageSize: uint64(o.PageSize), Workers: o.Workers, CPUs: runtime.GOMAXPROCS(0), Rounds: o.Rounds,
		Seconds: o.Duration.Seconds(), Arch: runtime.GOARCH, Devices: "embedded",
	}
}

// Table writes a report for people.
func Table(w io.Writer, r *Report) error {
	c := r.Conditions
	var b strings.Builder
	fmt.Fprintf(&b, "the ladder: %v pages between two nodes of %d NICs, each paced to %.4g Gbit/s\n", report.Bytes(c.PageSize), c.NICs, c.Gbps)
	fmt.Fprintf(&b, "NICs are software inside this process, which has %d CPUs for them and the engine\n", c.CPUs)
	if c.Machine > 0 {
		fmt.Fprintf(&b, "unpaced, the machine moves %.1f Gbit/s; %.0f %% of it is the line\n", c.Machine, 100*c.Gbps*float64(c.NICs)/c.Machine)
	}
	rounds := "one round"
	if c.Rounds > 1 {
		rounds = fmt.Sprintf("medians of %d alternating rounds", c.Rounds)
	}
	fmt.Fprintf(&b, "%s of %.3g s; each rung has what those above it have\n\n", rounds, c.Seconds)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rung\tGbit/s\tof line\tpages/s\tfirst")
	for _, g := range r.Rungs {
		fmt.Fprintf(t, "%s\t%.2f\t%.1f %%\t%.0f\t%s\n", g.Name, g.Gbps, g.OfLine, g.Operations, micros(g.First))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func micros(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.0f us", us)
	case us < 1e6:
		return fmt.Sprintf("%.1f ms", us/1e3)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}
