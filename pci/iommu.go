package pci

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	iommuDir  = "sys/class/iommu"
	groupsDir = "sys/kernel/iommu_groups"
)

// iommu reads which units translate, and the groups where devices have no link to
// theirs.
func (r *reader) iommu() {
	entries, ok := r.list(iommuDir)
	r.t.Platform.IOMMU.Seen = ok
	for _, e := range entries {
		r.t.Platform.IOMMU.Units = insert(r.t.Platform.IOMMU.Units, e.Name())
	}
	if r.t.Outline || slices.ContainsFunc(r.t.Devices, func(d *Device) bool { return d.Group >= 0 }) {
		return
	}
	groups, _ := r.list(groupsDir)
	for _, g := range groups {
		number, ok := groupNumber(g.Name())
		if !ok {
			continue
		}
		members, _ := r.list(groupsDir + "/" + g.Name() + "/devices")
		for _, m := range members {
			if a, ok := scanAddress(m.Name(), 4); ok && r.at[a] != nil {
				r.at[a].Group, r.at[a].GroupType = number, r.groupType(number)
			}
		}
	}
}

// group reads a device's IOMMU group; devices in one cannot be told apart.
func (r *reader) group(d *Device, dir string) {
	target, ok := r.link(dir + "/iommu_group")
	if !ok {
		return
	}
	number, ok := groupNumber(path.Base(target))
	if !ok {
		r.fail("read", dir+"/iommu_group", fmt.Errorf("it leads to %q, which is no IOMMU group", clip(target)))
		return
	}
	d.Group, d.GroupType = number, r.groupType(number)
}

func groupNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// groupType reads how a group's devices see memory
// (Documentation/ABI/testing/sysfs-kernel-iommu_groups).
func (r *reader) groupType(number int) string {
	r.shared.Lock()
	kind, ok := r.shared.types[number]
	r.shared.Unlock()
	if ok {
		return kind
	}
	kind, _ = r.text(groupsDir + "/" + strconv.Itoa(number) + "/type")
	kind, _, _ = strings.Cut(kind, "\n")
	r.shared.Lock()
	defer r.shared.Unlock()
	if r.shared.types == nil {
		r.shared.types = map[int]string{}
	}
	r.shared.types[number] = kind
	return kind
}
