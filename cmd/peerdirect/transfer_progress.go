package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/report"
	"golang.org/x/term"
)

// progressLine shows a transfer's progress on one line of a terminal, and
// nothing elsewhere.
type progressLine struct {
	w       io.Writer // nil: not a terminal
	columns func() int
	now     func() time.Time

	start time.Time // when the first bytes were told, and how many
	first uint64
	shown bool
}

func newProgressLine(w io.Writer) *progressLine {
	p := &progressLine{now: time.Now}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
		p.columns = func() int {
			n, _, err := term.GetSize(int(f.Fd()))
			if err != nil || n < 20 {
				return 80
			}
			return n
		}
	}
	return p
}

// tell is a transfer's Tell.
func (p *progressLine) tell(t transfer.Progress) {
	if p.w == nil {
		return
	}
	if t.Stage == transfer.StageDone {
		p.end()
		return
	}
	p.shown = true
	fmt.Fprintf(p.w, "\r%s\x1b[K", p.line(t, p.columns()-1))
}

// end takes the line away. A transfer that fails is never told as done.
func (p *progressLine) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.shown, p.start = false, time.Time{}
}

func (p *progressLine) line(t transfer.Progress, columns int) string {
	if t.Bytes == 0 || t.Total == 0 {
		return cut(fmt.Sprintf("%-8s %s", t.Stage, t.Peer), columns)
	}
	now := p.now()
	if p.start.IsZero() {
		p.start, p.first = now, t.Bytes
	}
	done := float64(t.Bytes) / float64(t.Total)
	right := fmt.Sprintf(" %3.0f%%  %s", 100*done, report.Bytes(t.Bytes))
	if took := now.Sub(p.start); took > 200*time.Millisecond && t.Bytes > p.first {
		rate := float64(t.Bytes-p.first) / took.Seconds()
		left := time.Duration(float64(t.Total-t.Bytes) / rate * float64(time.Second))
		right += fmt.Sprintf("  %s/s  %v left", report.Bytes(rate), left.Round(time.Second))
	}
	left := fmt.Sprintf("%-8s ", t.Stage)
	width := columns - len(left) - len(right) - 2
	if width < 10 {
		return cut(left+right, columns)
	}
	full := int(done * float64(width))
	return left + "[" + strings.Repeat("#", full) + strings.Repeat(" ", width-full) + "]" + right
}

func cut(s string, columns int) string { return s[:min(len(s), max(columns, 0))] }
