// Package doctor answers one question: why is the direct path between accelerators
// and NICs off, or slow? Checks look at a machine, or at a capture of one, and
// each says what it found, by what evidence, and what to do about it.
//
// A check that cannot tell says so and why; it never guesses. Nothing is changed:
// remedies are told, and carried out by the reader.
package doctor

import (
	"context"
	"io/fs"
	"slices"
	"sync"

	"github.com/peerdirect/peerdirect/pci"
)

// Verdict is what a check makes of a thing, from good to bad.
type Verdict uint8

const (
	OK      Verdict = iota // as it should be
	Note                   // not wrong, and worth knowing
	Unknown                // it could not be told; Evidence says why
	Warn                   // slower than it could be, or about to fail
	Fail                   // the direct path is off
)

var verdictNames = [...]string{OK: "ok", Note: "note", Unknown: "unknown", Warn: "warn", Fail: "fail"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText gives the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Cause says of what kind a failure is, for the command's exit code.
type Cause uint8

const (
	CauseOther       Cause = iota // exit 1
	CauseNoDevice                 // exit 3
	CausePermission               // exit 4
	CauseUnsupported              // exit 5
)

// Finding is what a check says of one thing.
type Finding struct {
	Check    string   // the check's name, set by Run
	Subject  string   // a device, a path "a -> b", a file, a process; empty for the machine
	Verdict  Verdict  //
	Cause    Cause    // of a Fail
	Summary  string   // one line: what is so
	Evidence []string // what was read, and where: "/proc/…: 8192"
	Remedy   string   // what to do, in words; empty where there is nothing to do
	Commands []string // shell commands that do it, one a line; printed by --fix, never run

	// Counters are values that stay where all is well, by name: under --watch one
	// that rises makes the finding a Warn, and is told with by how much.
	Counters map[string]uint64

	// missing is set where a capture does not hold what it takes to tell.
	missing bool
}

// Check looks at one matter.
type Check struct {
	Name  string // lower case, words joined by "-": stable, --only and --json use it
	Group string // the heading it is printed under
	About string // one line: what it looks at, and why it matters to the direct path
	// Live is set where only a running machine can tell; of a capture nothing is said then.
	Live bool
	// Run gives at least one finding where the matter applies, none where it does not.
	Run func(context.Context, *System) []Finding
}

// System is the machine that checks look at.
type System struct {
	Root    fs.FS    // what is taken as "/": this machine's, or a capture's
	Live    bool     // Root is the running machine's: devices can be opened, memory registered
	PID     int      // a process whose limits and libraries are looked at too; 0: none
	Devices []string // RDMA devices that are asked about; none: all

	topology func() (*pci.Topology, error)
	rdma     rdmaFacts
}

// NewSystem gives the machine below root.
func NewSystem(root fs.FS, live bool) *System {
	return &System{Root: root, Live: live, topology: sync.OnceValues(func() (*pci.Topology, error) { return pci.Read(root) })}
}

// Topology is the machine's, read once. As with pci.Read there may be one beside an error.
func (s *System) Topology() (*pci.Topology, error) { return s.topology() }

// Checks are all there are, in the order in which they are told and in which their
// remedies are to be carried out: a driver before its device, a device before a path.
func Checks() []Check { return slices.Concat(systemChecks, rdmaChecks, pathChecks) }

// Run has each check look at s, and calls each with what it found as soon as it has.
// It ends early when ctx is done.
func Run(ctx context.Context, s *System, checks []Check, each func(Check, []Finding)) error {
	for _, c := range checks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Live && !s.Live {
			continue
		}
		found := c.Run(ctx, s)
		for i := range found {
			found[i].Check = c.Name
		}
		each(c, found)
	}
	return ctx.Err()
}
