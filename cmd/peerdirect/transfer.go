package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newTransfer() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Write scattered pages of one machine into scattered pages of another",
		Long: `transfer moves pages that are not contiguous from the memory of one machine into
pages that are not contiguous of another's: one RDMA WRITE for each contiguous
run, a done notice by an immediate, descriptors and control messages by SEND. A
TCP connection serves to connect and to notice the end of the peer; no page goes
through it. Every page is checked against the sender's CRC-32C, and the pages
that differ are named.

Devices are InfiniBand, RoCE, iWARP or EFA ones of this machine, several of one
kind if they are named, or software EFA devices inside this process, the default
on a machine without any RDMA device: 'transfer to' without an address then runs
both ends. Those of two processes reach each other through a second TCP connection,
which the pages then do go through; the result says how many bytes.

The pages lie in memory of the process, or with --memory in an accelerator's or
another driver's, which the NIC reaches by its dma-buf ('peerdirect dmabuf list'
has them). Each side chooses its own. Nothing is copied through host memory
instead: where the NIC's driver takes no dma-bufs, the transfer ends before it
begins.

Nothing authenticates the sides to each other: a listener binds to the loopback
address unless it is given another, and gives a sender no more memory than
--max-bytes.

Exit codes: 1 the peer or the network failed, or an interrupt ended a transfer;
2 a flag that makes no sense, or no such port or GID index; 3 no such device, or
none that has such memory; 4 no permission to use it; 5 memory that is not
supported here, or not by this NIC; 6 pages differ.`,
		Example: `  peerdirect transfer listen --listen 192.0.2.1       # one machine
  peerdirect transfer to 192.0.2.1 --pages 512        # the other
  peerdirect transfer to 192.0.2.1 --page-size 4K --stride 16K --scatter 7 --json
  peerdirect transfer to 192.0.2.1 --device efa       # by all EFA devices at once
  peerdirect transfer to 192.0.2.1 --memory cuda:0    # from a GPU's memory
  peerdirect transfer to --device embedded:nodes=2,nics=4`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTransferListen(), newTransferTo())
	return cmd
}

// transferFlags are those of both sides.
type transferFlags struct {
	transfer.Options
	device   string
	memory   string
	progress *progressLine
	rc       transfer.RCOptions
	gid      int
	json     bool
}

func (t *transferFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&t.device, "device", "d", "", deviceUsage)
	f.StringVarP(&t.memory, "memory", "m", transfer.HostMemory, "this side's `memory`: host, or that of a dma-buf exporter, as udmabuf, heap:system,\naccel:0, cuda:0")
	f.IntVarP(&t.rc.Port, "port", "i", 1, "port of the device")
	f.IntVarP(&t.gid, "gid-index", "x", -1, "index into the port's GID table; -1 chooses, RoCE v2 and IPv4 first")
	f.DurationVar(&t.Timeout, "timeout", 30*time.Second, "end a transfer in which nothing happens for so long")
	f.BoolVar(&t.json, "json", false, "print the result as JSON, schema "+transfer.Schema)
}

func (t *transferFlags) options(stderr io.Writer) transfer.Options {
	t.Program = version()
	t.progress = newProgressLine(stderr)
	t.Tell = t.progress.tell
	return t.Options
}

// open finds the devices. Those that are embedded are given back, and must be
// closed; nil stands for the machine's.
func (t *transferFlags) open(stderr io.Writer) (*transfer.Embedded, error) {
	if t.gid >= 0 {
		t.rc.GIDIndex = &t.gid
	}
	var err error
	if t.Memory, err = memoryNamed(t.memory); err != nil {
		return nil, err
	}
	var embedded *transfer.Embedded
	t.Rail, embedded, err = openDevices(t.device, t.rc, stderr)
	return embedded, err
}

func (t *transferFlags) check() error {
	switch {
	case t.rc.Port < 1:
		return usageError{fmt.Errorf("--port %d: ports are numbered from 1", t.rc.Port)}
	case t.gid < -1:
		return usageError{fmt.Errorf("--gid-index %d: indexes begin at 0, and -1 chooses", t.gid)}
	case t.Timeout <= 0:
		return usageError{fmt.Errorf("--timeout %v: it must be above 0", t.Timeout)}
	}
	return nil
}

