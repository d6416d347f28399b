package main

import (
	"fmt"
	"io"
	"time"

	"github.com/peerdirect/peerdirect/internal/outfile"
	"github.com/peerdirect/peerdirect/internal/tracereport"
)

// print prints the table or its records; the last time with all rows, and rates over
// the whole trace.
func (t *traceRun) print(final bool) error {
	before := t.last
	if final {
		before = nil
	}
	look, err := t.lookNow(before)
	if err != nil {
		return err
	}
	t.last = look
	layout := tracereport.Layout{Width: terminalWidth(t.out), Log2: t.log2}
	switch {
	case t.stream != nil:
		return look.WriteRecords(t.stream)
	case t.live != nil && !final:
		return t.live.draw(func(w io.Writer, width, height int) error {
			return look.WriteText(w, tracereport.Layout{Width: width, Height: height})
		})
	case t.live != nil:
		if err := t.live.clear(); err != nil {
			return err
		}
	case !final || t.events != nil:
		fmt.Fprintf(t.out, "%s\n", time.Now().Local().Format("15:04:05.000"))
	}
	if err := look.WriteText(t.out, layout); err != nil || final {
		return err
	}
	_, err = fmt.Fprintln(t.out)
	return err
}

func (t *traceRun) draw(at time.Time) error {
	look, err := t.lookNow(nil)
	if err == nil {
		t.mu.Lock()
		attached := t.attached
		t.mu.Unlock()
		t.heat.Add(at, attached, look.Panels())
	}
	return err
}

func (t *traceRun) finish() error {
	if t.svg != "-" {
		if err := t.print(true); err != nil {
			return err
		}
	}
	if t.heat == nil {
		return nil
	}
	until := time.Now()
	if err := t.draw(until); err != nil {
		return err
	}
	write := func(w io.Writer) error { return t.heat.WriteSVG(w, t.title, until) }
	if t.svg == "-" {
		return write(t.out)
	}
	return outfile.Write(t.svg, write)
}
