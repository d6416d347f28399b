package wire

// Sizes of admin queue entries, and where in them the payload begins
// (efa_admin_defs.h). The driver tells by the entry size in RegAQCaps which of the
// two command layouts it writes.
const (
	SizeAQEntry   = 64 // struct efa_admin_aq_entry
	PayloadAQ     = 4
	SizeAQEntryV2 = 128 // struct efa_admin_aq_entry_v2
	PayloadAQV2   = 12

	SizeACQEntry = 64 // struct efa_admin_acq_entry
	PayloadACQ   = 8
)

// Admin API version that the formats here follow (EFA_ADMIN_API_VERSION_*).
const (
	AdminAPIMajor = 0
	AdminAPIMinor = 3
)

// CommandIDMask is what of a command id is significant: its low 12 bits.
const CommandIDMask = 0xfff

// AQFlags are the flags of an admin command.
type AQFlags uint8

const (
	AQPhase            AQFlags = 1 << 0
	AQCtrlData         AQFlags = 1 << 1 // the control buffer's address is valid
	AQCtrlDataIndirect AQFlags = 1 << 2 // it is that of a list of pages
)

// AQDesc begins every admin command (struct efa_admin_aq_common_desc).
type AQDesc struct {
	CommandID uint16 // 12 bits
	Opcode    Opcode
	Flags     AQFlags
}

const SizeAQDesc = 4

func (d *AQDesc) Encode(b []byte) {
	_ = b[SizeAQDesc-1]
	le.PutUint16(b, d.CommandID&CommandIDMask)
	b[2] = byte(d.Opcode)
	b[3] = byte(d.Flags)
}

func (d *AQDesc) Decode(b []byte) {
	_ = b[SizeAQDesc-1]
	d.CommandID = le.Uint16(b) & CommandIDMask
	d.Opcode = Opcode(b[2])
	d.Flags = AQFlags(b[3])
}

// Phase is the phase bit: a command is new when it equals the queue's phase,
// which begins at 1 and flips at each wrap.
func (d *AQDesc) Phase() bool { return d.Flags&AQPhase != 0 }

// AQDescV2 begins every admin command of the 128-byte layout (struct
// efa_admin_aq_common_desc_v2).
type AQDescV2 struct {
	AQDesc
	Checksum   uint16 // see Checksum; SealChecksum fills it in the entry
	PayloadVer uint8
}

const SizeAQDescV2 = 12

func (d *AQDescV2) Encode(b []byte) {
	_ = b[SizeAQDescV2-1]
	d.AQDesc.Encode(b)
	le.PutUint16(b[4:], d.Checksum)
	b[6] = d.PayloadVer
	b[7] = 0
	le.PutUint32(b[8:], 0)
}

func (d *AQDescV2) Decode(b []byte) {
	_ = b[SizeAQDescV2-1]
	d.AQDesc.Decode(b)
	d.Checksum = le.Uint16(b[4:])
	d.PayloadVer = b[6]
}

// AQPayload gives the payload of a whole admin command entry of either layout:
// 60 bytes of one with SizeAQEntry bytes, 116 of one with SizeAQEntryV2; nil for
// another length.
func AQPayload(entry []byte) []byte {
	switch len(entry) {
	case SizeAQEntry:
		return entry[PayloadAQ:]
	case SizeAQEntryV2:
		return entry[PayloadAQV2:]
	}
	return nil
}

// ACQFlags are the flags of an admin completion.
type ACQFlags uint8

const ACQPhase ACQFlags = 1 << 0

// ACQDesc begins every admin completion (struct efa_admin_acq_common_desc).
type ACQDesc struct {
	CommandID uint16 // 12 bits, that of the command it answers
	Status    AdminStatus
	Flags     ACQFlags
	Checksum  uint16 // checked by the driver from API version 0.2; see SealChecksum
}

const SizeACQDesc = 8

func (d *ACQDesc) Encode(b []byte) {
	_ = b[SizeACQDesc-1]
	le.PutUint16(b, d.CommandID&CommandIDMask)
	b[2] = byte(d.Status)
	b[3] = byte(d.Flags)
	le.PutUint16(b[4:], d.Checksum)
	le.PutUint16(b[6:], 0)
}