func newTransferListen() *cobra.Command {
	var (
		flags  transferFlags
		listen string
		once   bool
		limit  = report.Bytes(transfer.DefaultMaxBytes)
	)
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Receive transfers, one after the other, until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			embedded, err := flags.open(stderr)
			if err != nil {
				return err
			}
			defer embedded.Close()
			o := transfer.ListenOptions{Options: flags.options(stderr), MaxBytes: uint64(limit)}
			o.Warn = func(err error) { fmt.Fprintf(stderr, "peerdirect: %v\n", err) }
			l, err := transfer.Listen(cmd.Context(), withPort(listen), o)
			if err != nil {
				return err
			}
			defer l.Close()
			fmt.Fprintf(stderr, "listening on %v\n", l.Addr())
			for {
				result, err := l.Receive(cmd.Context())
				flags.progress.end()
				if result == nil && !once {
					return nil // interrupted while nothing went on: the end that was meant
				}
				if result != nil {
					if err := printTransfer(cmd.OutOrStdout(), result, flags.json, false); err != nil {
						return err
					}
				}
				if once || cmd.Context().Err() != nil {
					return err
				}
				if err != nil {
					fmt.Fprintf(stderr, "peerdirect: %v\n", err)
				}
			}
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&listen, "listen", transfer.DefaultAddr, "`address[:port]` to wait on; without an address only this machine can connect")
	f.BoolVar(&once, "once", false, "end after one transfer, with its exit code")
	f.Var(&limit, "max-bytes", "memory that a sender may ask for, as 512M")
	flags.register(f)
	completeMemory(cmd)
	return cmd
}

func newTransferTo() *cobra.Command {
	var (
		flags  transferFlags
		o      transfer.SendOptions
		page   = report.Bytes(64 << 10)
		stride report.Bytes
	)
	cmd := &cobra.Command{
		Use:   "to [ADDRESS[:PORT]]",
		Short: "Send pages to a listener, or between embedded nodes",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			var err error
			if o.Layout, err = layoutOf(o.Layout, page, stride); err != nil {
				return err
			}
			if o.Iterations < 1 || o.Batch < 1 || o.Depth < 1 || flags.rc.Queues < 1 {
				return usageError{errors.New("--iterations, --batch, --depth and --qp must be above 0")}
			}
			embedded, err := flags.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer embedded.Close()
			o.Options = flags.options(cmd.ErrOrStderr())
			if len(args) == 0 {
				return transferInside(cmd, embedded, o, &flags)
			}
			result, err := transfer.To(cmd.Context(), withPort(args[0]), o)
			flags.progress.end()
			if result != nil {
				if err := printTransfer(cmd.OutOrStdout(), result, flags.json, true); err != nil {
					return err
				}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&page, "page-size", "bytes of a page, a power of two, as 4K")
	f.IntVar(&o.Layout.Pages, "pages", 512, "how many pages to send")
	f.Var(&stride, "stride", "bytes from one page to the next in the source, a multiple of the page size; default: twice that")
	f.Uint64Var(&o.Layout.Seed, "scatter", 1, "`seed` that scatters the pages in the target; 0 keeps them in order")
	f.IntVarP(&o.Iterations, "iterations", "n", 1, "rounds through all pages; each is verified")
	f.IntVar(&o.Batch, "batch", 16, "writes that are posted at once")
	f.IntVar(&o.Depth, "depth", 64, "writes in flight")
	f.IntVarP(&flags.rc.Queues, "qp", "q", 1, "queue pairs that share the writes; iWARP has one")
	f.DurationVar(&o.Window, "wait", 0, "how long to wait for the listener to be there; default 5s")
	flags.register(f)
	completeMemory(cmd)
	return cmd
}

// transferInside sends from every other embedded node to the first, in turn.
func transferInside(cmd *cobra.Command, embedded *transfer.Embedded, o transfer.SendOptions, flags *transferFlags) error {
	if embedded == nil {
		return usageError{errors.New("to which address? Only embedded devices (--device embedded) have both ends here")}
	}
	if embedded.Nodes() < 2 {
		return usageError{errors.New("one embedded node has nobody to send to: --device embedded:nodes=2")}
	}
	for node := 1; node < embedded.Nodes(); node++ {
		sent, received, err := embedded.Transfer(cmd.Context(), node, 0, o)
		flags.progress.end()
		for _, r := range []*transfer.Result{sent, received} {
			if r == nil {
				continue
			}
			if err := printTransfer(cmd.OutOrStdout(), r, flags.json, false); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layoutOf completes a layout with sizes in bytes.
func layoutOf(l transfer.Layout, page, stride report.Bytes) (transfer.Layout, error) {
	if page == 0 || page > transfer.MaxPageSize {
		return l, usageError{fmt.Errorf("--page-size %v: it is %d bytes to %v", page, transfer.MinPageSize, report.Bytes(transfer.MaxPageSize))}
	}
	if stride == 0 {
		stride = 2 * page
	}
	if stride%page != 0 {
		return l, usageError{fmt.Errorf("--stride %v is no multiple of the page size, %v", stride, page)}
	}
	l.PageSize, l.Stride = int(page), int(stride/page)
	if err := l.Validate(); err != nil {
		return l, usageError{err}
	}
	return l, nil
}

// withPort adds the default port to an address without one.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), transfer.DefaultPort)
}

// printTransfer prints a result, as JSON on one line if there may be several.
func printTransfer(w io.Writer, r *transfer.Result, asJSON, alone bool) error {
	if !asJSON {
		return report.Text(w, r)
	}
	e := json.NewEncoder(w)
	if alone {
		e.SetIndent("", "  ")
	}
	return e.Encode(r)
}
