package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
	"golang.org/x/term"
)

// liveView shows what goes on in the last lines of a terminal, and nothing elsewhere.
// Whatever else is written to the terminal goes through its Write, or between end
// and the next thing that is told.
type liveView struct {
	w     io.Writer
	size  func() (columns, rows int) // nil: not a terminal
	stats func() []engine.RailStats
	now   func() time.Time

	mu    sync.Mutex
	peers map[string]pages.Progress
	live  report.Live
	shown int // lines
	stop  chan struct{}
	ended sync.WaitGroup
}

// refresh is how often the view is drawn.
const refresh = 200 * time.Millisecond

func newLiveView(w io.Writer) *liveView {
	v := &liveView{w: w, now: time.Now, peers: make(map[string]pages.Progress)}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return v
	}
	v.size = func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || columns < 2 || rows < 2 {
			return 80, 24
		}
		return columns, rows
	}
	return v
}

// show begins to draw, with the numbers of a node's NICs, until close.
func (v *liveView) show(stats func() []engine.RailStats) {
	v.stats = stats
	if v.size == nil {
		return
	}
	v.stop = make(chan struct{})
	v.ended.Go(func() {
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				v.mu.Lock()
				v.draw()
				v.mu.Unlock()
			case <-v.stop:
				return
			}
		}
	})
}

// close takes the view away for good.
func (v *liveView) close() {
	if v.stop != nil {
		close(v.stop)
		v.ended.Wait()
		v.stop = nil
	}
	v.end()
}

// tell is a node's Tell.
func (v *liveView) tell(p pages.Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.Stage == pages.StageDone || p.Stage == pages.StageFailed {
		delete(v.peers, p.Peer)
		return
	}
	v.peers[p.Peer] = p
}

// end takes the lines away; they come again while something goes on.
func (v *liveView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
}

// Write writes what is not the view's.
func (v *liveView) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	return v.w.Write(b)
}

// clear takes the lines away. The cursor is at the beginning of the first.
func (v *liveView) clear() {
	if v.shown > 0 {
		fmt.Fprint(v.w, "\r\x1b[J")
		v.shown = 0
	}
}

// draw writes the lines anew and leaves the cursor at the beginning of the first.
func (v *liveView) draw() {
	columns, rows := v.size()
	peers := make([]pages.Progress, 0, len(v.peers))
	for _, p := range v.peers {
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b pages.Progress) int { return cmp.Compare(a.Peer, b.Peer) })
	// The last column stays free, where some terminals wrap, and the last row.
	lines := v.live.Lines(v.now(), peers, v.stats(), columns-1, rows-1)
	if len(lines) == 0 {
		v.clear()
		return
	}
	out := "\r"
	for i, l := range lines {
		if i > 0 {
			out += "\n"
		}
		out += l + "\x1b[K"
	}
	out += "\x1b[J\r"
	if up := len(lines) - 1; up > 0 {
		out += fmt.Sprintf("\x1b[%dA", up)
	}
	fmt.Fprint(v.w, out)
	v.shown = len(lines)
}

// cut bounds a line's length.
func cut(s string, columns int) string { return s[:min(len(s), max(columns, 0))] }
