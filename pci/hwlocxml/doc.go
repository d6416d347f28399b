// Package hwlocxml reads topologies that hwloc has written as XML: those of hwloc
// 1, 2 and 3, as lstopo, hwloc-gather-topology and programs that use the library
// export them. The formats are those of hwloc's hwloc.dtd, hwloc2.dtd and
// topology-xml.c.
//
// hwloc keeps less than sysfs tells. Not in such a file, and so unknown, are BARs,
// access control, IOMMU groups, port types, drivers and which functions are
// virtual; of the class the interface, before hwloc 3; and a link's speed and width,
// of which only the product is there: where more than one link has it, a device has
// that alone (pci.Link.Carries). Devices that hwloc's filters left out are not
// in it at all; lstopo --whole-io keeps them.
package hwlocxml
