package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// controlled gives the folders of a controller that bound a process, from its own
// up, and the name of the limit's file. Version 1 has a hierarchy for a controller.
func (p process) controlled(controller, v1, v2 string) (folders []string, file string) {
	for _, c := range p.cgroups() {
		top := "sys/fs/cgroup"
		switch {
		case c.controllers == nil:
			file = v2
		case slices.Contains(c.controllers, controller):
			top, file = path.Join(top, strings.Join(c.controllers, ",")), v1
			if _, err := fs.Stat(p.s.Root, top); err != nil {
				top = path.Join("sys/fs/cgroup", controller)
			}
		default:
			continue
		}
		folders = nil
		for at := path.Join(top, c.path); len(at) >= len(top); at = path.Dir(at) {
			folders = append(folders, at)
		}
		if c.controllers != nil {
			break // a controller is in one version only
		}
	}
	return folders, file
}

// cgroupMemory tells the least bound on a process's memory, and how near it is.
// Memory that is pinned counts as any other, and is never given back by reclaim.
func cgroupMemory(_ context.Context, s *System) (all []Finding) {
	for _, p := range s.processes() {
		folders, file := p.controlled("memory", "memory.limit_in_bytes", "memory.max")
		f := Finding{Subject: p.subject, Summary: "no control group bounds its memory"}
		least, used := unlimited, ""
		for _, folder := range folders {
			text, err := s.text(path.Join(folder, file))
			n, ok := parseBound(text)
			// Version 1 spells no bound as the largest number of whole pages.
			if err != nil || !ok || n == unlimited || n >= 1<<62 {
				continue
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("/%s/%s: %d", folder, file, n))
			if n < least {
				least, used = n, path.Join(folder, "memory.current")
				if file != "memory.max" {
					used = path.Join(folder, "memory.usage_in_bytes")
				}
			}
		}
		if least == unlimited {
			if len(folders) > 0 {
				f.Evidence = append(f.Evidence, "/"+folders[0]+" and above: no "+file)
			}
			all = append(all, f)
			continue
		}
		f.Verdict, f.Summary = Note, "its control group has "+bytesText(least)+" of memory; what is pinned counts, and cannot be reclaimed"
		if text, err := s.text(used); err == nil {
			f.Evidence = append(f.Evidence, "/"+used+": "+text)
			stat := path.Join(path.Dir(used), "memory.stat")
			cache, known := s.pageCache(stat, file != "memory.max")
			if known {
				f.Evidence = append(f.Evidence, fmt.Sprintf("/%s: %d bytes of files, which can be given back", stat, cache))
			}
			if n, err := strconv.ParseUint(text, 10, 64); err == nil && n-min(n, cache) >= least-least/10 {
				f.Verdict = Warn
				f.Summary = fmt.Sprintf("its control group uses %s of %s of memory", bytesText(n), bytesText(least))
				if known {
					f.Summary += ", of which " + bytesText(min(n, cache)) + " of page cache can be given back"
				}
				f.Remedy = "raise the bound where the group is made: MemoryMax= of a service, --memory of docker and podman, resources.limits.memory of a pod"
			}
		}
		all = append(all, f)
	}
	return all
}

// pageCache is what a control group's use of memory has of files, in bytes: it fills
// every group in time, and goes as soon as it is in the way. all is for version 1,
// whose totals count the groups below.
func (s *System) pageCache(stat string, all bool) (n uint64, known bool) {
	text, err := s.text(stat)
	if err != nil {
		return 0, false
	}
	prefix := ""
	if all {
		prefix = "total_"
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == prefix+"inactive_file" || name == prefix+"active_file" {
			part, err := strconv.ParseUint(value, 10, 63)
			n, known = n+part, err == nil
		}
	}
	return n, known
}

// rdmaBound is a device's line of rdma.max or rdma.current: "mlx5_0 hca_handle=2
// hca_object=max" (Documentation/admin-guide/cgroup-v2.rst).
type rdmaBound struct {
	device          string
	handles, object uint64
}

