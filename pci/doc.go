// Package pci reads where a machine's accelerators, NICs and memory sit: the PCI
// Express tree, NUMA nodes, links, access control and the IOMMU; and it answers
// what follows from that: how far two devices are apart, which NICs are whose
// rails, and where a path takes a detour.
//
// Everything is read from files of the kernel below a system root, so a capture of
// another machine reads as this one does; no vendor's driver and no privilege is
// needed. What cannot be had stays unknown: a nil pointer, an empty string or a
// value that says so, never a guess.
package pci
