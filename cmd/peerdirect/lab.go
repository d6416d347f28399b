package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/spf13/cobra"
)

func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run commands in virtual machines with a stock kernel's RDMA",
		Long: `lab runs commands in virtual machines that have what this machine may lack: a
stock kernel with RDMA. Each has the kernel's own software RDMA device on a link
that reaches nothing outside, or EFA devices that this process emulates, on a
fabric of their own. Their roots are made from Debian's packages, once,
and kept in the user's cache folder. No hardware is needed, and no privilege
but what mmdebstrap needs to build a root.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLabBuild(), newLabRun(), newLabShell(), newLabClean(), newLabGuest())
	return cmd
}

func newLabBuild() *cobra.Command {
	var (
		kernels []string
		layers  []string
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Make the roots that the lab's machines boot from",
		Long: `build makes the root of each kernel named unless it is there, and prints a line
for each: series, release and folder, separated by tabs. It takes a minute or
two and 1.5 GB a kernel. Then it makes the layers named: programs that a run may
lay over its kernel's root.`,
		Example: `  peerdirect lab build                          # the default kernel
  peerdirect lab build --kernel all             # every kernel the lab knows`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := labKernels(kernels)
			if err != nil {
				return err
			}
			for _, k := range chosen {
				b, err := lab.Build(cmd.Context(), k, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				if asJSON {
					err = json.NewEncoder(cmd.OutOrStdout()).Encode(b)
				} else {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\n", b.Kernel, b.Release, b.Dir)
				}
				if err != nil {
					return err
				}
			}
			return buildLayers(cmd, layers)
		},
	}
	cmd.Flags().StringSliceVar(&layers, "with", nil, "`layer` of programs: "+strings.Join(lab.LayerNames(), ", ")+"; repeatable (default none)")
	complete(cmd, "with", lab.LayerNames()...)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one root a line, schema "+lab.BuiltSchema)
	cmd.Flags().StringSliceVar(&kernels, "kernel", []string{lab.DefaultKernel},
		"kernel `series`: "+strings.Join(lab.KernelSeries(), ", ")+" or all; repeatable")
	complete(cmd, "kernel", append(lab.KernelSeries(), "all")...)
	return cmd
}

