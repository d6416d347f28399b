package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/peerdirect/peerdirect/internal/inventory"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// deviceFlag adds --device, completed from the machine's devices.
func deviceFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "device", "d", "", "only this device")
	cmd.RegisterFlagCompletionFunc("device", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return inventory.Names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// checkSubject judges what is to be traced, and the common flags.
func (o *traceOutputs) checkSubject(f *pflag.FlagSet, pid int, device string) error {
	switch {
	case pid < 0:
		return fmt.Errorf("--pid %d: a process's number, or 0 for all", pid)
	case f.Changed("device") && device == "":
		return errors.New("--device needs a name")
	}
	return o.check(f)
}

// checkProcess is an error if there is no such process; 0 is all.
func checkProcess(pid int) error {
	if pid == 0 {
		return nil
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("--pid %d: no such process", pid)
	}
	return nil
}
