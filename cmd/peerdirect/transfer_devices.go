package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/spf13/cobra"
)

// openDevices finds devices by their names. Those that are embedded are given
// back as well, and must be closed.
func openDevices(device string, rc transfer.RCOptions, stderr io.Writer) (transfer.Opener, *transfer.Embedded, error) {
	if device == "" && !transfer.HasDevices(os.DirFS("/")) {
		device = transfer.EmbeddedName
		fmt.Fprintln(stderr, "no RDMA device on this machine: using software EFA devices inside this process (--device embedded)")
	}
	o, embedded, err := transfer.ParseEmbedded(device)
	if err != nil {
		return nil, nil, err
	}
	if !embedded {
		rail, err := transfer.Named(device, rc)
		return rail, nil, err
	}
	e, err := transfer.NewEmbedded(o)
	if err != nil {
		return nil, nil, err
	}
	return e.Node(0), e, nil
}

// deviceUsage is of the flag that names devices.
const deviceUsage = "RDMA `devices`: a name, several with commas, efa for all EFA devices, or " + transfer.EmbeddedName +
	" for software ones in this process, as embedded:nodes=2,nics=4, with latency=20us, gbps=100, seed=1 " +
	"if you like (default the only one; without any, embedded)"

// memoryNamed is transfer.MemoryNamed for --memory: a name that nothing can have
// is a mistake on the command line.
func memoryNamed(name string) (dmabuf.Exporter, error) {
	e, err := transfer.MemoryNamed(name)
	var wrong *dmabuf.Error
	if errors.As(err, &wrong) && errors.Is(err, dmabuf.ErrUnsupported) {
		err = usageError{fmt.Errorf("--memory %s: %s; %s is the process's own", name, wrong.Detail, transfer.HostMemory)}
	}
	return e, err
}

// completeMemory offers the exporters that can be used here.
func completeMemory(cmd *cobra.Command) {
	cmd.RegisterFlagCompletionFunc("memory", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names := []cobra.Completion{cobra.CompletionWithDesc(transfer.HostMemory, "the process's own")}
		for _, e := range dmabuf.Exporters() {
			if e.Available() == nil {
				names = append(names, cobra.CompletionWithDesc(e.Name(), e.Describe()))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}
