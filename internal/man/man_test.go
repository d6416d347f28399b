package man

import (
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/spf13/cobra"
)

// TestPage: what roff takes for its own is escaped, lists are lists, and exit codes
// have their section.
func TestPage(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "tool does.\n\nExit codes: 0 done, 1 failed."}
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Show a file's 'parts'",
		Long: `.show begins with a dot, and C:\dir has a backslash; "…" is outside of ASCII.

Its words are

  first   the one before
          all others
  second  the next

or an indented line:

      .a --b 'c'

Exit codes: 0 shown, or in 2 parts; 1 not
there; 2 usage.`,
		Example: "  tool show \\\n    -x    # .\n\n.tool",
		RunE:    func(*cobra.Command, []string) error { return nil },
	}
	cmd.Flags().IntP("most", "m", 7, "parts at `most`")
	cmd.Flags().Bool("all", true, "all of them")
	cmd.Flags().String("secret", "", "")
	cmd.Flags().MarkHidden("secret")
	root.AddCommand(cmd, &cobra.Command{Use: "hidden", Hidden: true, Run: cmd.Run})
	o := Options{Date: time.Unix(1700000000, 0), Version: "tool 1", Sections: map[string][]Section{
		"tool show": {{Title: "FILES", Entries: [][2]string{{"/etc/tool", "Its settings."}}}},
	}}
	golden.Check(t, "tool-show.1", Page(cmd, o))
	golden.Check(t, "tool.1", Page(root, o))
}
