package wire

import (
	"fmt"
	"math/bits"
)

// PCI identity. Source: efa_main.c, the driver's table of devices.
const (
	VendorID = 0x1d0f
	// Device ids run from DeviceEFA0 to DeviceEFA4, one for each hardware
	// generation. EFA0 alone has two sub-CQs in a completion queue.
	DeviceEFA0 = 0xefa0
	DeviceEFA1 = 0xefa1
	DeviceEFA2 = 0xefa2
	DeviceEFA3 = 0xefa3
	DeviceEFA4 = 0xefa4
)

// BARs that do not depend on what the device reports (efa_main.c). The doorbells' BAR
// is [DeviceAttr].DoorbellBAR.
const (
	BARRegisters = 0
	BARMemory    = 2 // the send rings (LLQ)
)

// Reg is the offset of a 32-bit register in BAR 0 (efa_regs_defs.h).
type Reg uint32

const (
	RegVersion           Reg = 0x00
	RegControllerVersion Reg = 0x04
	RegCaps              Reg = 0x08
	RegAQBaseLo          Reg = 0x10
	RegAQBaseHi          Reg = 0x14
	RegAQCaps            Reg = 0x18
	RegACQBaseLo         Reg = 0x20
	RegACQBaseHi         Reg = 0x24
	RegACQCaps           Reg = 0x28
	RegAQProdDB          Reg = 0x2c
	RegAENQCaps          Reg = 0x34
	RegAENQBaseLo        Reg = 0x38
	RegAENQBaseHi        Reg = 0x3c
	RegAENQConsDB        Reg = 0x40
	RegIntrMask          Reg = 0x4c
	RegDevCtl            Reg = 0x54
	RegDevSts            Reg = 0x58
	RegMMIORegRead       Reg = 0x5c
	RegMMIORespLo        Reg = 0x60
	RegMMIORespHi        Reg = 0x64
	RegEQDB              Reg = 0x68
)

// Field is the mask of a field within a 32-bit register.
type Field uint32

// Get gives the field's value in the register value v.
func (f Field) Get(v uint32) uint32 {
	return (v & uint32(f)) >> bits.TrailingZeros32(uint32(f))
}

// Put gives the register value v with the field set to x; bits of x that the
// field has no room for are dropped.
func (f Field) Put(v, x uint32) uint32 {
	return v&^uint32(f) | x<<bits.TrailingZeros32(uint32(f))&uint32(f)
}

// Fits reports whether the field has room for x.
func (f Field) Fits(x uint32) bool { return f.Get(f.Put(0, x)) == x }

const (
	// RegVersion: the version of the admin interface.
	VersionMinor Field = 0xff
	VersionMajor Field = 0xff00

	// RegControllerVersion.
	ControllerVersionSubminor Field = 0xff
	ControllerVersionMinor    Field = 0xff00
	ControllerVersionMajor    Field = 0xff0000
	ControllerVersionImplID   Field = 0xff000000

	// RegCaps. The reset timeout counts the driver's polls of 100 ms and must
	// not be zero; the width is 32 to 64 bits; the command timeout is in units
	// of 100 ms, zero for the driver's own 30 s.
	CapsContiguousQueueRequired Field = 0x1
	CapsResetTimeout            Field = 0x3e
	CapsDMAAddrWidth            Field = 0xff00
	CapsAdminCmdTimeout         Field = 0xf0000

	// RegAQCaps: entries, and bytes in one (64 or 128).
	AQCapsDepth     Field = 0xffff
	AQCapsEntrySize Field = 0xffff0000

	// RegACQCaps.
	ACQCapsDepth      Field = 0xffff
	ACQCapsEntrySize  Field = 0xff0000
	ACQCapsMSIXVector Field = 0xff000000

	// RegAENQCaps.
	AENQCapsDepth      Field = 0xffff
	AENQCapsEntrySize  Field = 0xff0000
	AENQCapsMSIXVector Field = 0xff000000

	// RegIntrMask. Upstream names the bit EN; set, it masks the admin
	// queue's interrupt.
	IntrMaskEnable Field = 0x1

	// RegDevCtl.
	DevCtlReset       Field = 0x1
	DevCtlAQRestart   Field = 0x2
	DevCtlResetReason Field = 0xf0000000

	// RegDevSts.
	DevStsReady               Field = 0x1
	DevStsAQRestartInProgress Field = 0x2
	DevStsAQRestartFinished   Field = 0x4
	DevStsResetInProgress     Field = 0x8
	DevStsResetFinished       Field = 0x10
	DevStsFatalError          Field = 0x20

	// RegMMIORegRead: a write asks the device to put the register's value in
	// memory (MMIOResp), for reads over the bus can take long in a guest.
	MMIORegReadReqID  Field = 0xffff
	MMIORegReadRegOff Field = 0xffff0000

	// RegEQDB.
	EQDBEQN Field = 0xffff
	EQDBArm Field = 0x80000000
)

// API versions, as RegVersion has them (efa_com.c), and what they bring.
const (
	APIVersion01 = 0x0001 // the least the driver takes
	APIVersion02 = 0x0002 // checksums in admin completions
	APIVersion03 = 0x0003 // 128-byte admin commands, with a checksum
)

