package wire

// GID is an address in network byte order.
type GID [16]byte

// CreateAH is the command CREATE_AH (struct efa_admin_create_ah_cmd). The driver
// of Linux 7.3 sends it once for a destination and domain and counts users itself;
// older ones send it for every handle.
type CreateAH struct {
	DestAddr GID
	PD       uint16
}

const SizeCreateAH = 20

func (c *CreateAH) Encode(b []byte) {
	_ = b[SizeCreateAH-1]
	*(*GID)(b) = c.DestAddr
	le.PutUint32(b[16:], uint32(c.PD))
}

func (c *CreateAH) Decode(b []byte) {
	_ = b[SizeCreateAH-1]
	c.DestAddr = *(*GID)(b)
	c.PD = le.Uint16(b[16:])
}

// CreateAHResp answers CREATE_AH (struct efa_admin_create_ah_resp).
type CreateAHResp struct{ AH uint16 }

const SizeCreateAHResp = 4

func (r *CreateAHResp) Encode(b []byte) { le.PutUint32(b, uint32(r.AH)) }
func (r *CreateAHResp) Decode(b []byte) {
	_ = b[SizeCreateAHResp-1]
	r.AH = le.Uint16(b)
}

// DestroyAH is the command DESTROY_AH (struct efa_admin_destroy_ah_cmd). Its
// response has no payload.
type DestroyAH struct {
	AH uint16
	PD uint16
}

const SizeDestroyAH = 4

func (c *DestroyAH) Encode(b []byte) {
	_ = b[SizeDestroyAH-1]
	le.PutUint16(b, c.AH)
	le.PutUint16(b[2:], c.PD)
}

func (c *DestroyAH) Decode(b []byte) {
	_ = b[SizeDestroyAH-1]
	c.AH = le.Uint16(b)
	c.PD = le.Uint16(b[2:])
}
