package wire

// AllocPDResp answers ALLOC_PD, whose command has no payload (struct
// efa_admin_alloc_pd_resp).
type AllocPDResp struct{ PD uint16 }

const SizeAllocPDResp = 4

func (r *AllocPDResp) Encode(b []byte) { le.PutUint32(b, uint32(r.PD)) }
func (r *AllocPDResp) Decode(b []byte) {
	_ = b[SizeAllocPDResp-1]
	r.PD = le.Uint16(b)
}

// DeallocPD is the command DEALLOC_PD (struct efa_admin_dealloc_pd_cmd). Its
// response has no payload.
type DeallocPD struct{ PD uint16 }

const SizeDeallocPD = 4

func (c *DeallocPD) Encode(b []byte) { le.PutUint32(b, uint32(c.PD)) }
func (c *DeallocPD) Decode(b []byte) {
	_ = b[SizeDeallocPD-1]
	c.PD = le.Uint16(b)
}

// AllocUARResp answers ALLOC_UAR, whose command has no payload (struct
// efa_admin_alloc_uar_resp). A UAR is one user's page of doorbells.
type AllocUARResp struct{ UAR uint16 }

const SizeAllocUARResp = 4

func (r *AllocUARResp) Encode(b []byte) { le.PutUint32(b, uint32(r.UAR)) }
func (r *AllocUARResp) Decode(b []byte) {
	_ = b[SizeAllocUARResp-1]
	r.UAR = le.Uint16(b)
}

// DeallocUAR is the command DEALLOC_UAR (struct efa_admin_dealloc_uar_cmd). Its
// response has no payload.
type DeallocUAR struct{ UAR uint16 }

const SizeDeallocUAR = 4

func (c *DeallocUAR) Encode(b []byte) { le.PutUint32(b, uint32(c.UAR)) }
func (c *DeallocUAR) Decode(b []byte) {
	_ = b[SizeDeallocUAR-1]
	c.UAR = le.Uint16(b)
}
