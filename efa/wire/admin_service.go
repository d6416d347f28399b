package wire

// Service is the command SERVICE, whose meaning is the firmware's own (struct
// efa_admin_service_cmd).
type Service struct{ Buffer [60]byte }

const SizeService = 60

func (c *Service) Encode(b []byte) { *(*[60]byte)(b) = c.Buffer }
func (c *Service) Decode(b []byte) { c.Buffer = *(*[60]byte)(b) }

// ServiceResp answers SERVICE (struct efa_admin_service_resp).
type ServiceResp struct{ Buffer [56]byte }

const SizeServiceResp = 56

func (r *ServiceResp) Encode(b []byte) { *(*[56]byte)(b) = r.Buffer }
func (r *ServiceResp) Decode(b []byte) { r.Buffer = *(*[56]byte)(b) }
