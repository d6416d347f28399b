package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionShells are those that completion is written for.
var completionShells = []string{"bash", "fish", "zsh"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write the completion script of a shell: bash, fish or zsh",
		Long: `completion writes a script by which SHELL (bash, fish or zsh) completes
commands, flags and what they take: this machine's RDMA devices, memory that can
be used here, kernels, shapes and so on. Packages install it. bash needs the
package bash-completion.

Exit codes: 0 written; 2 usage.`,
		Example: `  source <(peerdirect completion bash)          # in this shell
  peerdirect completion bash >peerdirect        # to /etc/bash_completion.d
  peerdirect completion zsh >_peerdirect        # to a folder of $fpath
  peerdirect completion fish >peerdirect.fish   # to ~/.config/fish/completions`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(completionShells, args[0]) {
				return fmt.Errorf("which shell? Name one of %s", strings.Join(completionShells, ", "))
			}
			return nil
		},
		ValidArgs:             completionShells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeCompletion(cmd.Root(), args[0], cmd.OutOrStdout())
		},
	}
}

func writeCompletion(root *cobra.Command, shell string, w io.Writer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return root.GenZshCompletion(w)
}
