package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/internal/outfile"
	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"github.com/peerdirect/peerdirect/pci/capture"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newTopoCapture() *cobra.Command {
	var source topoSource
	var force bool
	cmd := &cobra.Command{
		Use:   "capture FILE",
		Short: "Pack what topo reads of this machine into a file",
		Long: `capture packs the files of /sys and /proc that topo reads into a tar: the same
bytes each time, as long as the machine tells the same. 'peerdirect topo
--sysroot FILE' shows there what it shows here. A name that ends in .gz or .tgz
makes it compressed; - is standard output.

Left out or replaced are serial numbers, UUIDs, GUIDs, GIDs, MAC addresses, host
name and command line. Left in are PCI addresses, names of devices and drivers,
versions of kernel and machine.

Run it as root: to others the kernel shows 64 bytes of each device's config
space, and the capture then lacks the ports' kinds and access control.

Exit codes: 0 written, perhaps with parts missing, which are told; 1 the file is
there (--force replaces it) or cannot be written; 2 usage; 3 no PCI device; 4 no
permission, and nothing could be read.`,
		Example: `  sudo peerdirect topo capture node7.tgz
  ssh root@node7 peerdirect topo capture - >node7.tar
  peerdirect topo capture --sysroot /mnt/rescue old.tar`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return captureNames, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeCapture(cmd, source, args[0], force)
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&source), "sysroot", "", topoSourceUsage)
	f.BoolVarP(&force, "force", "f", false, "replace the file if it is there")
	cmd.MarkFlagFilename("sysroot", captureNames...)
	return cmd
}

func writeCapture(cmd *cobra.Command, source topoSource, name string, force bool) error {
	out, tell := cmd.OutOrStdout(), cmd.OutOrStdout()
	if name == "-" {
		if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return usageError{errors.New("a capture is no text for a terminal: name a file, or redirect standard output")}
		}
		tell = cmd.ErrOrStderr()
	} else if name == "" {
		return usageError{errors.New("the name of the capture is empty")}
	} else if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !force {
		return fmt.Errorf("%s is there already; --force replaces it", name)
	}
	var packed bytes.Buffer
	var summary capture.Summary
	err := interruptible(cmd.Context(), func() error {
		root, err := source.open(cmd.InOrStdin())
		if err == nil {
			summary, err = capture.Write(&packed, root)
		}
		return err
	})
	if err != nil {
		return source.failure(err)
	}
	blind, err := withoutConfig(packed.Bytes())
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := w.Write(packed.Bytes())
		return err
	}
	if strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".tgz") {
		write = func(w io.Writer) error {
			z := gzip.NewWriter(w)
			_, err := z.Write(packed.Bytes())
			return errors.Join(err, z.Close())
		}
	}
	if name == "-" {
		err = write(out)
	} else {
		err = outfile.Write(name, write)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(tell, "%d PCI functions: %d files, %d bytes. Serial numbers, UUIDs, GUIDs and MAC addresses are left out or replaced.\n",
		summary.Devices, summary.Files, summary.Bytes)
	if blind > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "peerdirect: of %d functions the capture lacks config space beyond 64 bytes, and with it the kind of port and access control: make it as root, outside a container\n", blind)
	}
	warn(cmd.ErrOrStderr(), summary.Partial, "topo --json has all")
	return nil
}

// withoutConfig reads a capture as who gets it will, and counts the functions
// whose config space it lacks.
func withoutConfig(packed []byte) (n int, err error) {
	root, err := sysroot.ReadTar(bytes.NewReader(packed))
	if err != nil {
		return 0, fmt.Errorf("the capture cannot be read again: %w", err)
	}
	t, problems := pci.Read(root)
	if t == nil {
		return 0, fmt.Errorf("the capture cannot be read again: %w", problems)
	}
	for _, d := range t.Devices {
		if d.Port == pci.PortUnknown {
			n++
		}
	}
	return n, nil
}
