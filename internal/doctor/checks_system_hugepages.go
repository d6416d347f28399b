package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// hugePages tells what there is of large pages: fewer entries in the NIC's tables of
// translations, and a registration that pins in fewer steps.
func hugePages(_ context.Context, s *System) []Finding {
	const folder = "sys/kernel/mm/hugepages"
	sizes, err := fs.ReadDir(s.Root, folder)
	if err != nil {
		return []Finding{s.missing("huge pages", folder, err)}
	}
	f := Finding{Subject: "huge pages", Verdict: Note,
		Summary: "none are reserved; host buffers have pages of the base size, unless the kernel makes them transparently huge"}
	var reserved []string
	for _, size := range sizes {
		total, err := s.text(path.Join(folder, size.Name(), "nr_hugepages"))
		if err != nil {
			continue
		}
		free, _ := s.text(path.Join(folder, size.Name(), "free_hugepages"))
		name := strings.TrimPrefix(size.Name(), "hugepages-")
		f.Evidence = append(f.Evidence, fmt.Sprintf("/%s/%s: %s, %s free", folder, size.Name(), total, free))
		if n, err := strconv.ParseUint(total, 10, 64); err == nil && n > 0 {
			reserved = append(reserved, fmt.Sprintf("%d of %s (%s free)", n, name, free))
		}
	}
	const transparent = "sys/kernel/mm/transparent_hugepage/enabled"
	if mode, err := s.text(transparent); err == nil {
		f.Evidence = append(f.Evidence, "/"+transparent+": "+mode)
	}
	if len(reserved) > 0 {
		f.Verdict, f.Summary = OK, "reserved: "+strings.Join(reserved, ", ")
	}
	return []Finding{f}
}
