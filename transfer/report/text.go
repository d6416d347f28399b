// Package report shows people what a transfer did: in a few lines, or as a
// picture of both memories.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/transfer/pages"
)

// Text writes a result in a few lines.
func Text(w io.Writer, r *pages.Result) error {
	c := r.Conditions
	var b strings.Builder
	what := fmt.Sprintf("%d pages of %v", r.Pages, Bytes(c.PageSize))
	if r.Iterations > 1 {
		what += fmt.Sprintf(" in %d iterations", r.Iterations)
	}
	direction := "to"
	if r.Role == pages.RoleReceiver {
		direction = "from"
	}
	if r.Pages == 0 {
		fmt.Fprintf(&b, "no pages %s %s\n", direction, c.Remote)
	} else {
		fmt.Fprintf(&b, "%s %s %s: %v in %s, %v/s, %.3g Gbit/s\n", what, direction, c.Remote, Bytes(r.Bytes),
			micros(r.Seconds*1e6), Bytes(r.PerSecond), r.Gbit)
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(&b, "  batches of %d %s: p50 %s, p90 %s, p99 %s, p99.9 %s, max %s\n", c.Batch, verb(r),
			micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999), micros(l.Max))
	}
	if c.Device != "" {
		fmt.Fprintf(&b, "  %s, linux %s\n", device(c), c.Kernel)
	}
	rails(&b, r)
	if c.Memory != "" {
		from, to := c.Memory, c.PeerMemory
		if r.Role == pages.RoleReceiver {
			from, to = to, from
		}
		fmt.Fprintf(&b, "  from %s memory to %s memory\n", from, to)
	}
	switch {
	case r.Checksum == "":
		b.WriteString("  not verified\n")
	case r.Verified:
		fmt.Fprintf(&b, "  verified: the %s of every page is the sender's; their SHA-256 is %.16s…\n", r.PageSum, r.Checksum)
	default:
		fmt.Fprintf(&b, "  NOT as sent: %d of %d pages differ, first %v\n", r.BadPages, c.PagesEach, r.Bad[:min(len(r.Bad), 8)])
	}
	if n := r.LinkSent + r.LinkReceived; n > 0 {
		fmt.Fprintf(&b, "  software devices of two processes: all pages went through their link's TCP connection, %d bytes in all\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verb is how the pages were moved by this side.
func verb(r *pages.Result) string {
	if r.Reads > 0 {
		return "reads"
	}
	return "writes"
}

// rails says what each of several NICs has carried, where this side moved the pages,
// and which failed.
func rails(b *strings.Builder, r *pages.Result) {
	const most = 8 // lines; the JSON form has all
	if len(r.Rails) > 1 && r.Writes+r.Reads > 0 {
		for i, x := range r.Rails {
			if i == most {
				fmt.Fprintf(b, "  and %d NICs more\n", len(r.Rails)-most)
				break
			}
			fmt.Fprintf(b, "    %s %s, %v\n", x.Device, x.GID, Bytes(x.Bytes))
		}
	}
	for _, x := range r.Rails {
		if x.Losses > 0 {
			fmt.Fprintf(b, "  %s failed: its connections were lost %d times, and %d requests of this side's went by other NICs, or again\n", x.Device, x.Losses, x.Failed)
		}
	}
}

// Sum writes what a transfer to several receivers was in all, and nothing for one.
func Sum(w io.Writer, g *pages.Group) error {
	if g == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "%d of %d receivers verified: %v in %s, %v/s in all\n", g.Done, g.Receivers, Bytes(g.Bytes), micros(g.Seconds*1e6), Bytes(g.PerSecond))
	return err
}

// device says what a side's pages went by.
func device(c pages.Conditions) string {
	nics := ""
	if c.NICs > 1 {
		nics = fmt.Sprintf(" (%d NICs)", c.NICs)
	}
	switch {
	case c.Embedded:
		return fmt.Sprintf("%s%s, software inside this process, %s, %s, MTU %d", c.Device, nics, c.Transport, path(c), c.MTU)
	case c.Transport == "EFA SRD":
		return fmt.Sprintf("%s%s, %s, %s, MTU %d", c.Device, nics, c.Transport, path(c), c.MTU)
	}
	return fmt.Sprintf("%s%s port %d, %s on %s, MTU %d", c.Device, nics, c.Port, c.Transport, c.LinkLayer, c.MTU)
}

// path says how work got into the queues.
func path(c pages.Conditions) string {
	if c.Path == "direct" {
		return "direct data path"
	}
	return "data path " + c.Path // with the reason
}
