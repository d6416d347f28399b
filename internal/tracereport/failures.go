package tracereport

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
	"github.com/peerdirect/peerdirect/internal/textwrap"
)

// writeFailures prints what failed, the most frequent first, each with what is known of
// the cause and what to do; all of them if most is 0.
func (r *Registrations) writeFailures(b *strings.Builder, width, most int) {
	if len(r.Failures) == 0 {
		return
	}
	b.WriteString("\nfailed:\n")
	for i, f := range r.Failures {
		if most > 0 && i == most {
			fmt.Fprintf(b, "  … and %d ways to fail more\n", len(r.Failures)-most)
			return
		}
		cause := fmt.Sprintf("%d × %s: %s (%s), %s, %s of %s memory: %s", f.Count, errname.Of(f.Err), Name(f.Command), processNumber(f.PID), Name(f.Device),
			f.Operation, kindText(f.Kind), CauseText(f.Err, f.Cause, f.CausePhase))
		for i, line := range wrap(cause, width-4) {
			b.WriteString("  " + strings.Repeat(" ", 2*min(i, 1)) + line + "\n")
		}
		if hint := Hint(f.Operation, f.Kind, f.Err, f.Cause, f.CausePhase); hint != "" {
			for _, line := range wrap(hint, width-6) {
				b.WriteString("      " + line + "\n")
			}
		}
	}
}

// phaseActs says what a phase does, to go before "returned".
var phaseActs = [ebpfprobes.Phases]string{
	ebpfprobes.Uverbs: "the kernel's common part", ebpfprobes.Driver: "the driver's operation",
	ebpfprobes.Pin: "pinning", ebpfprobes.Map: "mapping for the device",
	ebpfprobes.Attach: "attaching to the dma-buf", ebpfprobes.BufferPin: "the exporter's pinning",
	ebpfprobes.BufferMap: "the exporter's mapping", ebpfprobes.Fence: "waiting for the dma-buf's work",
	ebpfprobes.Command: "the device's command", ebpfprobes.Tracing: "the trace itself",
}

// CauseText tells which part of a call failed first.
func CauseText(err, cause syscall.Errno, phase ebpfprobes.Phase) string {
	if cause == 0 {
		cause = err
	}
	if phase == ebpfprobes.UnknownPhase {
		return "which part failed is not told"
	}
	act := phase.String()
	if int(phase) < len(phaseActs) {
		act = phaseActs[phase]
	}
	return act + " returned " + errname.Of(cause)
}

// wrap breaks a text at spaces; a width below 20 is no bound.
func wrap(s string, width int) []string {
	if width < 20 {
		return []string{s}
	}
	return textwrap.Lines(s, width)
}
