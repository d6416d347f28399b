package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/peerdirect/peerdirect/internal/lab"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newLabShell() *cobra.Command {
	var flags labFlags
	cmd := &cobra.Command{
		Use:   "shell [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Open a shell in a machine of the lab",
		Long: `shell boots one machine and connects this terminal to a shell in it, or to
COMMAND. The machine ends with it. The working folder is seen as
/peerdirect/src, read-only; peerdirect itself is in the PATH.`,
		Example: `  peerdirect lab shell
  peerdirect lab shell --efa 2 --accelerator 1 -- peerdirect topo`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"bash", "-i"}
			}
			o, err := flags.options(cmd, args)
			if err != nil {
				return err
			}
			err = onTerminal(cmd, o)
			flags.efa.stats.print(cmd.ErrOrStderr())
			return labError(err)
		},
	}
	flags.register(cmd, 24*time.Hour)
	return cmd
}

// onTerminal runs o with the process's terminal handed to the guest. A
// terminal's interrupt key then reaches the guest's command like any other.
func onTerminal(cmd *cobra.Command, o lab.Options) error {
	stdin, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(stdin.Fd())) {
		return usageError{errors.New("standard input is no terminal: use 'lab run' for commands that need none")}
	}
	in := int(stdin.Fd())
	cols, rows, err := term.GetSize(in)
	if err != nil {
		return err
	}
	resize := make(chan [2]int)
	o.Terminal = &lab.Terminal{Input: stdin, Name: os.Getenv("TERM"), Rows: rows, Cols: cols, Resize: resize}

	// Build first, while the interrupt key still means this process.
	if _, err := lab.Build(cmd.Context(), o.Kernel, o.Log); err != nil {
		return err
	}
	before, err := term.MakeRaw(in)
	if err != nil {
		return err
	}
	defer term.Restore(in, before)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	go func() {
		for {
			select {
			case <-changed:
				if cols, rows, err := term.GetSize(in); err == nil {
					resize <- [2]int{rows, cols}
				}
			case <-cmd.Context().Done():
				return
			}
		}
	}()
	return lab.Run(cmd.Context(), o)
}
