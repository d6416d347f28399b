package device

import (
	"encoding/binary"
	"math/bits"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Offsets in configuration space, and what lies there: PCI Local Bus 3.0 chapter
// 6, PCI Express Base chapter 7 (the kernel's pci_regs.h has them all).
const (
	configSize = 4096

	cfgVendor    = 0x00
	cfgDevice    = 0x02
	cfgCommand   = 0x04
	cfgStatus    = 0x06
	cfgClass     = 0x09 // three bytes: programming interface, subclass, class
	cfgCacheLine = 0x0c
	cfgBAR0      = 0x10
	cfgSubVendor = 0x2c
	cfgSubDevice = 0x2e
	cfgCapList   = 0x34
	cfgIRQLine   = 0x3c

	capExpress = 0x40
	capMSIX    = 0x80

	statusCapList = 1 << 4
	classEthernet = 0x02

	// Memory space, bus master, parity and system errors, INTx disable.
	commandWritable = 1<<1 | 1<<2 | 1<<6 | 1<<8 | 1<<10

	barMemory64     = 2 << 1
	barPrefetchable = 1 << 3

	// Express capability.
	expDevCap   = capExpress + 0x04
	expDevCtl   = capExpress + 0x08
	expLinkCap  = capExpress + 0x0c
	expLinkCtl  = capExpress + 0x10
	expLinkSta  = capExpress + 0x12
	expDevCap2  = capExpress + 0x24
	expDevCtl2  = capExpress + 0x28
	expLinkCap2 = capExpress + 0x2c
	expLinkCtl2 = capExpress + 0x30

	devCapFLR         = 1 << 28
	devCapRoleErrors  = 1 << 15
	devCapPayload256  = 1
	devCtlFLR         = 1 << 15
	devCtlDefault     = 2<<12 | 1<<4 // reads of 512 bytes, relaxed ordering
	devCtlWritable    = 0x7fff &^ (1<<9 | 1<<10)
	link32GT          = 5
	linkWidth16       = 16 << 4
	linkSpeeds32      = 0x3e // 2.5 to 32 GT/s
	linkCtlWritable   = 0x03ff &^ (1<<4 | 1<<5)
	devCtl2Writable   = 0x001f // completion timeouts
	devCap2Timeouts   = 0x001f
	msixControl       = capMSIX + 2
	msixWritable      = 1<<15 | 1<<14 // enable, mask all
	msixTableOffset   = 0x2000
	msixPBAOffset     = 0x3000
	msixEntrySize     = 16
	maxVectors        = 256
	registerBARSize   = 0x4000
	doorbellBAR       = 4
	doorbellBARLength = DoorbellBytes
)

// configSpace is a function's configuration space: bytes, and which bits of them
// a write changes. Whatever else is written is ignored, as hardware does.
type configSpace struct {
	bytes    [configSize]byte
	writable [configSize]byte
}

// init fills the space as it is after power-on.
func (c *configSpace) init(deviceID uint16, vectors int, llqBAR uint64) {
	*c = configSpace{}
	le := binary.LittleEndian
	b, w := c.bytes[:], c.writable[:]
	le.PutUint16(b[cfgVendor:], wire.VendorID)
	le.PutUint16(b[cfgDevice:], deviceID)
	le.PutUint16(w[cfgCommand:], commandWritable)
	le.PutUint16(b[cfgStatus:], statusCapList)
	b[cfgClass+2] = classEthernet
	w[cfgCacheLine] = 0xff
	le.PutUint16(b[cfgSubVendor:], wire.VendorID)
	le.PutUint16(b[cfgSubDevice:], deviceID)
	b[cfgCapList] = capExpress
	w[cfgIRQLine] = 0xff

	// The lowest writable bit of a BAR tells its size.
	le.PutUint32(w[cfgBAR0:], ^uint32(registerBARSize-1))
	c.bar64(wire.BARMemory, llqBAR, barPrefetchable)
	c.bar64(doorbellBAR, doorbellBARLength, 0)

	b[capExpress], b[capExpress+1] = 0x10, capMSIX
	le.PutUint16(b[capExpress+2:], 2) // version 2, endpoint
	le.PutUint32(b[expDevCap:], devCapFLR|devCapRoleErrors|devCapPayload256)
	le.PutUint16(b[expDevCtl:], devCtlDefault)
	le.PutUint16(w[expDevCtl:], devCtlWritable)
	le.PutUint32(b[expLinkCap:], link32GT|linkWidth16)
	le.PutUint16(b[expLinkSta:], link32GT|linkWidth16)
	le.PutUint16(w[expLinkCtl:], linkCtlWritable)
	le.PutUint32(b[expDevCap2:], devCap2Timeouts)
	le.PutUint16(w[expDevCtl2:], devCtl2Writable)
	le.PutUint32(b[expLinkCap2:], linkSpeeds32)
	le.PutUint16(b[expLinkCtl2:], link32GT)

	b[capMSIX] = 0x11
	le.PutUint16(b[msixControl:], uint16(vectors-1))
	le.PutUint16(w[msixControl:], msixWritable)
	le.PutUint32(b[capMSIX+4:], msixTableOffset|wire.BARRegisters)
	le.PutUint32(b[capMSIX+8:], msixPBAOffset|wire.BARRegisters)
}

// bar64 describes BARs n and n+1, which are one of 64 bits.
func (c *configSpace) bar64(n int, size uint64, flags uint32) {
	at := cfgBAR0 + 4*n
	binary.LittleEndian.PutUint32(c.bytes[at:], barMemory64|flags)
	binary.LittleEndian.PutUint64(c.writable[at:], ^(size - 1))
}

func (c *configSpace) read(offset uint64, p []byte) { copy(p, c.bytes[offset:]) }

// write changes what is writable, and tells whether the driver asked for a
// function level reset.
func (c *configSpace) write(offset uint64, p []byte) (reset bool) {
	for i, v := range p {
		at := offset + uint64(i)
		m := c.writable[at]
		c.bytes[at] = c.bytes[at]&^m | v&m
		if at == expDevCtl+1 && v&(devCtlFLR>>8) != 0 {
			reset = true
		}
	}
	return reset
}

// barSize gives the size of a BAR for so many bytes: a power of two.
func barSize(n int) uint64 { return 1 << bits.Len(uint(max(n, 4096)-1)) }
