package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Checked is a check with what it found.
type Checked struct {
	Check    Check
	Findings []Finding
}

// Report is one look at a machine.
type Report struct {
	Source  string // what was looked at: "/", a folder, a file
	Live    bool
	Kernel  string // release; "" is unknown
	Checked []Checked
}

// Findings are all of a report, in the order of its checks.
func (r *Report) Findings() (all []Finding) {
	for _, c := range r.Checked {
		all = append(all, c.Findings...)
	}
	return all
}

// Worst is the worst verdict, and of a Fail the cause that all failures share;
// CauseOther if they differ.
func (r *Report) Worst() (Verdict, Cause) {
	worst, cause := OK, CauseOther
	for _, f := range r.Findings() {
		switch {
		case f.Verdict > worst:
			worst, cause = f.Verdict, f.Cause
		case f.Verdict == worst && f.Cause != cause:
			cause = CauseOther
		}
	}
	if worst != Fail {
		cause = CauseOther
	}
	return worst, cause
}

// Counts are how many findings have each verdict.
func (r *Report) Counts() (n [Fail + 1]int) {
	for _, f := range r.Findings() {
		n[f.Verdict]++
	}
	return n
}

var causeNames = [...]string{CauseOther: "other", CauseNoDevice: "no-device", CausePermission: "permission", CauseUnsupported: "unsupported"}

// String gives the cause's name.
func (c Cause) String() string { return causeNames[c] }

// MarshalText gives the same.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Select leaves the checks that only names, all if it is empty, without those that
// skip names. A name is a check's or a group's; an unknown one is an error that
// tells which there are.
func Select(checks []Check, only, skip []string) ([]Check, error) {
	for _, name := range slices.Concat(only, skip) {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.named(name) }) {
			return nil, fmt.Errorf("there is no check or group %q; there are %s", name, strings.Join(Names(checks), ", "))
		}
	}
	in := func(names []string, c Check) bool { return slices.ContainsFunc(names, c.named) }
	var left []Check
	for _, c := range checks {
		if (len(only) == 0 || in(only, c)) && !in(skip, c) {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		return nil, fmt.Errorf("no check is left to run")
	}
	return left, nil
}

func (c Check) named(name string) bool { return name == c.Name || name == c.Group }

// Names are those of groups and, after each, of its checks.
func Names(checks []Check) (names []string) {
	for _, c := range checks {
		if !slices.Contains(names, c.Group) {
			names = append(names, c.Group)
		}
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}
