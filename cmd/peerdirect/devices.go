package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

func newDevices() *cobra.Command {
	var (
		o        inventory.Options
		verbose  bool
		asJSON   bool
		watch    bool
		interval time.Duration
		sysroot  string
	)
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Show RDMA devices, their ports, limits and resources",
		Long: `devices shows the RDMA devices of this machine: a line a port, or with -v and
--json everything that sysfs, the RDMA netlink and libibverbs tell of them, with
the objects that processes hold (queue pairs, memory regions and so on). Whether
a device imports dma-bufs is found by asking it to import an impossible one.

What cannot be had is shown as unknown ("?" in the table, null in JSON), and the
reason is told on standard error and under "problems" in JSON: a device that may
not be opened still shows what the kernel tells of it. In the table "-" is what
a device does not have. Keys of memory regions need CAP_NET_ADMIN.

--watch goes on until it is interrupted and prints changes: what the kernel
notifies of, what opened devices report, and what differs from one look to the
next. With --json it prints one record a line.

Exit codes: 0 every device was shown, perhaps with parts unknown, or a watch was
interrupted; 2 no such port; 3 no RDMA device, no device of that name, or no
rdma-core (what the kernel tells is shown all the same); 4 no permission, and
nothing could be shown.`,
		Example: `  peerdirect devices
  peerdirect devices -v --device rxe0
  peerdirect devices --watch
  peerdirect devices --sysroot node7            # another machine's /sys
  peerdirect devices --json --sysroot node7 | jq '.devices[].ports[].state'`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			switch {
			case f.Changed("device") && o.Device == "":
				return usageError{errors.New("--device needs a name")}
			case f.Changed("ib-port") && o.Port < 1:
				return usageError{fmt.Errorf("--ib-port %d: ports are numbered from 1", o.Port)}
			case watch && (verbose || f.Changed("sysroot")):
				return usageError{errors.New("--watch goes with neither -v nor --sysroot")}
			case f.Changed("interval") && !watch:
				return usageError{errors.New("--interval is for --watch")}
			case interval < 50*time.Millisecond:
				return usageError{fmt.Errorf("--interval %v: at least 50ms", interval)}
			}
			if f.Changed("sysroot") {
				if info, err := os.Stat(sysroot); err != nil {
					return fmt.Errorf("--sysroot: %w", err)
				} else if !info.IsDir() {
					return usageError{fmt.Errorf("--sysroot: %s is no directory", sysroot)}
				}
				o.Root = os.DirFS(sysroot)
			}
			out := cmd.OutOrStdout()
			if watch {
				return watchDevices(cmd.Context(), out, o, interval, asJSON)
			}
			o.Brief = !verbose && !asJSON
			inv, err := inventory.Collect(cmd.Context(), o)
			if len(inv.Devices) == 0 {
				return err
			}
			var failed error
			switch {
			case asJSON:
				failed = inv.WriteJSON(out)
			case verbose:
				failed = inv.WriteVerbose(out, terminalWidth(out))
			default:
				failed = inv.WriteTable(out, terminalWidth(out))
			}
			if failed != nil {
				return failed
			}
			return devicesPartial(cmd.ErrOrStderr(), err)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&verbose, "verbose", "v", false, "print every field")
	f.BoolVar(&asJSON, "json", false, "print JSON, schema "+inventory.Schema)
	f.StringVarP(&o.Device, "device", "d", "", "only this `device` (default all)")
	f.IntVarP(&o.Port, "ib-port", "i", 0, "only this `port`, from 1 (default all)")
	f.BoolVar(&watch, "watch", false, "print changes until interrupted")
	f.DurationVar(&interval, "interval", time.Second, "how often --watch looks by itself")
	f.StringVar(&sysroot, "sysroot", "", "read the capture or the `root` that holds a /sys, instead of this machine (default /)")
	completeDevices(cmd)
	cmd.MarkFlagDirname("sysroot")
	return cmd
}

// devicesPartial reports what is missing of an inventory that was printed. Only
// a missing rdma-core fails the command.
func devicesPartial(stderr io.Writer, err error) error {
	if err == nil {
		return nil
	}
	var fatal error
	for _, e := range inventory.Split(err) {
		if errors.Is(e, inventory.ErrNoLibrary) {
			fatal = e
			continue
		}
		fmt.Fprintf(stderr, "peerdirect: %v\n", e)
	}
	return fatal
}

func watchDevices(ctx context.Context, out io.Writer, o inventory.Options, interval time.Duration, asJSON bool) error {
	for r, err := range inventory.Watch(ctx, o, interval) {
		if err != nil {
			return err
		}
		print := r.WriteText
		if asJSON {
			print = r.WriteJSON
		}
		if err := print(out); err != nil {
			return err
		}
	}
	return nil
}

// terminalWidth is the width of the terminal that w is, 0 if it is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
