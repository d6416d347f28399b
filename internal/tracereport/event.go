package tracereport

import (
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/errname"
)

// WriteEvent prints one call in a line, and its stack in further ones:
//
//	09:10:11.123456 4242/4243 python3 mlx5_0 register host 1M at 0x7f.. took 231us: pin 120us map 80us …
func WriteEvent(w io.Writer, e *ebpfprobes.Registration, frames []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %d/%d  %s  %s  %s %s %s", e.At.Local().Format("15:04:05.000000"), e.PID, e.TID, Name(e.Command), Name(e.Device),
		e.Operation, kindText(e.Kind), lengthText(e))
	if e.Kind == ebpfprobes.DMABuf {
		fmt.Fprintf(&b, " (%s, inode %s)", Name(e.Exporter), numberText(e.Inode))
	}
	fmt.Fprintf(&b, " at %#x", e.IOVA)
	if e.LKey != 0 || e.RKey != 0 {
		fmt.Fprintf(&b, " lkey %#x rkey %#x", e.LKey, e.RKey)
	}
	fmt.Fprintf(&b, "  took %s:", Duration(e.Took))
	for p, d := range e.Spent {
		if d > 0 {
			fmt.Fprintf(&b, " %s %s", ebpfprobes.Phase(p), Duration(d))
		}
	}
	if e.Err != 0 {
		fmt.Fprintf(&b, "  failed: %s, %s", errname.Of(e.Err), CauseText(e.Err, e.Cause, e.CausePhase))
	}
	b.WriteByte('\n')
	for i, f := range frames {
		fmt.Fprintf(&b, "    #%-2d %s\n", i, Name(f))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lengthUnknown tells whether a region's length is not known: what is registered has one,
// be it 0.
func lengthUnknown(e *ebpfprobes.Registration) bool {
	return e.Length == 0 && e.Operation != ebpfprobes.Register
}

func lengthText(e *ebpfprobes.Registration) string {
	if lengthUnknown(e) {
		return "?"
	}
	return Bytes(e.Length)
}

func numberText(n uint64) string {
	if n == 0 {
		return "?"
	}
	return fmt.Sprint(n)
}
