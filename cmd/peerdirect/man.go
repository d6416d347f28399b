package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/peerdirect/peerdirect/internal/man"
	"github.com/spf13/cobra"
)

// newMan writes the manual pages, for packages: they come of the same texts as
// --help.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return usageError{err}
			}
			_, err = man.Write(args[0], cmd.Root(), man.Options{Date: date, Version: "peerdirect " + version(), Sections: manSections})
			return err
		},
	}
}

// sourceDate is the time in SOURCE_DATE_EPOCH, seconds, or that of the commit which
// the program was built from; the epoch's begin if neither is known.
func sourceDate(epoch string) (time.Time, error) {
	if epoch != "" {
		s, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || s < 0 {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: it is a number of seconds", epoch)
		}
		return time.Unix(s, 0), nil
	}
	if b := readBuild(); !b.CommitTime.IsZero() {
		return b.CommitTime, nil
	}
	return time.Unix(0, 0), nil
}

var (
	tokenVariable = [2]string{tokenEnv, "The token, where no flag gives credentials. Other users of the machine do not see it, as they do --token."}
	traceFiles    = man.Section{Title: "FILES", Entries: [][2]string{
		{"/sys/kernel/btf", "Types of the kernel and its modules, by which functions and fields are found."},
	}}
)

// manSections are what pages have beyond the texts of --help.
var manSections = map[string][]man.Section{
	"peerdirect transfer":         {{Title: "ENVIRONMENT", Entries: [][2]string{tokenVariable}}},
	"peerdirect transfer to":      {{Title: "ENVIRONMENT", Entries: [][2]string{tokenVariable}}},
	"peerdirect transfer listen":  {{Title: "ENVIRONMENT", Entries: [][2]string{tokenVariable}}},
	"peerdirect bench collective": {{Title: "ENVIRONMENT", Entries: [][2]string{tokenVariable, {"PEERDIRECT_NODES, PEERDIRECT_NODE, PEERDIRECT_ADDRS", "The nodes, in a machine of the lab, where no flag names them."}}}},
	"peerdirect devices": {{Title: "FILES", Entries: [][2]string{
		{"/sys/class/infiniband", "The devices, their ports and counters."},
		{"/dev/infiniband", "By which devices are opened; a device that may not be opened shows less."},
	}}},
	"peerdirect topo": {{Title: "FILES", Entries: [][2]string{
		{"/sys/bus/pci/devices", "The functions, their links and config space."},
		{"/usr/share/misc/pci.ids", "Names of devices, where it is."},
	}}},
	"peerdirect cert": {{Title: "FILES", Entries: [][2]string{
		{"DIR/authority.pem, DIR/authority.key", "The authority's certificate, which all need, and its key, which none does."},
		{"DIR/NAME.pem, DIR/NAME.key", "A certificate and its key."},
	}}},
	"peerdirect lab": {{Title: "FILES", Entries: [][2]string{
		{"$XDG_CACHE_HOME/peerdirect/lab, ~/.cache/peerdirect/lab", "The roots of the machines."},
	}}},
	"peerdirect trace registrations": {traceFiles}, "peerdirect trace completions": {traceFiles}, "peerdirect trace leaks": {traceFiles},
	"peerdirect trace connections": {traceFiles}, "peerdirect trace errors": {traceFiles}, "peerdirect trace probes": {traceFiles},
}