func (d *ACQDesc) Decode(b []byte) {
	_ = b[SizeACQDesc-1]
	d.CommandID = le.Uint16(b) & CommandIDMask
	d.Status = AdminStatus(b[2])
	d.Flags = ACQFlags(b[3])
	d.Checksum = le.Uint16(b[4:])
}

// Phase is the phase bit, as in AQDesc.
func (d *ACQDesc) Phase() bool { return d.Flags&ACQPhase != 0 }

// CtrlBuffer points to memory that a command takes along or has filled: directly,
// or, with AQCtrlDataIndirect, through a chain of page-list chunks, each of which
// ends in another CtrlBuffer (struct efa_admin_ctrl_buff_info).
type CtrlBuffer struct {
	Length uint32 // bytes
	Addr   uint64 // DMA address
}

const SizeCtrlBuffer = 12

func (c *CtrlBuffer) Encode(b []byte) {
	_ = b[SizeCtrlBuffer-1]
	le.PutUint32(b, c.Length)
	le.PutUint64(b[4:], c.Addr)
}

func (c *CtrlBuffer) Decode(b []byte) {
	_ = b[SizeCtrlBuffer-1]
	c.Length = le.Uint32(b)
	c.Addr = le.Uint64(b[4:])
}

// Chunks of an indirect page list, as the driver makes them (efa_verbs.c). The list
// itself is an array of 8-byte page addresses in pages of 4096 bytes that need not
// be contiguous; a chunk holds the addresses of up to PointersPerChunk of those,
// then a CtrlBuffer for the next chunk. A chunk's length counts its pointers and
// one CtrlBuffer; in a full chunk the link is at ChunkLink, in the last it is zero.
const (
	SizeChunk        = 4096
	SizeChunkPage    = 4096 // what one pointer points to: 512 page addresses
	PointersPerChunk = 510
	ChunkLink        = PointersPerChunk * 8
)

// AENQDesc begins every asynchronous notification (struct
// efa_admin_aenq_common_desc).
type AENQDesc struct {
	Group     AENQGroup
	Syndrome  uint16
	Phase     bool // begins at 1, flips at each wrap
	Timestamp uint64
}

const SizeAENQDesc = 16

func (d *AENQDesc) Encode(b []byte) {
	_ = b[SizeAENQDesc-1]
	le.PutUint16(b, uint16(d.Group))
	le.PutUint16(b[2:], d.Syndrome)
	le.PutUint32(b[4:], bit(d.Phase, 0))
	le.PutUint64(b[8:], d.Timestamp)
}

func (d *AENQDesc) Decode(b []byte) {
	_ = b[SizeAENQDesc-1]
	d.Group = AENQGroup(le.Uint16(b))
	d.Syndrome = le.Uint16(b[2:])
	d.Phase = b[4]&1 != 0
	d.Timestamp = le.Uint64(b[8:])
}

// AENQEntry is one asynchronous notification (struct efa_admin_aenq_entry).
type AENQEntry struct {
	AENQDesc
	Data [48]byte // the group's own
}

const SizeAENQEntry = 64

func (e *AENQEntry) Encode(b []byte) {
	_ = b[SizeAENQEntry-1]
	e.AENQDesc.Encode(b)
	copy(b[SizeAENQDesc:SizeAENQEntry], e.Data[:])
}

func (e *AENQEntry) Decode(b []byte) {
	_ = b[SizeAENQEntry-1]
	e.AENQDesc.Decode(b)
	copy(e.Data[:], b[SizeAENQDesc:SizeAENQEntry])
}

// AENQGroup is a group of asynchronous notifications (enum efa_admin_aenq_group).
// In AENQConfig, group g is bit g.
type AENQGroup uint16

const (
	AENQFatalError   AENQGroup = 1
	AENQWarning      AENQGroup = 2
	AENQNotification AENQGroup = 3
	AENQKeepAlive    AENQGroup = 4
	AENQGroupsNum              = 5
)

func (g AENQGroup) String() string {
	return name([]string{1: "FATAL_ERROR", "WARNING", "NOTIFICATION", "KEEP_ALIVE"}, int(g), "notification group")
}

// bit gives 1<<n if set.
func bit(set bool, n uint) uint32 {
	if set {
		return 1 << n
	}
	return 0
}
