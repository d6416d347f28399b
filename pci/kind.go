package pci

// String names a kind in words for people.
func (k Kind) String() string {
	return nameOf(int(k), "other", "accelerator", "RDMA NIC", "NIC", "NVMe", "bridge", "BMC", "NVSwitch")
}

// String names a port as lspci does.
func (p Port) String() string {
	return nameOf(int(p), "unknown", "no PCI Express", "endpoint", "legacy endpoint", "integrated endpoint",
		"root port", "upstream port", "downstream port", "PCI Express to PCI bridge", "PCI to PCI Express bridge",
		"event collector")
}

func nameOf(i int, names ...string) string {
	if i >= len(names) {
		return "unknown"
	}
	return names[i]
}

// Class codes without the interface (PCI code and ID assignment specification).
const (
	classNVMe       = 0x0108
	classEthernet   = 0x0200
	classInfiniBand = 0x0207
	classFabric     = 0x0208
	classVGA        = 0x0300
	class3D         = 0x0302
	classDisplay    = 0x0380
	classPCIBridge  = 0x0604
	classSemiBridge = 0x0609
	classOtherBr    = 0x0680
	classCoproc     = 0x0b40
	classIBSerial   = 0x0c06
	classAccel      = 0x1200

	classBridge = classPCIBridge
)

// Vendors (pci.ids).
const (
	amd       = 0x1002
	nvidia    = 0x10de
	matrox    = 0x102b
	aspeed    = 0x1a03
	hpe       = 0x103c
	huawei    = 0x19e5
	xgi       = 0x18ca
	smi       = 0x126f
	nuvoton   = 0x1050
	mellanox  = 0x15b3
	intel     = 0x8086
	amazon    = 0x1d0f
	habana    = 0x1da3
	google    = 0x1ae0
	graphcore = 0x1d95
	tenstorr  = 0x1e52
	groq      = 0x1de0
	cornelis  = 0x434e
)

// screens are the displays of virtual machines; no work is given to them.
var screens = map[[2]uint16]bool{
	{0x1234, 0x1111}: true, // QEMU standard VGA, Bochs
	{0x1013, 0x00b8}: true, // Cirrus
	{0x1af4, 0x1050}: true, // virtio-gpu
	{0x1b36, 0x0100}: true, // QXL
	{0x15ad, 0x0405}: true, // VMware SVGA
	{0x1414, 0x5353}: true, // Hyper-V
	{0x80ee, 0xbeef}: true, // VirtualBox
	{0x5853, 0xc147}: true, // Xen
	{amazon, 0x1111}: true, // Nitro
}

// accelerators are those whose class does not tell.
var accelerators = map[[2]uint16]bool{
	// Trainium and Inferentia.
	{amazon, 0x7064}: true, {amazon, 0x7065}: true, {amazon, 0x7066}: true, {amazon, 0x7067}: true,
	{amazon, 0x7164}: true, {amazon, 0x7264}: true, {amazon, 0x7364}: true, {amazon, 0x7464}: true,
	// TPU.
	{google, 0x0027}: true, {google, 0x0056}: true, {google, 0x005e}: true, {google, 0x0062}: true,
	{google, 0x0063}: true, {google, 0x006f}: true, {google, 0x0076}: true,
}

// kindOf tells what a function is by its class and its identity, and by what hangs
// on it.
func kindOf(d *Device) Kind {
	class := d.Class >> 8
	id := [2]uint16{d.Vendor, d.Product}
	switch {
	case class == classPCIBridge || class == classSemiBridge:
		return Bridge
	case class == classOtherBr && d.Vendor == nvidia:
		return NVSwitch
	case len(d.Children) > 0:
		return Bridge // its class could not be read
	case len(d.RDMA) > 0:
		return RDMANIC
	case accelerators[id], d.Driver == "peerdirect_accel": // the lab's
		return Accelerator
	case screens[id]:
		return Other
	}
	switch class {
	case classVGA, class3D, classDisplay:
		switch {
		case managed(d.Vendor):
			return BMC
		case integrated(d):
			return Other
		}
		return Accelerator
	case classCoproc:
		// Intel's are cryptography and queues, but for Xeon Phi.
		if d.Vendor == intel && (d.Product < 0x2250 || d.Product > 0x226f) {
			return Other
		}
		return Accelerator
	case classAccel:
		return Accelerator
	case classNVMe:
		return NVMe
	case classInfiniBand, classIBSerial:
		return RDMANIC
	case classFabric:
		if d.Vendor == intel || d.Vendor == cornelis { // Omni-Path
			return RDMANIC
		}
	case classEthernet:
		if d.Vendor == mellanox || d.Vendor == amazon && d.Product&0xfff0 == 0xefa0 {
			return RDMANIC
		}
	}
	switch {
	case class>>8 == 0x02:
		// ConnectX-3 under its network controller class.
		if d.Vendor == mellanox {
			return RDMANIC
		}
		return OtherNIC
	case len(d.NVMe) > 0:
		return NVMe
	case d.Vendor == aspeed || d.Vendor == hpe && (d.Product == 0x3306 || d.Product == 0x3307):
		return BMC
	}
	switch d.Vendor {
	case habana, graphcore, tenstorr, groq:
		return Accelerator
	}
	return Other
}

// integrated tells the graphics of processors, which have no memory of their own.
// Intel's are device 2 of the root bus since 2010. AMD's are below a bridge, and what
// the firmware sets aside for them looks like a card's memory, so only their numbers
// tell them: all that AMD has numbered below 2000, and 96xx to 99xx, are parts of a
// processor or chipset (pci.ids). MI300A, whose memory is its own, has another class.
func integrated(d *Device) bool {
	switch {
	case d.Class>>16 != 0x03:
		return false
	case d.Vendor == intel:
		return d.Parent == nil && d.Address.Bus == 0 && d.Address.Device == 2
	case d.Vendor == amd:
		return d.Product < 0x2000 || d.Product >= 0x9600 && d.Product < 0x9a00
	}
	return false
}

// managed tells vendors whose displays belong to a management controller.
func managed(vendor uint16) bool {
	switch vendor {
	case aspeed, matrox, hpe, huawei, xgi, smi, nuvoton:
		return true
	}
	return false
}
