package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/peerdirect/peerdirect/internal/doctor"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doctorOptions are what doctor is asked for.
type doctorOptions struct {
	json, fix, list, all, strict bool
	only, skip                   []string

	source  topoSource
	devices []string
	pid     int

	watch    bool
	interval time.Duration
}

func newDoctor() *cobra.Command {
	var o doctorOptions
	var p doctorPeer
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find why the direct path is off, or slow, and what to do",
		Long: `doctor looks at what the direct path between accelerators and NICs needs: kernel
modules and options, device nodes, limits and rights, RDMA devices and ports,
the ways through PCI Express. Each check gives a verdict, by what evidence, and
a remedy. Verdicts are, from the worst:

  fail     the direct path is off
  warn     slower than it could be, or about to fail
  unknown  it could not be told, and why
  note     not wrong, and worth knowing
  ok       as it should be; a line stands for all of a group (--all shows them)

Nothing is changed. --fix prints the commands of the remedies as a shell script,
in the order in which they are to be run; who has read it runs it.

--watch looks again and again until it is interrupted, and prints what changed
and counters that rise; with --json it prints a record a line. Another machine
is read from a capture or a folder (--sysroot), without the checks that only a
running machine can answer. A container's view is that of a command run in it.

` + doctorPeerLong + `

Exit codes: 0 nothing fails; 1 something fails, or with --strict is slow; 2
usage; 3, 4 or 5 if all that fails lacks a device, a permission, or support. A
watch that is interrupted exits by its last round.`,
		Example: `  peerdirect doctor
  peerdirect doctor --all --only limits
  peerdirect doctor --fix >fix.sh
  peerdirect doctor --pid 4242
  peerdirect doctor --json | jq '.findings[] | select(.verdict == "fail")'
  peerdirect doctor --watch --interval 30s
  peerdirect doctor --sysroot node7.tgz
` + doctorPeerExample,
		Args: p.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked, err := p.asked(cmd.Flags()); err != nil {
				return err
			} else if asked {
				return p.run(cmd, &o)
			}
			checks, err := o.check(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			return o.run(cmd, checks)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&o.all, "all", "a", false, "print what is in order too, and all evidence")
	f.BoolVar(&o.json, "json", false, "print JSON, schema "+doctor.Schema)
	f.BoolVar(&o.fix, "fix", false, "print the remedies' commands as a shell script; run nothing")
	f.BoolVar(&o.list, "list", false, "print the checks and what they look at")
	f.StringSliceVar(&o.only, "only", nil, "run these `checks`, or groups of them (default all)")
	f.StringSliceVar(&o.skip, "skip", nil, "leave these `checks` or groups out (default none)")
	f.StringSliceVarP(&o.devices, "device", "d", nil, "only these RDMA `devices` (default all)")
	f.IntVar(&o.pid, "pid", 0, "look at the limits and libraries of this `process` too (default none)")
	f.StringVar((*string)(&o.source), "sysroot", "", topoSourceUsage)
	f.BoolVar(&o.strict, "strict", false, "exit with 1 for a warning too")
	f.BoolVar(&o.watch, "watch", false, "look again until interrupted, and print changes")
	f.DurationVar(&o.interval, "interval", 5*time.Second, "how often --watch looks")
	p.register(cmd)
	complete(cmd, "only", doctor.Names(doctor.Checks())...)
	complete(cmd, "skip", doctor.Names(doctor.Checks())...)
	cmd.MarkFlagFilename("sysroot", captureNames...)
	completeDevices(cmd)
	return cmd
}

// check judges the flags, and gives the checks that they leave.
func (o *doctorOptions) check(f *pflag.FlagSet) ([]doctor.Check, error) {
	switch {
	case f.Changed("sysroot") && o.source == "":
		return nil, errors.New("--sysroot needs a name")
	case f.Changed("pid") && o.pid < 1:
		return nil, fmt.Errorf("--pid %d: processes are numbered from 1", o.pid)
	case o.json && o.fix:
		return nil, errors.New("--json and --fix: choose one; JSON has the commands too")
	case o.watch && (o.fix || o.list):
		return nil, errors.New("--watch goes with neither --fix nor --list")
	case f.Changed("interval") && !o.watch:
		return nil, errors.New("--interval is for --watch")
	case o.interval < 50*time.Millisecond:
		return nil, fmt.Errorf("--interval %v: at least 50ms", o.interval)
	case o.watch && o.source != "":
		if info, err := os.Stat(string(o.source)); o.source == "-" || err == nil && !info.IsDir() {
			return nil, errors.New("--watch: a capture does not change")
		}
	}
	for _, d := range o.devices {
		if d == "" || !fs.ValidPath(d) || path.Base(d) != d {
			return nil, fmt.Errorf("--device %q is no device's name", d)
		}
	}
	return doctor.Select(doctor.Checks(), o.only, o.skip)
}
