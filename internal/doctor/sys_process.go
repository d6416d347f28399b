package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// process is one whose limits, rights and libraries are looked at.
type process struct {
	s       *System
	folder  string // "proc/self", "proc/4711"
	subject string
}

// processes are this one, of a running machine, and the one that was asked for.
func (s *System) processes() (all []process) {
	if s.Live {
		all = append(all, process{s, "proc/self", "this process"})
	}
	if s.PID != 0 {
		p := process{s, "proc/" + strconv.Itoa(s.PID), fmt.Sprintf("process %d", s.PID)}
		if name, err := p.text("comm"); err == nil {
			p.subject += " (" + name + ")"
		}
		all = append(all, p)
	}
	return all
}

func (p process) text(name string) (string, error) { return p.s.text(path.Join(p.folder, name)) }

// unlimited is what has no bound: a limit of a process, of a cgroup.
const unlimited = ^uint64(0)

// limit is a line of /proc/PID/limits.
type limit struct{ soft, hard uint64 }

func (l limit) String() string { return fmt.Sprintf("soft %s, hard %s", bound(l.soft), bound(l.hard)) }

func bound(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// parseLimits reads /proc/PID/limits: a name, the soft and the hard limit and, of
// most, a unit (fs/proc/base.c, proc_pid_limits). What is none is left out.
func parseLimits(text string) map[string]limit {
	const columns = 26 // of the name; the kernel pads to 25 and a blank
	all := map[string]limit{}
	for line := range strings.Lines(text) {
		if len(line) <= columns {
			continue
		}
		values := strings.Fields(line[columns:])
		if len(values) < 2 {
			continue
		}
		soft, ok := parseBound(values[0])
		hard, both := parseBound(values[1])
		if ok && both {
			all[strings.TrimSpace(line[:columns])] = limit{soft, hard}
		}
	}
	return all
}

func parseBound(s string) (uint64, bool) {
	if s == "unlimited" || s == "max" {
		return unlimited, true
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// limit gives one, or what to say of a process that does not tell it.
func (p process) limit(name string) (limit, *Finding) {
	text, err := p.text("limits")
	l, ok := parseLimits(text)[name]
	if err == nil && !ok {
		err = fmt.Errorf("there is no line %q", name)
	}
	if err != nil {
		f := p.s.missing(p.subject, path.Join(p.folder, "limits"), err)
		return l, &f
	}
	return l, nil
}

// Capabilities that the direct path and the looks at it need (linux/capability.h).
const (
	capNetAdmin    = 12
	capNetRaw      = 13
	capIPCLock     = 14
	capSysPtrace   = 19
	capSysAdmin    = 21
	capSysResource = 24
	capPerfmon     = 38
	capBPF         = 39
)

// capabilities gives those in effect, from /proc/PID/status.
func (p process) capabilities() (set uint64, err error) {
	text, err := p.text("status")
	if err != nil {
		return 0, err
	}
	set, ok := parseCapabilities(text)
	if !ok {
		return 0, fmt.Errorf("there is no line CapEff")
	}
	return set, nil
}

func parseCapabilities(status string) (set uint64, ok bool) {
	for line := range strings.Lines(status) {
		if value, is := strings.CutPrefix(line, "CapEff:"); is {
			set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return set, err == nil
		}
	}
	return 0, false
}

// firstUserNamespace is the inode of the one that the machine starts with
// (include/linux/proc_ns.h, PROC_USER_INIT_INO): the kernel asks for CAP_IPC_LOCK
// in that one (drivers/infiniband/core/umem.c).
const firstUserNamespace = "user:[4026531837]"

// initialUser tells whether the process's privileges are the machine's; known is
// false where that is not to be seen.
func (p process) initialUser() (is, known bool) {
	target, err := fs.ReadLink(p.s.Root, path.Join(p.folder, "ns/user"))
	if err == nil {
		return target == firstUserNamespace, true
	}
	// The link is for who may trace the process; the mapping of users is for everybody,
	// and all of them to themselves is the first namespace's (others may be given less).
	text, err := p.text("uid_map")
	if err == nil && slices.Equal(strings.Fields(text), []string{"0", "0", "4294967295"}) {
		return true, true
	}
	return false, false
}

// cgroup is a process's place in a hierarchy.
type cgroup struct {
	controllers []string // of version 1; nil is version 2
	path        string
}

// parseCgroups reads /proc/PID/cgroup: lines "number:controllers:path".
func parseCgroups(text string) (all []cgroup) {
	for line := range strings.Lines(text) {
		number, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, at, both := strings.Cut(rest, ":")
		if !ok || !both || !strings.HasPrefix(at, "/") {
			continue
		}
		c := cgroup{path: path.Clean(at)}
		if number != "0" || controllers != "" {
			c.controllers = strings.Split(controllers, ",")
		}
		all = append(all, c)
	}
	return all
}

func (p process) cgroups() []cgroup {
	text, err := p.text("cgroup")
	if err != nil {
		return nil
	}
	return parseCgroups(text)
}

// bytesText prints an amount in the unit that shows it with few digits.
func bytesText(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[u]
}
