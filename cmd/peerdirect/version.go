package main

import (
	"sync"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/buildinfo"
	"github.com/peerdirect/peerdirect/internal/dl"
	"github.com/peerdirect/peerdirect/internal/uname"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/spf13/cobra"
)

// release is set by the Makefile through -ldflags for a tagged build.
var release = ""

// readBuild gives what this program was built from.
var readBuild = sync.OnceValue(func() buildinfo.Report { return buildinfo.Read(release) })

// version names the release, or the commit the binary was built from.
func version() string { return readBuild().Version }

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show what this program was built from, and what it finds here",
		Long: `version shows the release or the commit that this program was built from, the
compiler, the digest of the BPF programs in it, and what it finds on this
machine: the kernel, libibverbs and libefa with their versions, which it loads
when it runs. Say it in a report of a mistake. --version prints the first line
alone.`,
		Example: `  peerdirect version
  peerdirect version --json | jq -r .commit`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := readBuild()
			r.BPFDigest = ebpfprobes.ObjectDigest()
			r.Kernel = uname.Release()
			path, err := verbs.Library()
			r.Libraries = append(r.Libraries, buildinfo.LibraryAt("libibverbs", path, err), libefa())
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.Print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, schema "+buildinfo.Schema)
	return cmd
}

// libefa is loaded by its own: package efa asks for it after it has found a device.
func libefa() buildinfo.Library {
	lib, err := dl.Open("libefa.so.1", "libefa.so")
	if err != nil {
		return buildinfo.LibraryAt("libefa", "", err)
	}
	return buildinfo.LibraryAt("libefa", lib.Path(), nil)
}
