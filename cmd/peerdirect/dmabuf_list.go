package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"text/tabwriter"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/spf13/cobra"
)

const dmabufListSchema = "peerdirect.dmabuf.list/1"

// dmabufList is what list prints with --json.
type dmabufList struct {
	Schema    string           `json:"schema"`
	Exporters []dmabufExporter `json:"exporters"`
}

type dmabufExporter struct {
	Name      string         `json:"name"`
	Memory    string         `json:"memory"` // what it is
	Available bool           `json:"available"`
	Problem   *dmabufProblem `json:"problem,omitempty"` // why not
}

type dmabufProblem struct {
	// Class is "no-device", "permission", "unsupported", "busy", or "failed".
	Class string `json:"class"`
	Op    string `json:"op,omitempty"`
	Error string `json:"error"`
	// Remedy is the cause and what to do, where that is known.
	Remedy string `json:"remedy,omitempty"`
}

func newDMABufList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the drivers that export memory, and why some cannot here",
		Long: `list shows every exporter that peerdirect knows: its name, which other commands
take (transfer --memory NAME), what memory it is, and whether it can be used
here. Where it cannot, the line below says what is missing: a module, a device,
a permission, a library.

Each exporter is asked by opening its device, a graphics card by a buffer of one
page. A device of vfio that no program drives is reset by that. Nothing is
registered with a NIC: 'peerdirect dmabuf probe' does that.`,
		Example: `  peerdirect dmabuf list
  peerdirect dmabuf list --json | jq -r '.exporters[] | select(.available).name'`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := collectExporters(dmabuf.Exporters())
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			return list.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, schema "+dmabufListSchema)
	return cmd
}

func collectExporters(all []dmabuf.Exporter) dmabufList {
	list := dmabufList{Schema: dmabufListSchema}
	for _, e := range all {
		err := e.Available()
		x := dmabufExporter{Name: e.Name(), Memory: e.Describe(), Available: err == nil}
		if err != nil {
			x.Problem = problemOf(err)
		}
		list.Exporters = append(list.Exporters, x)
	}
	return list
}

func problemOf(err error) *dmabufProblem {
	p := &dmabufProblem{Class: "failed", Error: err.Error()}
	switch {
	case errors.Is(err, dmabuf.ErrNoDevice):
		p.Class = "no-device"
	case errors.Is(err, dmabuf.ErrPermission):
		p.Class = "permission"
	case errors.Is(err, dmabuf.ErrUnsupported):
		p.Class = "unsupported"
	case errors.Is(err, syscall.EBUSY):
		p.Class = "busy"
	}
	var e *dmabuf.Error
	if errors.As(err, &e) {
		p.Op, p.Remedy = e.Op, e.Detail
		// The name is told already.
		short := *e
		short.Exporter, short.Detail = "", ""
		p.Error = short.Error()
	}
	return p
}

// print prints a line an exporter, and below it why it cannot be used.
func (l dmabufList) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXPORTER\tAVAILABLE\tMEMORY")
	for _, x := range l.Exporters {
		available := "yes"
		if !x.Available {
			available = "no"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", x.Name, available, x.Memory)
		if p := x.Problem; p != nil {
			fmt.Fprintf(t, "\t\t  %s\n", p.Error)
			if p.Remedy != "" {
				fmt.Fprintf(t, "\t\t  %s\n", p.Remedy)
			}
		}
	}
	return t.Flush()
}

// printJSON prints one document, for people and programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
