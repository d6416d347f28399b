// Package report shows people what a transfer did: in a few lines, or as a
// picture of both memories.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/transfer"
)

// Text writes a result in a few lines.
func Text(w io.Writer, r *transfer.Result) error {
	c := r.Conditions
	var b strings.Builder
	what := fmt.Sprintf("%d pages of %v", r.Pages, Bytes(c.PageSize))
	if r.Iterations > 1 {
		what += fmt.Sprintf(" in %d iterations", r.Iterations)
	}
	direction := "to"
	if r.Role == transfer.RoleReceiver {
		direction = "from"
	}
	if r.Pages == 0 {
		fmt.Fprintf(&b, "no pages %s %s\n", direction, c.Remote)
	} else {
		fmt.Fprintf(&b, "%s %s %s: %v in %s, %v/s, %.3g Gbit/s\n", what, direction, c.Remote, Bytes(r.Bytes),
			micros(r.Seconds*1e6), Bytes(r.PerSecond), r.Gbit)
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(&b, "  batches of %d writes: p50 %s, p90 %s, p99 %s, p99.9 %s, max %s\n", c.Batch,
			micros(l.P50), micros(l.P90), micros(l.P99), micros(l.P999), micros(l.Max))
	}
	if c.Device != "" {
		fmt.Fprintf(&b, "  %s, linux %s\n", device(c), c.Kernel)
	}
	if c.Memory != "" {
		from, to := c.Memory, c.PeerMemory
		if r.Role == transfer.RoleReceiver {
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

// device says what a side's pages went by.
func device(c transfer.Conditions) string {
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
func path(c transfer.Conditions) string {
	if c.Path == "direct" {
		return "direct data path"
	}
	return "data path " + c.Path // with the reason
}
