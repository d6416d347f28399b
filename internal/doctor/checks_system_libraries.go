package doctor

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// processLibraries looks at the libraries that a process has loaded.
func processLibraries(_ context.Context, s *System) (all []Finding) {
	for _, p := range s.processes() {
		if p.folder == "proc/self" {
			continue // this command's own are the next check's
		}
		at := path.Join(p.folder, "maps")
		text, err := s.text(at)
		if err != nil {
			f := s.missing(p.subject, at, err)
			if errors.Is(err, fs.ErrPermission) {
				f.Remedy = "run as root, or as the process's user (CAP_SYS_PTRACE)"
			}
			all = append(all, f)
			continue
		}
		all = append(all, p.libraries(parseMaps(text))...)
	}
	return all
}

func (p process) libraries(loaded []mapping) (all []Finding) {
	at := "/" + p.folder + "/maps: "
	of := map[string][]mapping{}
	var names []string
	for _, m := range loaded {
		family := familyOf(m.file)
		if of[family] == nil {
			names = append(names, family)
		}
		of[family] = append(of[family], m)
		if m.deleted {
			all = append(all, Finding{Subject: p.subject, Verdict: Warn, Summary: m.file + " was removed or replaced since the process loaded it",
				Evidence: []string{at + m.file + " (deleted)"}, Remedy: "start the process anew: what it loads now and then (a provider, a plugin) may fit the new file only"})
		}
	}
	for _, family := range names {
		maps := of[family]
		if len(maps) < 2 {
			continue
		}
		f := Finding{Subject: p.subject, Verdict: Warn, Summary: "it has loaded more than one copy of " + strings.TrimSuffix(family, ".so") +
			": what is opened by one the other does not know", Remedy: "see to it that all parts take the same: LD_LIBRARY_PATH, the run paths of the program and its plugins ('readelf -d FILE'), copies in Python wheels"}
		for _, m := range maps {
			f.Evidence = append(f.Evidence, at+m.file)
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		f := Finding{Subject: p.subject, Summary: "of the libraries of the direct path it has loaded one copy each"}
		if len(loaded) == 0 {
			f.Verdict, f.Summary = Note, "it has loaded none of the libraries of the direct path (they may be linked into it)"
		}
		for _, m := range loaded {
			f.Evidence = append(f.Evidence, at+m.file)
		}
		all = append(all, f)
	}
	return all
}

// installedLibraries looks for libraries that are there more than once.
func installedLibraries(_ context.Context, s *System) (all []Finding) {
	found, err := s.installed()
	if err != nil {
		f := s.missing("libraries", "etc/ld.so.cache", err)
		if !f.missing {
			f.Evidence = append(f.Evidence, "it is glibc's; with musl there is none")
		}
		return []Finding{f}
	}
	for _, c := range found {
		f := Finding{Subject: c.name, Summary: "there is one"}
		for _, file := range c.files {
			where := " (by /etc/ld.so.cache)"
			if slices.Contains(c.extra, file) {
				where = " (not in /etc/ld.so.cache: by LD_LIBRARY_PATH or a run path only)"
			}
			f.Evidence = append(f.Evidence, "/"+file+where)
		}
		switch known := len(c.files) - len(c.extra); {
		case known > 1:
			f.Verdict = Warn
			f.Summary = "the loader knows several copies, and takes /" + c.first
			f.Remedy = "keep one: remove the other's package, or its line in /etc/ld.so.conf.d, then run ldconfig"
		case len(c.files) > 1:
			f.Verdict = Note
			f.Summary = "there are several copies; without LD_LIBRARY_PATH or a run path the loader takes /" + c.first
			if known == 0 {
				f.Summary = "there are several copies, none of which the loader knows"
			}
		case known == 0:
			f.Verdict = Note
			f.Summary = "the loader does not know it: it is found by LD_LIBRARY_PATH or a run path only"
		}
		all = append(all, f)
	}
	// Of a running machine check rdma-library asks libibverbs itself.
	if !s.Live && !slices.ContainsFunc(found, func(c copies) bool { return c.name == "libibverbs.so.1" }) {
		f := Finding{Subject: "libibverbs.so.1", Verdict: Note, Summary: "it is not installed", Evidence: []string{"/etc/ld.so.cache does not name it"}}
		if devices, _ := fs.ReadDir(s.Root, "sys/class/infiniband"); len(devices) > 0 {
			f.Verdict, f.Cause = Fail, CauseUnsupported
			f.Summary = "it is not installed: nothing opens the RDMA devices here"
		}
		f.Remedy = installVerbsWords
		f.Commands = s.installVerbs()
		all = append(all, f)
	}
	return append(all, s.nvidiaVersions(found)...)
}

// cudaRelease is a release of NVIDIA's driver as its library's name has it: "580.95.05".
var cudaRelease = regexp.MustCompile(`^\d{3,}\.\d+`)

// nvidiaVersions compares NVIDIA's module with its library, which must be of one
// release: after an update both go on until something is started anew.
func (s *System) nvidiaVersions(found []copies) []Finding {
	const module = "sys/module/nvidia/version"
	version, err := s.text(module)
	i := slices.IndexFunc(found, func(c copies) bool { return c.name == "libcuda.so.1" })
	if err != nil || i < 0 || found[i].first == "" {
		return nil
	}
	_, library, ok := strings.Cut(path.Base(found[i].first), ".so.")
	f := Finding{Subject: "NVIDIA's driver", Summary: "module and library are of release " + version,
		Evidence: []string{"/" + module + ": " + version, "/" + found[i].first}}
	switch {
	case !ok || !cudaRelease.MatchString(library): // as Jetson's libcuda.so.1.1
		f.Verdict, f.Summary = Unknown, "the library's file does not tell its release; the module is of "+version
	case strings.Contains(found[i].first, "/compat/"):
		f.Verdict, f.Summary = Note, "the library is one for compatibility, of release "+library+"; the module is of "+version
	case library != version:
		f.Verdict, f.Cause = Fail, CauseUnsupported
		f.Summary = "the module is of release " + version + ", the library of " + library + ": CUDA starts with neither"
		f.Remedy = "start the machine anew, or unload NVIDIA's modules and load them again; in a container the host's library is to be mounted, not one of the image"
	}
	return []Finding{f}
}
