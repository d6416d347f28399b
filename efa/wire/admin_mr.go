package wire

// Access says what a memory region may be used for, beyond being read by the
// device for a local send or write.
type Access uint8

const (
	AccessLocalWrite  Access = 1 << 0 // receives, and what RDMA reads bring
	AccessRemoteWrite Access = 1 << 1
	AccessRemoteRead  Access = 1 << 2
)

// InlinePages is how many page addresses fit in REG_MR itself.
const InlinePages = 4

// PageList says where a region's pages are: their DMA addresses, or, when the
// command has AQCtrlData (one contiguous list) or AQCtrlDataIndirect (chunks), the
// memory that holds the list. The two share the same bytes (a C union).
type PageList [InlinePages]uint64

// Buffer gives the list as the memory that holds the page addresses.
func (p *PageList) Buffer() CtrlBuffer {
	return CtrlBuffer{Length: uint32(p[0]), Addr: p[0]>>32 | p[1]<<32}
}

// SetBuffer makes the list one that is held in memory.
func (p *PageList) SetBuffer(c CtrlBuffer) {
	*p = PageList{uint64(c.Length) | c.Addr<<32, c.Addr >> 32}
}

// RegMR is the command REG_MR (struct efa_admin_reg_mr_cmd).
type RegMR struct {
	PD        uint16
	Pages     PageList
	Length    uint64 // bytes
	PageShift uint8  // 6 bits; a page has 1<<PageShift bytes
	PhysMode  bool   // one physical address, no translation (mem_addr_phy_mode_en)
	Access    Access
	PageNum   uint32 // redundant, and the driver never fills it
	IOVA      uint64 // what addresses in work requests count from
}

const SizeRegMR = 60

func (c *RegMR) Encode(b []byte) {
	_ = b[SizeRegMR-1]
	le.PutUint16(b, c.PD)
	le.PutUint16(b[2:], 0)
	le.PutUint64(b[4:], c.Pages[0])
	le.PutUint64(b[12:], c.Pages[1])
	le.PutUint64(b[20:], c.Pages[2])
	le.PutUint64(b[28:], c.Pages[3])
	le.PutUint64(b[36:], c.Length)
	b[44] = c.PageShift&0x3f | byte(bit(c.PhysMode, 7))
	b[45] = byte(c.Access)
	le.PutUint16(b[46:], 0)
	le.PutUint32(b[48:], c.PageNum)
	le.PutUint64(b[52:], c.IOVA)
}

func (c *RegMR) Decode(b []byte) {
	_ = b[SizeRegMR-1]
	c.PD = le.Uint16(b)
	c.Pages = PageList{le.Uint64(b[4:]), le.Uint64(b[12:]), le.Uint64(b[20:]), le.Uint64(b[28:])}
	c.Length = le.Uint64(b[36:])
	c.PageShift = b[44] & 0x3f
	c.PhysMode = b[44]&(1<<7) != 0
	c.Access = Access(b[45])
	c.PageNum = le.Uint32(b[48:])
	c.IOVA = le.Uint64(b[52:])
}

// ICValidity says which interconnect ids of RegMRResp count.
type ICValidity uint8

const (
	ICRecv     ICValidity = 1 << 0
	ICRDMARead ICValidity = 1 << 1
	ICRDMARecv ICValidity = 1 << 2
)

// RegMRResp answers REG_MR (struct efa_admin_reg_mr_resp). The interconnect ids
// name the path by which the device reaches the region.
type RegMRResp struct {
	LKey       uint32 // its low 24 bits go into work entries
	RKey       uint32
	Validity   ICValidity
	RecvIC     uint8
	RDMAReadIC uint8
	RDMARecvIC uint8
}

const SizeRegMRResp = 12

func (r *RegMRResp) Encode(b []byte) {
	_ = b[SizeRegMRResp-1]
	le.PutUint32(b, r.LKey)
	le.PutUint32(b[4:], r.RKey)
	b[8] = byte(r.Validity)
	b[9] = r.RecvIC
	b[10] = r.RDMAReadIC
	b[11] = r.RDMARecvIC
}

func (r *RegMRResp) Decode(b []byte) {
	_ = b[SizeRegMRResp-1]
	r.LKey = le.Uint32(b)
	r.RKey = le.Uint32(b[4:])
	r.Validity = ICValidity(b[8])
	r.RecvIC = b[9]
	r.RDMAReadIC = b[10]
	r.RDMARecvIC = b[11]
}

// DeregMR is the command DEREG_MR (struct efa_admin_dereg_mr_cmd). Its response
// has no payload.
type DeregMR struct{ LKey uint32 }

const SizeDeregMR = 4

func (c *DeregMR) Encode(b []byte) { le.PutUint32(b, c.LKey) }
func (c *DeregMR) Decode(b []byte) { c.LKey = le.Uint32(b) }

// AllocMR is the command ALLOC_MR, which makes a region for later fast
// registration (struct efa_admin_alloc_mr_cmd).
type AllocMR struct {
	PD       uint16
	MaxPages uint32
}

const SizeAllocMR = 8

func (c *AllocMR) Encode(b []byte) {
	_ = b[SizeAllocMR-1]
	le.PutUint16(b, c.PD)
	le.PutUint16(b[2:], 0)
	le.PutUint32(b[4:], c.MaxPages)
}

func (c *AllocMR) Decode(b []byte) {
	_ = b[SizeAllocMR-1]
	c.PD = le.Uint16(b)
	c.MaxPages = le.Uint32(b[4:])
}

// AllocMRResp answers ALLOC_MR (struct efa_admin_alloc_mr_resp).
type AllocMRResp struct {
	LKey uint32
	RKey uint32
}

const SizeAllocMRResp = 8

func (r *AllocMRResp) Encode(b []byte) {
	_ = b[SizeAllocMRResp-1]
	le.PutUint32(b, r.LKey)
	le.PutUint32(b[4:], r.RKey)
}

func (r *AllocMRResp) Decode(b []byte) {
	_ = b[SizeAllocMRResp-1]
	r.LKey = le.Uint32(b)
	r.RKey = le.Uint32(b[4:])
}
