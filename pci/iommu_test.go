package pci

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestIOMMU(t *testing.T) {
	m := two().link(lone+"/iommu_group", "../../../kernel/iommu_groups/17").
		file(groupsDir+"/17/type", "DMA-FQ\n").
		link(iommuDir+"/dmar10", "../../devices/virtual/iommu/dmar10").
		link(iommuDir+"/dmar2", "../../devices/virtual/iommu/dmar2")
	topo, err := read(t, m)
	d := topo.Devices[0]
	if err != nil || d.Group != 17 || d.GroupType != "DMA-FQ" {
		t.Errorf("group %d, %q, %v", d.Group, d.GroupType, err)
	}
	if u := topo.Platform.IOMMU; !u.Seen || !slices.Equal(u.Units, []string{"dmar2", "dmar10"}) {
		t.Errorf("units %+v", u)
	}
}

func TestWithoutIOMMU(t *testing.T) {
	topo, err := read(t, two())
	if d := topo.Devices[0]; err != nil || d.Group != -1 || d.GroupType != "" || topo.Platform.IOMMU.Seen {
		t.Errorf("group %d, %q, %+v, %v", d.Group, d.GroupType, topo.Platform.IOMMU, err)
	}
	empty := two()
	empty.MapFS[iommuDir] = &fstest.MapFile{Mode: 0o755 | 1<<31}
	topo, _ = read(t, empty)
	if u := topo.Platform.IOMMU; !u.Seen || len(u.Units) != 0 {
		t.Errorf("a folder without units: %+v", u)
	}
}

// A copy that left the links out still has the groups' own lists.
func TestGroupsByTheirLists(t *testing.T) {
	m := two().file(groupsDir+"/3/devices/0000:00:01.0/class", "").file(groupsDir+"/3/type", "identity\n").
		file(groupsDir+"/x/devices/0000:00:01.0/class", "").file(groupsDir+"/4/devices/0000:00:09.0/class", "")
	topo, err := read(t, m)
	if d := topo.Devices[0]; err != nil || d.Group != 3 || d.GroupType != "identity" {
		t.Errorf("group %d, %q, %v", d.Group, d.GroupType, err)
	}
}

func TestALinkToNoGroup(t *testing.T) {
	topo, err := read(t, two().link(lone+"/iommu_group", "../../../kernel/iommu_groups/-1"))
	if topo.Devices[0].Group != -1 || err == nil || !strings.Contains(err.Error(), "no IOMMU group") {
		t.Errorf("group %d, %v", topo.Devices[0].Group, err)
	}
}
