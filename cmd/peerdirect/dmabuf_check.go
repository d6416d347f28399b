package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/internal/textwrap"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/spf13/cobra"
)

const dmabufCheckSchema = "peerdirect.dmabuf.check/1"

// dmabufCheck is what check prints with --json.
type dmabufCheck struct {
	Schema string `json:"schema"`
	// Taken is whether no rule fails; Errno is what the kernel answers if one
	// does.
	Taken bool   `json:"taken"`
	Errno string `json:"errno,omitempty"`
	dmabuf.Report
}

func newDMABufCheck() *cobra.Command {
	var (
		o      dmabuf.CheckOptions
		access = accessFlag{&o.Access}
		asJSON bool
		fd     int
	)
	cmd := &cobra.Command{
		Use:   "check --length SIZE",
		Short: "Say whether the kernel would register a dma-buf, and why not",
		Long: `check replays what the kernel checks before it registers a dma-buf, in its
order, and prints each rule with its verdict: passed, failed with both numbers
that were compared, or unknown where something was not given. The first rule
that fails is the kernel's answer. Below come warnings: what the kernel takes
and that goes wrong later.

It registers nothing. Of a device of this machine (--device) the driver and the
limits are read; of another's give --driver, --max-mr-size and --page-sizes, as
'peerdirect devices -v' shows them there. --fd is a descriptor that this command
inherits, as of a shell's redirection.

Sizes and addresses are numbers of bytes: 4096, 64K, 1M, 2G, 0x1000.

Exit codes: 0 the kernel would take it, as far as was given; 1 it would not; 2
usage; 3 no such device; 4 no permission to open it.`,
		Example: `  peerdirect dmabuf check --buffer-size 20M --offset 8214528 \
    --length 1916853120 --iova 0x12397fd5800    # fails
  peerdirect dmabuf check --driver efa --length 1M \
    --access local-write,remote-atomic          # fails, too
  peerdirect dmabuf check --address 0x7f0000020000 --base 0x7f0000000000 \
    --length 64K --iova 0x7f0000020000
  peerdirect dmabuf check --length 4K --json | jq '.rules[].verdict'`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			switch {
			case !f.Changed("length"):
				return usageError{errors.New("--length is missing: the bytes to register")}
			case f.Changed("fd") && (f.Changed("buffer-size") || f.Changed("exporter")):
				return usageError{errors.New("--fd tells the buffer's size and exporter by itself")}
			case f.Changed("address") != f.Changed("base"):
				return usageError{errors.New("--address and --base go together")}
			case f.Changed("page-size") && (o.PageSize < 4096 || o.PageSize&(o.PageSize-1) != 0):
				return usageError{fmt.Errorf("--page-size %d: the kernel's page is a power of two, 4096 or more", o.PageSize)}
			}
			if f.Changed("fd") {
				o.FD = &fd
			}
			if o.Device != "" {
				if err := readLimits(&o); err != nil {
					return err
				}
			}
			r := dmabuf.Check(o)
			out := dmabufCheck{Schema: dmabufCheckSchema, Taken: r.Failing() == nil, Report: r}
			if failing := r.Failing(); failing != nil {
				out.Errno = failing.ErrnoName
			}
			print := out.print
			if asJSON {
				print = func(w io.Writer) error { return printJSON(w, out) }
			}
			if err := print(cmd.OutOrStdout()); err != nil {
				return err
			}
			if !out.Taken {
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.Var((*bytesFlag)(&o.Offset), "offset", "offset of the first byte in the dma-buf (default 0)")
	f.Var((*bytesFlag)(&o.Length), "length", "`bytes` to register (required)")
	f.Var((*bytesFlag)(&o.IOVA), "iova", "address of the first byte in work requests (default 0)")
	o.Access = dmabufDefaultAccess
	f.Var(access, "access", "access: names joined by commas, or a number")
	f.Var((*bytesFlag)(&o.BufferSize), "buffer-size", "size of the dma-buf (default unknown)")
	f.StringVar(&o.Exporter, "exporter", "", "its exporter's `name` in fdinfo, as udmabuf, vfio_pci_core, nv_dmabuf (default unknown)")
	f.IntVar(&fd, "fd", -1, "`descriptor` of an open dma-buf, instead of its size and exporter; -1 is none")
	f.StringVarP(&o.Device, "device", "d", "", "RDMA `device` of this machine (default none)")
	f.StringVar(&o.Driver, "driver", "", "`driver` of a device elsewhere (default unknown): "+strings.Join(driverNames(), ", "))
	f.StringVar(&o.Kernel, "kernel", "", "kernel `release` elsewhere, as uname -r tells it (default this machine's)")
	f.Var((*bytesFlag)(&o.PageSize), "page-size", "page size of that kernel (default this machine's; with --kernel 4K)")
	f.Var((*bytesFlag)(&o.MaxMRSize), "max-mr-size", "the device's limit of a region (default unknown)")
	f.Var((*bytesFlag)(&o.PageSizes), "page-sizes", "the device's page_size_cap, a bit for each size (default unknown)")
	f.Var((*bytesFlag)(&o.Address), "address", "the pointer that is registered, to compare with --base (default none)")
	f.Var((*bytesFlag)(&o.Base), "base", "the start of its allocation (default none)")
	f.BoolVar(&o.DMAHandle, "dma-handle", false, "register with a DMA handle (ibv_reg_mr_ex)")
	f.BoolVar(&asJSON, "json", false, "print JSON, schema "+dmabufCheckSchema)
	complete(cmd, "driver", driverNames()...)
	complete(cmd, "access", accessWords()...)
	completeDevices(cmd)
	return cmd
}

const dmabufDefaultAccess = uint64(verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead)

// readLimits asks a device of this machine what its driver checks by.
func readLimits(o *dmabuf.CheckOptions) error {
	dev, err := verbs.Open(o.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	a, err := dev.Attr()
	if err != nil {
		return err
	}
	if o.MaxMRSize == 0 {
		o.MaxMRSize = a.MaxMRSize
	}
	if o.PageSizes == 0 {
		o.PageSizes = a.PageSizeCap
	}
	if e, err := efa.Open(o.Device); err == nil {
		defer e.Close()
		o.DeviceAccess = uint64(verbs.LocalWrite)
		if e.Attr().Caps&efa.CapRead != 0 {
			o.DeviceAccess |= uint64(verbs.RemoteRead)
		}
		if e.Attr().Caps&efa.CapWrite != 0 {
			o.DeviceAccess |= uint64(verbs.RemoteWrite)
		}
	}
	return nil
}

func driverNames() []string {
	var names []string
	for _, i := range dmabuf.Importers() {
		names = append(names, i.Driver)
	}
	return names
}

// print prints a line a rule, and what is wrong or not known on lines of its
// own, so that a narrow terminal can show them.
func (c *dmabufCheck) print(w io.Writer) error {
	var b strings.Builder
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "%-8s %-13s %s\n", r.Verdict, r.Name, r.Demand)
		switch r.Verdict {
		case dmabuf.Failed:
			wrap(&b, fmt.Sprintf("%s, by %s: %s", r.ErrnoName, r.Where, r.Cause))
			if r.Remedy != "" {
				wrap(&b, "remedy: "+r.Remedy)
			}
		case dmabuf.Unknown:
			wrap(&b, "not known: "+r.Cause)
		}
	}
	for _, x := range c.Warnings {
		fmt.Fprintf(&b, "%-8s %s\n", "warning", x.Name)
		wrap(&b, x.Cause)
		wrap(&b, "remedy: "+x.Remedy)
	}
	if f := c.Failing(); f != nil {
		fmt.Fprintf(&b, "The kernel answers %s, for the rule '%s'.\n", f.ErrnoName, f.Name)
	} else {
		fmt.Fprintln(&b, "The kernel would take it, as far as is known.")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap writes text in lines that fit a terminal of 80 columns, indented.
func wrap(b *strings.Builder, text string) {
	const indent = "         "
	for _, line := range textwrap.Lines(text, 79-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
}
