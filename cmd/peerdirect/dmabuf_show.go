package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/spf13/cobra"
)

const dmabufShowSchema = "peerdirect.dmabuf.show/1"

// dmabufShow is what show prints with --json.
type dmabufShow struct {
	Schema  string       `json:"schema"`
	PID     int          `json:"pid"`
	Buffers []dmabufHeld `json:"buffers"`
}

type dmabufHeld struct {
	Inode    uint64          `json:"inode"`
	Exporter *string         `json:"exporter"` // null where no descriptor tells
	Size     *uint64         `json:"size"`     // bytes, likewise
	Count    *int64          `json:"count"`    // all references, the kernel's own included
	Name     string          `json:"name,omitempty"`
	FDs      []int           `json:"fds"`
	Mappings []dmabufMapping `json:"mappings"`
}

type dmabufMapping struct {
	Start  uint64 `json:"start"`
	Size   uint64 `json:"size"`
	Offset uint64 `json:"offset"` // in the dma-buf
	Access string `json:"access"` // as "rw-s"
}

func newDMABufShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show PID",
		Short: "Show the dma-bufs that a process holds",
		Long: `show lists the dma-bufs that a process holds by descriptors and mappings: the
inode, which is one buffer's everywhere, the driver that exported it, its size,
and all references to it. References that no process shows by descriptors or
mappings are those of drivers, of NICs that registered the buffer above all.

A buffer that is mapped, but has no descriptor in the process any more, tells
neither driver nor size ("?"; null in JSON). Processes of others need
CAP_SYS_PTRACE.

Exit codes: 0 shown, also where there are none; 1 no such process; 2 no number;
4 no permission.`,
		Example: `  sudo peerdirect dmabuf show 4242
  peerdirect dmabuf show 4242 --json | jq '[.buffers[].size] | add'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || pid < 1 {
				return usageError{fmt.Errorf("%q is no process ID", args[0])}
			}
			held, err := dmabuf.HeldBy("/", int(pid))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), showJSON(int(pid), held))
			}
			return showText(cmd.OutOrStdout(), int(pid), held)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, schema "+dmabufShowSchema)
	return cmd
}

func showJSON(pid int, held []dmabuf.Held) dmabufShow {
	show := dmabufShow{Schema: dmabufShowSchema, PID: pid, Buffers: []dmabufHeld{}}
	for _, h := range held {
		b := dmabufHeld{Inode: h.Inode, Name: h.Name, FDs: h.FDs, Mappings: []dmabufMapping{}}
		if len(h.FDs) > 0 {
			b.Exporter, b.Size = &h.Exporter, &h.Size
		} else {
			b.FDs = []int{}
		}
		if h.Count >= 0 {
			b.Count = &h.Count
		}
		for _, m := range h.Mappings {
			b.Mappings = append(b.Mappings, dmabufMapping{Start: m.Start, Size: m.End - m.Start, Offset: m.Offset, Access: m.Access})
		}
		show.Buffers = append(show.Buffers, b)
	}
	return show
}

func showText(w io.Writer, pid int, held []dmabuf.Held) error {
	if len(held) == 0 {
		_, err := fmt.Fprintf(w, "process %d holds no dma-buf\n", pid)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INODE\tEXPORTER\tBYTES\tREFERENCES\tDESCRIPTORS\tMAPPINGS\tNAME")
	for _, h := range held {
		exporter, size, count, fds, name := "?", "?", "?", "-", "-"
		if len(h.FDs) > 0 {
			exporter, size = printable(h.Exporter), strconv.FormatUint(h.Size, 10)
			fds = strings.ReplaceAll(strings.Trim(fmt.Sprint(h.FDs), "[]"), " ", ",")
		}
		if h.Count >= 0 {
			count = strconv.FormatInt(h.Count, 10)
		}
		if h.Name != "" {
			name = printable(h.Name)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d\t%s\n", h.Inode, exporter, size, count, fds, len(h.Mappings), name)
	}
	return t.Flush()
}

// printable keeps what a program called its buffer from steering a terminal.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