// ResetReason says in DevCtlResetReason why the driver resets the device (enum
// efa_regs_reset_reason_types).
type ResetReason uint8

const (
	ResetNormal             ResetReason = 0
	ResetKeepAliveTimeout   ResetReason = 1
	ResetAdminTimeout       ResetReason = 2
	ResetInitError          ResetReason = 3
	ResetDriverInvalidState ResetReason = 4
	ResetOSTrigger          ResetReason = 5
	ResetShutdown           ResetReason = 6
	ResetUserTrigger        ResetReason = 7
	ResetGeneric            ResetReason = 8
)

// Depths the Linux driver uses (efa_com.c); its queues always have these.
const (
	LinuxAQDepth   = 32
	LinuxAENQDepth = 16
)

// MMIOResp is the answer to a write to RegMMIORegRead (struct
// efa_admin_mmio_req_read_less_resp), which the device puts at the address in
// RegMMIORespLo and RegMMIORespHi. The driver waits for ReqID, so the device
// writes Value first.
type MMIOResp struct {
	ReqID  uint16
	RegOff uint16
	Value  uint32
}

const SizeMMIOResp = 8

func (r *MMIOResp) Encode(b []byte) {
	_ = b[SizeMMIOResp-1]
	le.PutUint16(b, r.ReqID)
	le.PutUint16(b[2:], r.RegOff)
	le.PutUint32(b[4:], r.Value)
}

func (r *MMIOResp) Decode(b []byte) {
	_ = b[SizeMMIOResp-1]
	r.ReqID = le.Uint16(b)
	r.RegOff = le.Uint16(b[2:])
	r.Value = le.Uint32(b[4:])
}

// EQDoorbell gives the value for RegEQDB that arms event queue eqn or, with arm
// false, disarms it. It carries no consumer position: if entries were written
// since the queue's last interrupt, arming has to raise one at once.
func EQDoorbell(eqn uint16, arm bool) uint32 {
	v := uint32(eqn)
	if arm {
		v |= uint32(EQDBArm)
	}
	return v
}

// CQDoorbell is the value of a completion queue's doorbell (rdma-core 65,
// efa_io_regs_defs.h).
type CQDoorbell uint32

// Fields of a CQDoorbell.
const (
	CQDBConsumer Field = 0xffff
	CQDBSequence Field = 0x60000000
	CQDBArm      Field = 0x80000000
)

// MakeCQDoorbell packs a doorbell. consumer is the low half of the count of
// completions read (over all sub-CQs), sequence (2 bits) goes up with each event
// received; arm asks for an event at the next completion beyond consumer.
func MakeCQDoorbell(consumer uint16, sequence uint8, arm bool) CQDoorbell {
	v := uint32(consumer) | uint32(sequence&3)<<29
	if arm {
		v |= uint32(CQDBArm)
	}
	return CQDoorbell(v)
}

// Consumer gives the low half of the count of completions read.
func (d CQDoorbell) Consumer() uint16 { return uint16(d) }

// Sequence gives the number of the last event received, 2 bits.
func (d CQDoorbell) Sequence() uint8 { return uint8(d>>29) & 3 }

// Arm tells whether an event is asked for.
func (d CQDoorbell) Arm() bool { return d&CQDoorbell(CQDBArm) != 0 }

func (r Reg) String() string {
	if s, ok := regNames[r]; ok {
		return s
	}
	return fmt.Sprintf("register %#x", uint32(r))
}

var regNames = map[Reg]string{
	RegVersion:           "VERSION",
	RegControllerVersion: "CONTROLLER_VERSION",
	RegCaps:              "CAPS",
	RegAQBaseLo:          "AQ_BASE_LO",
	RegAQBaseHi:          "AQ_BASE_HI",
	RegAQCaps:            "AQ_CAPS",
	RegACQBaseLo:         "ACQ_BASE_LO",
	RegACQBaseHi:         "ACQ_BASE_HI",
	RegACQCaps:           "ACQ_CAPS",
	RegAQProdDB:          "AQ_PROD_DB",
	RegAENQCaps:          "AENQ_CAPS",
	RegAENQBaseLo:        "AENQ_BASE_LO",
	RegAENQBaseHi:        "AENQ_BASE_HI",
	RegAENQConsDB:        "AENQ_CONS_DB",
	RegIntrMask:          "INTR_MASK",
	RegDevCtl:            "DEV_CTL",
	RegDevSts:            "DEV_STS",
	RegMMIORegRead:       "MMIO_REG_READ",
	RegMMIORespLo:        "MMIO_RESP_LO",
	RegMMIORespHi:        "MMIO_RESP_HI",
	RegEQDB:              "EQ_DB",
}

func (r ResetReason) String() string {
	names := [...]string{
		"normal", "keep-alive timeout", "admin timeout", "init error", "driver in an invalid state",
		"operating system", "shutdown", "user", "generic",
	}
	return name(names[:], int(r), "reset reason")
}

// name gives names[i], or the kind and the number where there is no name.
func name(names []string, i int, kind string) string {
	if i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprintf("%s %d", kind, i)
}
