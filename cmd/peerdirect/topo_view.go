package main

import (
	"bytes"
	"io"
	"slices"

	"github.com/peerdirect/peerdirect/internal/outfile"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/draw"
	"github.com/peerdirect/peerdirect/pci/names"
	"github.com/peerdirect/peerdirect/pci/ncclxml"
	"github.com/peerdirect/peerdirect/pci/report"
	"github.com/spf13/cobra"
)

// tree tells whether the tree is to be printed: nothing else was asked for.
func (o *topoOptions) tree() bool {
	return !o.matrix && !o.pairs && !o.findings && !o.json && o.svg == "" && o.ncclXML == ""
}

// pairing tells whether something goes by the rails.
func (o *topoOptions) pairing() bool {
	return o.tree() || o.pairs || o.findings || o.json || o.svg != ""
}

// outline tells whether an outline has all that is shown.
func (o *topoOptions) outline() bool {
	return o.tree() && !o.all || o.pairs && o.svg == "" && o.ncclXML == ""
}

// showsNames tells whether something shows names of vendors and products; to look
// them up takes longer than all the rest.
func (o *topoOptions) showsNames() bool { return o.tree() || o.json || o.svg != "" }

// show reads a machine and prints what was asked for.
func (o *topoOptions) show(cmd *cobra.Command) error {
	var t *pci.Topology
	var problems error
	err := interruptible(cmd.Context(), func() (err error) {
		t, problems, err = o.read(cmd.InOrStdin())
		return err
	})
	if err != nil {
		return err
	}
	p, err := t.Pair(o.pair)
	if err != nil {
		return overridesError(o.overrides, err)
	}
	if o.showsNames() {
		if err := names.Fill(t, o.pciIDs); err != nil && o.pciIDs != "" {
			return err
		} else if err != nil {
			warn(cmd.ErrOrStderr(), err, "")
		}
	}
	out := cmd.OutOrStdout()
	for _, file := range []struct {
		name  string
		print func(io.Writer) error
	}{
		{o.svg, func(w io.Writer) error {
			return draw.SVG(w, t, p, draw.Options{Scheme: draw.Scheme(slices.Index(schemes, o.scheme))})
		}},
		{o.ncclXML, func(w io.Writer) error { return ncclxml.Write(w, t) }},
		{"-", o.view(t, p, problems, terminalWidth(out))},
	} {
		if file.name == "" || file.print == nil {
			continue
		}
		// Whole or not at all: nothing is printed of what fails, or is interrupted.
		var text bytes.Buffer
		if err := interruptible(cmd.Context(), func() error { return file.print(&text) }); err != nil {
			return err
		}
		write := func(w io.Writer) error {
			_, err := text.WriteTo(w)
			return err
		}
		if file.name == "-" {
			err = write(out)
		} else {
			err = outfile.Write(file.name, write)
		}
		if err != nil {
			return err
		}
	}
	rest := "--json has all"
	if o.json {
		rest = `"problems" has all`
	}
	warn(cmd.ErrOrStderr(), problems, rest)
	return nil
}

// view is what prints to standard output; nil if files are all that was asked for.
func (o *topoOptions) view(t *pci.Topology, p *pci.Pairing, problems error, width int) func(io.Writer) error {
	text := report.Options{Pairing: p, Width: width, All: o.all}
	switch {
	case o.matrix:
		return func(w io.Writer) error { return report.Matrix(w, t) }
	case o.pairs:
		return func(w io.Writer) error { return report.Pairs(w, t, p, text) }
	case o.findings:
		return func(w io.Writer) error { return report.Findings(w, t, text) }
	case o.json:
		return func(w io.Writer) error { return report.JSON(w, t, p, problems) }
	case o.tree():
		return func(w io.Writer) error { return report.Tree(w, t, text) }
	}
	return nil
}
