package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run executes one command line and gives its exit code; main and the tests
// call it alike.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(err)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "peerdirect: %v\n", err)
		if code == exitUsage {
			fmt.Fprintf(stderr, "Run '%s --help' for what it takes.\n", cmd.CommandPath())
		}
	}
	return code
}

// helpColumns is the width of every help text.
const helpColumns = 80

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "peerdirect",
		Short: "Move accelerator memory between machines on the kernel's RDMA verbs",
		Long: `peerdirect moves accelerator memory between machines without a detour through
host memory, straight on the kernel's RDMA verbs, and shows where a path takes
a detour, what registration costs and where completions wait.

Exit codes: 0 done, 1 failed, 2 usage, 3 no device, 4 no permission,
5 unsupported, 6 verification failed.`,
		Example: `  peerdirect demo                               # needs nothing
  peerdirect devices
  peerdirect topo --pairs`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion is ours
	// Flags are wrapped to the width that all texts have.
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpColumns),
		"Use \"{{.CommandPath}} [command] --help\" for more information about a command.",
		"Run '{{.CommandPath}} COMMAND --help' for more about a command.",
	).Replace(root.UsageTemplate()))
	root.SetVersionTemplate("peerdirect {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	for _, add := range commands {
		root.AddCommand(add())
	}
	markUsage(root)
	return root
}

// commands lists the constructors, one file of this folder each.
var commands = []func() *cobra.Command{
	newLab, newDevices, newPerf, newTransfer, newBench, newEFA, newDMABuf, newTopo, newTrace, newCert, newDemo, newDoctor,
	newVersion, newCompletion, newMan,
}

func noCommand(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasAvailableSubCommands():
		return usageError{fmt.Errorf("unknown command %q for '%s'; the form is '%s'", args[0], cmd.CommandPath(), cmd.UseLine())}
	}
	cmd.SuggestionsMinimumDistance = 2 // letters
	hint := ""
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		hint = "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usageError{fmt.Errorf("unknown command %q for '%s'%s", args[0], cmd.CommandPath(), hint)}
}

// markUsage makes cobra's complaints about positional arguments usage errors,
// so that they exit with 2.
func markUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil || errors.As(err, new(usageError)) {
				return err
			}
			return usageError{fmt.Errorf("%w; the form is '%s'", err, c.UseLine())}
		}
	}
	for _, sub := range cmd.Commands() {
		markUsage(sub)
	}
}
