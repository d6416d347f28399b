package pci

// Topology is one machine. Its slices are in order of address or number; nobody
// changes it once it is read.
type Topology struct {
	Source   string // what it was read from: "/", a folder, a file
	Outline  bool   // ReadOutline read it
	Platform Platform
	Roots    []*Root   // root complexes
	Devices  []*Device // every function, bridges too
	Switches []*Switch
	Cards    []*Card
	Nodes    []*Node // NUMA nodes
}

// Platform is what matters of the machine as a whole.
type Platform struct {
	Arch    string // as uname says: "x86_64", "aarch64"; "" is unknown
	CPU     string // CPUID vendor of the first processor, "GenuineIntel", or the implementer on arm64, "ARM"; "" is unknown
	Family  int    // of CPUID; with Model what NCCL wants; 0 is unknown
	Model   int
	System  string // vendor and product of DMI; "" is unknown
	Kernel  string // release; "" is unknown
	Virtual Tri    // a guest of a hypervisor
	P2PDMA  Tri    // the kernel is built with CONFIG_PCI_P2PDMA
	IOMMU   IOMMU
}

// Tri is a fact that may be unknown.
type Tri uint8

const (
	Unknown Tri = iota
	No
	Yes
)

// IOMMU is how devices see memory.
type IOMMU struct {
	Units []string // names in /sys/class/iommu: "dmar0", "ivhd0", "smmu3.0x…"
	Seen  bool     // /sys/class/iommu could be read
}

// Root is a root complex's bus as sysfs has it: pciDDDD:BB.
type Root struct {
	Name     string // "pci0000:00"
	Path     string // below /sys/devices: "pci0000:00", "platform/…/pci0001:00"; "" if the source has none
	Domain   uint32
	Bus      uint8
	Node     *Node // nil is unknown
	Children []*Device
}

// Node is a NUMA node.
type Node struct {
	Number    int
	Present   bool  // the kernel lists it; false: only a device names it
	CPUs      CPUs  // nil if unknown, empty if it has none: memory of a GPU, for one
	Memory    int64 // bytes; -1 is unknown
	Distances []int // to Topology.Nodes in their order, as in the firmware's SLIT; nil is unknown
}

// Device is one PCI function.
type Device struct {
	Address  Address
	Root     *Root
	Parent   *Device // the bridge above; nil on a root bus
	Children []*Device
	Kind     Kind
	Port     Port // what it is on PCI Express

	Vendor, Product, SubVendor, SubProduct uint16
	Class                                  uint32 // 24 bits: class, subclass, interface
	Revision                               uint8
	VendorName, ProductName                string // of pci.ids; "" is unknown, and until names.Fill
	Driver                                 string // "" is none, or unknown
	Slot                                   string // physical slot's label; "" is none

	Node      *Node // nil is unknown
	CPUs      CPUs  // local_cpulist
	Link      Link
	BARs      []BAR
	ACS       *ACS   // nil: no such capability, or unknown; see ACSKnown
	ACSKnown  bool   // extended config space could be read
	Group     int    // IOMMU group; -1 is none or unknown
	GroupType string // "DMA", "DMA-FQ", "identity", …; "" is unknown
	PeerMem   Tri    // it has published peer-to-peer memory (p2pmem folder)

	Switch *Switch // the switch whose port it is
	Card   *Card   // the card whose function it is; nil if it is the only one
	PF     *Device // of a virtual function
	VFs    []*Device

	RDMA []RDMA   // infiniband devices
	Net  []string // network interfaces
	NVMe []string // controllers
	Dev  []string // names below /dev: "dri/card0", "accel/accel0", "nvidia0"
	// Memory of an accelerator in bytes where its driver tells; 0 is unknown.
	Memory int64
}

// RDMA is an infiniband device of a function.
type RDMA struct {
	Name     string
	NodeGUID string // as sysfs spells it; "" is unknown
	Ports    []RDMAPort
}

// RDMAPort is a port of an RDMA device.
type RDMAPort struct {
	Number int
	State  string // "ACTIVE"; "" is unknown
	Rate   string // "400 Gb/sec (4X NDR)"; "" is unknown
	Layer  string // "InfiniBand", "Ethernet"; "" is unknown
}

// Switch is a PCI Express switch: an upstream port and the downstream ports below
// it.
type Switch struct {
	Upstream   *Device
	Downstream []*Device
}

// Card is a device of several functions at one slot of a bus.
type Card struct {
	Functions []*Device
}

// Kind is what a function is to this project.
type Kind uint8

const (
	Other Kind = iota
	Accelerator
	RDMANIC  // a NIC that has, or by its identity would have, an RDMA device
	OtherNIC // any other
	NVMe
	Bridge
	BMC      // a management controller's display or function
	NVSwitch // 0680 of NVIDIA
)

// Port is the device and port type of the PCI Express capability.
type Port uint8

const (
	PortUnknown Port = iota // config space was not readable
	NotExpress              // no PCI Express capability
	Endpoint
	LegacyEndpoint
	IntegratedEndpoint
	RootPort
	UpstreamPort
	DownstreamPort
	ToPCI   // PCI Express to PCI bridge
	FromPCI // PCI to PCI Express bridge
	EventCollector
)

// Link is a device's link to what is above it. Zeros are unknown.
type Link struct {
	Speed, MaxSpeed float64 // GT/s a lane
	Width, MaxWidth int     // lanes
	Carries         float64 // GB/s each way, of a source that tells only this; 0 if Speed and Width are known
}

// BAR is one base address register that is in use.
type BAR struct {
	Index        int
	Size         uint64 // bytes
	Memory       bool   // else I/O ports
	Prefetchable bool
	Width64      bool
}

// ACS is the access control services of a port, from its extended config space
// (PCI Express base specification, access control services extended capability).
type ACS struct {
	Capability, Control uint16
}

// Bits of ACS.Control.
const (
	ACSSourceValidation   = 1 << 0
	ACSTranslationBlock   = 1 << 1
	ACSRequestRedirect    = 1 << 2
	ACSCompletionRedirect = 1 << 3
	ACSUpstreamForward    = 1 << 4
	ACSEgressControl      = 1 << 5
	ACSDirectTranslated   = 1 << 6
)
