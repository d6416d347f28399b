package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// liveText draws a text of several lines on a terminal again and again, in its place.
type liveText struct {
	w     io.Writer
	size  func() (width, height int)
	lines int // drawn
}

// newLiveText gives nil if w is not a terminal.
func newLiveText(w io.Writer) *liveText {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &liveText{w: w, size: func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 20 || height < 5 { // a terminal of a serial line says 0
			return 80, 24
		}
		return width, height
	}}
}

// draw replaces what is drawn. Lines must not be wider than the terminal; those for
// which it has no room are left out.
func (l *liveText) draw(write func(w io.Writer, width, height int) error) error {
	width, height := l.size()
	var text bytes.Buffer
	if err := write(&text, width-1, height-1); err != nil {
		return err
	}
	lines := strings.SplitAfter(text.String(), "\n")
	lines = lines[:min(len(lines)-1, max(height-1, 1))]
	var out strings.Builder
	l.home(&out)
	for _, line := range lines {
		out.WriteString(strings.TrimSuffix(line, "\n") + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	l.lines = len(lines)
	_, err := io.WriteString(l.w, out.String())
	return err
}

// home moves to where the text begins.
func (l *liveText) home(out *strings.Builder) {
	if l.lines > 0 {
		fmt.Fprintf(out, "\x1b[%dA", l.lines)
	}
	out.WriteString("\r")
}

// clear takes the text away.
func (l *liveText) clear() error {
	var out strings.Builder
	l.home(&out)
	out.WriteString("\x1b[J")
	l.lines = 0
	_, err := io.WriteString(l.w, out.String())
	return err
}
