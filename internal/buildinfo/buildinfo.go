// Package buildinfo tells of which source a program was made, how, and what it
// finds of its machine at run time.
package buildinfo

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"text/tabwriter"
	"time"
)

// Schema is that of a Report in JSON.
const Schema = "peerdirect.version/1"

// Report is what 'peerdirect version' prints. What is not known is empty.
type Report struct {
	Schema     string    `json:"schema"`
	Version    string    `json:"version"`              // a release, or devel-COMMIT
	Commit     string    `json:"commit"`               // whole
	CommitTime time.Time `json:"commit_time,omitzero"` // UTC
	Modified   bool      `json:"modified"`             // the sources differed from the commit
	Go         string    `json:"go"`                   // release of the compiler
	Platform   string    `json:"platform"`             // linux/amd64
	Cgo        bool      `json:"cgo"`                  // without it there is no libibverbs
	Kernel     string    `json:"kernel"`               // release of the running one
	BPFDigest  string    `json:"bpf_objects_sha256"`   // of the embedded programs
	Libraries  []Library `json:"libraries"`            // that are loaded at run time
}

// Library is a shared library, or why it is not there.
type Library struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Version string `json:"version"` // as its file is named, or ""
	Problem string `json:"problem,omitempty"`
}

// Read gives what the program was built from. release is what its build set, ""
// for a build that is no release.
func Read(release string) Report {
	r := Report{Schema: Schema, Version: cmp.Or(release, "devel"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.add(release, info)
	}
	return r
}

// tagged is a version of the module that is no pseudo-version.
var tagged = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[A-Za-z][0-9A-Za-z.]*)?$`)

// add takes what the Go command has noted. Of 'go install MODULE@VERSION' that is
// the module's version, which has the commit in it where there is no tag; of a
// build in a checkout it is the commit.
func (r *Report) add(release string, info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.Commit = s.Value
		case "vcs.time":
			r.CommitTime, _ = time.Parse(time.RFC3339, s.Value)
		case "vcs.modified":
			r.Modified = s.Value == "true"
		case "CGO_ENABLED":
			r.Cgo = s.Value == "1"
		}
	}
	module := info.Main.Version
	switch {
	case release != "":
	case tagged.MatchString(module):
		r.Version = module
	case len(r.Commit) >= 12:
		r.Version = "devel-" + r.Commit[:12]
	case module != "" && module != "(devel)":
		r.Version = module
	}
}

// Print writes a line for each fact.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "peerdirect\t%s\n", r.Version)
	if r.Commit != "" {
		state := ""
		if r.Modified {
			state = ", with changes"
		}
		fmt.Fprintf(t, "commit\t%s, %s%s\n", r.Commit, r.CommitTime.Format(time.RFC3339), state)
	}
	cgo := "without cgo"
	if r.Cgo {
		cgo = "with cgo"
	}
	fmt.Fprintf(t, "built\t%s, %s, %s\n", r.Go, r.Platform, cgo)
	fmt.Fprintf(t, "bpf objects\tsha256 %s\n", cmp.Or(r.BPFDigest, "none"))
	fmt.Fprintf(t, "kernel\t%s\n", cmp.Or(r.Kernel, "unknown"))
	for _, l := range r.Libraries {
		switch {
		case l.Problem != "":
			fmt.Fprintf(t, "%s\tnot here: %s\n", l.Name, l.Problem)
		default:
			fmt.Fprintf(t, "%s\t%s, %s\n", l.Name, cmp.Or(l.Version, "?"), l.Path)
		}
	}
	return t.Flush()
}
