package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
	"golang.org/x/term"
)

// demoStages shows what the demonstration is at: a line for every stage when it
// is over, and on a terminal also while it lasts. It is the writer that the
// machines' output and the lab's words go to.
type demoStages struct {
	mu      sync.Mutex
	w       io.Writer
	live    bool // a terminal
	columns func() int
	rest    []byte
	stage   string
	detail  string
	started time.Time
	tick    *time.Ticker
	ended   chan struct{}
}

func newDemoStages(w io.Writer) *demoStages {
	s := &demoStages{w: w, ended: make(chan struct{})}
	if f, ok := w.(*os.File); ok {
		s.live = term.IsTerminal(int(f.Fd()))
		s.columns = func() int { columns, _ := terminal(w); return columns }
	}
	if s.live {
		s.tick = time.NewTicker(100 * time.Millisecond)
		go func() {
			for {
				select {
				case <-s.tick.C:
					s.mu.Lock()
					s.show(false)
					s.mu.Unlock()
				case <-s.ended:
					return
				}
			}
		}()
	}
	return s
}

// begin ends the stage before.
func (s *demoStages) begin(stage, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next(stage, detail)
}

func (s *demoStages) next(stage, detail string) {
	s.show(true)
	s.stage, s.detail, s.started = stage, detail, time.Now()
	s.show(false)
}

// end ends the last stage.
func (s *demoStages) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next("", "")
	if s.tick != nil {
		s.tick.Stop()
	}
	close(s.ended)
	fmt.Fprintln(s.w)
}

// show prints the stage's line, for good when it is over.
func (s *demoStages) show(over bool) {
	if s.stage == "" || !over && !s.live {
		return
	}
	line := fmt.Sprintf("%-9s %5.1f s  %s", s.stage, time.Since(s.started).Seconds(), s.detail)
	switch {
	case !s.live:
		fmt.Fprintln(s.w, line)
	case over:
		fmt.Fprintf(s.w, "\r%s\x1b[K\n", line)
	default:
		// A line that wraps would not be taken back by a carriage return.
		fmt.Fprintf(s.w, "\r%s\x1b[K", cut(line, s.columns()-1))
	}
}

// Write takes lines: the sender's progress, and whatever else there is, which
// is passed on.
func (s *demoStages) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, b...)
	for {
		line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		s.line(strings.TrimSpace(string(line)))
		s.rest = rest
	}
}

func (s *demoStages) line(line string) {
	var p pages.Progress
	text, ok := strings.CutPrefix(line, fmt.Sprintf("node%d | ", demoSender))
	if !ok || json.Unmarshal([]byte(text), &p) != nil {
		if s.live {
			fmt.Fprint(s.w, "\r\x1b[K")
		}
		fmt.Fprintln(s.w, line)
		return
	}
	s.progress(p)
}

// tell is a transfer's Tell.
func (s *demoStages) tell(p pages.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress(p)
}

func (s *demoStages) progress(p pages.Progress) {
	stage, detail := string(p.Stage), s.detail
	switch p.Stage {
	case pages.StageConnect:
		detail = "queue pairs by way of " + p.Peer
	case pages.StageRegister:
		detail = "memory on both sides, descriptors by SEND"
	case pages.StageFill:
		stage, detail = s.stage, s.detail // it is the sender's memory that is made ready
	case pages.StageTransfer:
		detail = fmt.Sprintf("%v of %v by RDMA WRITE", report.Bytes(p.Bytes), report.Bytes(p.Total))
	case pages.StageVerify:
		s.detail = fmt.Sprintf("%v by RDMA WRITE", report.Bytes(p.Total))
		detail = "the CRC-32C of every page, on both sides"
	case pages.StageDone, pages.StageFailed:
		return
	}
	if stage != s.stage {
		s.next(stage, detail)
	}
	s.detail = detail
}

// terminal tells how wide a terminal is and whether it wants colours; anything
// else is 80 columns without.
func terminal(w io.Writer) (columns int, colour bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 80, false
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns == 0 {
		return 80, false
	}
	return columns, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