func buildLayers(cmd *cobra.Command, names []string) error {
	for _, name := range names {
		l, err := lab.LayerByName(name)
		if err != nil {
			return usageError{err}
		}
		if _, err := lab.BuildLayer(cmd.Context(), l, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	return nil
}

// labKernels turns names into kernels; "all" is every one.
func labKernels(names []string) ([]lab.Kernel, error) {
	var chosen []lab.Kernel
	for _, name := range names {
		if name == "all" {
			return lab.Kernels, nil
		}
		k, err := lab.KernelBySeries(name)
		if err != nil {
			return nil, usageError{err}
		}
		chosen = append(chosen, k)
	}
	return chosen, nil
}

// labFlags are those of run and shell alike.
type labFlags struct {
	kernel, link, layer string
	efa                 labEFA
	o                   lab.Options
}

func (l *labFlags) register(cmd *cobra.Command, timeout time.Duration) {
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.StringVar(&l.kernel, "kernel", lab.DefaultKernel, "kernel `series`: "+strings.Join(lab.KernelSeries(), ", "))
	f.IntVar(&l.o.CPUs, "cpus", lab.DefaultCPUs, "processors of each machine")
	f.IntVar(&l.o.Memory, "memory", lab.DefaultMemory, "memory of each machine, `MiB`")
	f.StringVar(&l.link, "link", "", "RDMA `driver` on the link: rxe, siw or none (default rxe, with --efa none)")
	l.efa.register(cmd)
	registerAccelerators(f, &l.o)
	f.StringVar(&l.layer, "with", "", "lay this `layer` of programs over the root: "+strings.Join(lab.LayerNames(), ", ")+" (default none)")
	f.StringArrayVar(&l.o.Modules, "module", nil, "load another kernel `module`, 'NAME [PARAMETER=VALUE...]'; repeatable (default none)")
	f.StringVar(&l.o.Accel, "accel", lab.AccelTCG, "QEMU's `accelerator`: tcg, kvm or auto; icount: tcg with a clock that counts instructions")
	f.DurationVar(&l.o.Timeout, "timeout", timeout, "end the machines after this long")
	f.StringVar(&l.o.Out, "out", "", "share this `folder` as /peerdirect/out, writable (default none)")
	f.BoolVar(&l.o.Keep, "keep", false, "keep the machines' kernel logs and say where")
	complete(cmd, "kernel", lab.KernelSeries()...)
	complete(cmd, "link", string(lab.LinkRXE), string(lab.LinkSIW), string(lab.LinkNone))
	complete(cmd, "with", lab.LayerNames()...)
	complete(cmd, "accel", lab.AccelTCG, lab.AccelKVM, lab.AccelAuto, lab.AccelICount)
	cmd.MarkFlagDirname("out")
}

// complete offers values for a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (l *labFlags) options(cmd *cobra.Command, command []string) (lab.Options, error) {
	o := l.o
	err := positive(cmd.Flags(), "cpus", "memory", "accelerator-memory", "timeout")
	if nodes := cmd.Flags().Lookup("nodes"); nodes != nil && err == nil {
		err = positive(cmd.Flags(), "nodes")
	}
	if err != nil {
		return o, err
	}
	if o.Kernel, err = lab.KernelBySeries(l.kernel); err != nil {
		return o, usageError{err}
	}
	if o.Layer, err = lab.LayerByName(l.layer); err != nil {
		return o, usageError{err}
	}
	if o.EFA, err = l.efa.options(); err != nil {
		return o, err
	}
	o.Link, o.Command = lab.Link(l.link), command
	o.Stdout, o.Stderr, o.Log = cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.ErrOrStderr()
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

func newLabRun() *cobra.Command {
	var flags labFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in one or more machines of the lab",
		Long: `run boots the machines, runs COMMAND in all of them at once when all are up, and
ends them. Missing roots are built first. Output comes line by line, marked
with the machine's name if there are several. The exit status is the command's:
of several failures the first. Ten seconds after it the other machines end.

The command runs as root in /peerdirect/src, which is the working folder,
read-only. peerdirect itself is in its PATH, and its environment says where
it is:

  PEERDIRECT_NODE     this machine, from 0
  PEERDIRECT_NODES    how many there are
  PEERDIRECT_ADDR     this machine's address
  PEERDIRECT_ADDRS    every machine's, in order, separated by commas
  PEERDIRECT_PEERS    every other machine's
  PEERDIRECT_DEVICE   the RDMA device: rxe0 or siw0, or the first of --efa
  PEERDIRECT_EFA      the devices of --efa, separated by commas
  PEERDIRECT_ACCELERATORS
                      those of --accelerator, as dma-buf exporters: accel:0,…
  PEERDIRECT_KERNEL   the kernel's series`,
		Example: `  peerdirect lab run -- ibv_devinfo -v
  peerdirect lab run --nodes 2 -- sh -c 'ping -c 1 $PEERDIRECT_PEERS'
  peerdirect lab run --efa 2 --accelerator 2 -- lspci -tv
  peerdirect lab run --kernel 6.1 --out results -- \
    sh -c 'uname -a >/peerdirect/out/kernel'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := flags.options(cmd, args)
			if err != nil {
				return err
			}
			err = lab.Run(cmd.Context(), o)
			flags.efa.stats.print(cmd.ErrOrStderr())
			return labError(err)
		},
	}
	cmd.Flags().IntVar(&flags.o.Nodes, "nodes", 1, fmt.Sprintf("how many machines, up to %d", lab.MaxNodes))
	flags.register(cmd, lab.DefaultTimeout)
	return cmd
}

// labError turns a guest's exit status into this process's.
func labError(err error) error {
	if exit := (*lab.ExitError)(nil); errors.As(err, &exit) {
		return exitStatus(exit.Status)
	}
	return err
}

func newLabClean() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what lab build made",
		Long: `clean removes every root of the lab, whatever version of peerdirect made it, and
says how much that freed. One that machines run on stays.`,
		Example: `  peerdirect lab clean`,
		Args:    noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			freed, err := lab.Clean(cmd.Context())
			fmt.Fprintf(cmd.OutOrStdout(), "freed %.1f GB\n", float64(freed)/1e9)
			return err
		},
	}
}

// newLabGuest is what the lab's machines start as process 1.
func newLabGuest() *cobra.Command {
	return &cobra.Command{
		Use:    "guest",
		Hidden: true,
		Args:   noCommand,
		Run: func(*cobra.Command, []string) {
			lab.Guest()
			os.Exit(exitFailed)
		},
	}
}
