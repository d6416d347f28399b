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
		fmt.Fprintf(&b, "  %s port %d, %s on %s, MTU %d, linux %s\n", c.Device, c.Port, c.Transport, c.LinkLayer, c.MTU, c.Kernel)
	}
	switch {
	case r.Checksum == "":
		b.WriteString("  not verified\n")
	case r.Verified:
		fmt.Fprintf(&b, "  verified: the %s of every page is the sender's; their SHA-256 is %.16s…\n", r.PageSum, r.Checksum)
	default:
		fmt.Fprintf(&b, "  NOT as sent: %d of %d pages differ, first %v\n", r.BadPages, c.PagesEach, r.Bad[:min(len(r.Bad), 8)])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
