package doctor

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// checkLibrary looks at what user space needs to see the devices.
func checkLibrary(ctx context.Context, s *System) (found []Finding) {
	inv, _ := s.inventory(ctx)
	ofVerbs := slices.DeleteFunc(problems(inv, ""), func(p string) bool { return !strings.HasPrefix(p, "verbs: ") })
	switch {
	case inv.Library == nil && len(inv.Devices) == 0:
		return nil // there is nothing to be opened
	case inv.Library == nil:
		return []Finding{{Subject: "libibverbs", Verdict: Fail, Cause: CauseUnsupported,
			Summary:  "libibverbs cannot be loaded: nothing opens the RDMA devices here",
			Evidence: append([]string{"the loader was asked for libibverbs.so.1"}, ofVerbs...),
			Remedy:   installVerbsWords, Commands: s.installVerbs()}}
	}
	for _, d := range s.rdmaDevices(ctx) {
		f := Finding{Subject: d.Name, Summary: "libibverbs shows it", Evidence: []string{*inv.Library}}
		switch {
		case d.Transport != nil: // libibverbs alone tells it
		case len(ofVerbs) > 0:
			f.Verdict, f.Summary, f.Evidence = Unknown, "libibverbs listed no devices", append(f.Evidence, ofVerbs...)
		case s.nodeMissing(d.Name) != "":
			f.Verdict, f.Summary = Note, "its node is not there (check device-nodes); libibverbs leaves such devices out"
			f.Evidence = append(f.Evidence, s.nodeMissing(d.Name)+": it does not exist")
		default:
			f.Verdict, f.Cause, f.Summary = Fail, CauseUnsupported, "libibverbs does not show it: the provider of its driver is missing, or older than the driver"
			f.Evidence = append(f.Evidence, problems(inv, d.Name)...)
			f.Remedy, f.Commands = "install the providers; a container needs those for the host's driver", s.installVerbs()
		}
		found = append(found, f)
	}
	return alike(found)
}

// nodeMissing is the node of an RDMA device, if it is not there: without it
// libibverbs does not tell of the device. "" is one that is there, or not known.
func (s *System) nodeMissing(device string) string {
	const class = "sys/class/infiniband_verbs"
	entries, _ := fs.ReadDir(s.Root, class)
	for _, e := range entries {
		if name, err := s.text(class + "/" + e.Name() + "/ibdev"); err != nil || name != device {
			continue
		}
		node := "dev/infiniband/" + e.Name()
		if there, known := s.exists(node); known && !there {
			return "/" + node
		}
	}
	return ""
}

// problems are what the inventory could not have of a device; "" is of none.
func problems(inv *inventory.Inventory, device string) (texts []string) {
	for _, p := range inv.Problems {
		if value(p.Device) == device {
			texts = append(texts, p.Part+": "+p.Error)
		}
	}
	return texts
}