func parseRDMABounds(text string) (all []rdmaBound) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		b := rdmaBound{fields[0], unlimited, unlimited}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			n, ok := parseBound(value)
			switch {
			case !ok:
			case name == "hca_handle":
				b.handles = n
			case name == "hca_object":
				b.object = n
			}
		}
		all = append(all, b)
	}
	return all
}

// cgroupRDMA tells where a control group bounds the contexts and objects that a
// process makes on a device.
func cgroupRDMA(_ context.Context, s *System) (all []Finding) {
	for _, p := range s.processes() {
		folders, _ := p.controlled("rdma", "rdma.max", "rdma.max")
		found := false
		for _, folder := range folders {
			text, err := s.text(path.Join(folder, "rdma.max"))
			if err != nil {
				continue
			}
			current, _ := s.text(path.Join(folder, "rdma.current"))
			for _, b := range parseRDMABounds(text) {
				if b.handles == unlimited && b.object == unlimited || len(s.Devices) > 0 && !slices.Contains(s.Devices, b.device) {
					continue
				}
				found = true
				all = append(all, p.rdma(folder, b, current))
			}
		}
		if len(folders) > 0 && !found {
			all = append(all, Finding{Subject: p.subject, Summary: "no control group bounds its RDMA objects"})
		}
	}
	return all
}

func (p process) rdma(folder string, b rdmaBound, current string) Finding {
	f := Finding{Subject: p.subject, Verdict: Note,
		Summary:  fmt.Sprintf("its control group bounds %s to %s contexts and %s objects", b.device, bound(b.handles), bound(b.object)),
		Evidence: []string{fmt.Sprintf("/%s/rdma.max: %s hca_handle=%s hca_object=%s", folder, b.device, bound(b.handles), bound(b.object))}}
	full := b.handles == 0 || b.object == 0
	for _, c := range parseRDMABounds(current) {
		if c.device == b.device {
			f.Evidence = append(f.Evidence, fmt.Sprintf("/%s/rdma.current: %s hca_handle=%d hca_object=%d", folder, c.device, c.handles, c.object))
			full = full || c.handles != unlimited && c.handles >= b.handles || c.object != unlimited && c.object >= b.object
		}
	}
	if full {
		f.Verdict, f.Cause = Fail, CausePermission
		f.Summary = fmt.Sprintf("its control group lets no more objects be made on %s: at most %s contexts, %s objects", b.device, bound(b.handles), bound(b.object))
		f.Remedy = "take the bound away where the group is, outside of the container"
		f.Commands = []string{fmt.Sprintf("echo %s >%s", quote(b.device+" hca_handle=max hca_object=max"), quote("/"+folder+"/rdma.max"))}
	}
	return f
}

// netns tells whether RDMA devices are seen in every network namespace, or in the
// one that each is given to.
func netns(_ context.Context, s *System) []Finding {
	const name = "sys/module/ib_core/parameters/netns_mode"
	text, err := s.text(name)
	if err != nil {
		if there, known := s.exists("sys/module/ib_core"); known && !there {
			return nil // the module check tells
		}
		return []Finding{s.missing("network namespaces", name, err)}
	}
	f := Finding{Subject: "network namespaces", Evidence: []string{"/" + name + ": " + text}}
	switch text {
	case "Y":
		f.Summary = "shared: RDMA devices are seen in every network namespace; their GIDs stay those of the device's interface"
	case "N":
		f.Verdict = Note
		f.Summary = "exclusive: an RDMA device is in one network namespace, and to others it is not there"
		if devices, _ := fs.ReadDir(s.Root, "sys/class/infiniband"); len(devices) == 0 {
			f.Verdict = Warn
			f.Summary = "exclusive, and no RDMA device is in this network namespace"
			f.Remedy = "give this namespace a device, from where it is: 'rdma dev set DEVICE netns NAME'; or share all: 'rdma system set netns shared', while there is no other namespace"
		}
	default:
		f.Verdict, f.Summary = Unknown, "the kernel says neither shared nor exclusive"
	}
	return []Finding{f}
}
