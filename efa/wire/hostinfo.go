package wire

import "bytes"

// Version of the specification that HostInfo names (efa_common_defs.h).
const (
	SpecVersionMajor = 2
	SpecVersionMinor = 0
)

// OSType is a driver's operating system (enum efa_admin_os_type).
type OSType uint32

const OSLinux OSType = 0

// HostInfoFlags are the flags of HostInfo.
type HostInfoFlags uint32

const (
	HostInTree HostInfoFlags = 1 << 0
	HostGDR    HostInfoFlags = 1 << 1 // the driver can register accelerator memory
)

// HostInfo is what the driver tells about itself with SET_FEATURE
// FeatureHostInfo, in the control buffer (struct efa_admin_host_info).
type HostInfo struct {
	OSDist           [128]byte // text, ended by a zero byte
	OSType           OSType
	KernelVerStr     [32]byte // text, ended by a zero byte
	KernelVer        uint32   // KERNEL_VERSION
	DriverModuleType uint8
	DriverSubMinor   uint8
	DriverMinor      uint8
	DriverMajor      uint8
	Function         uint8 // 3 bits
	Device           uint8 // 5 bits
	Bus              uint8
	SpecMinor        uint8
	SpecMajor        uint8
	Flags            HostInfoFlags
}

const SizeHostInfo = 180

func (h *HostInfo) Encode(b []byte) {
	_ = b[SizeHostInfo-1]
	copy(b[:128], h.OSDist[:])
	le.PutUint32(b[128:], uint32(h.OSType))
	copy(b[132:164], h.KernelVerStr[:])
	le.PutUint32(b[164:], h.KernelVer)
	b[168] = h.DriverModuleType
	b[169] = h.DriverSubMinor
	b[170] = h.DriverMinor
	b[171] = h.DriverMajor
	b[172] = h.Function&7 | h.Device<<3
	b[173] = h.Bus
	b[174] = h.SpecMinor
	b[175] = h.SpecMajor
	le.PutUint32(b[176:], uint32(h.Flags))
}

func (h *HostInfo) Decode(b []byte) {
	_ = b[SizeHostInfo-1]
	copy(h.OSDist[:], b[:128])
	h.OSType = OSType(le.Uint32(b[128:]))
	copy(h.KernelVerStr[:], b[132:164])
	h.KernelVer = le.Uint32(b[164:])
	h.DriverModuleType = b[168]
	h.DriverSubMinor = b[169]
	h.DriverMinor = b[170]
	h.DriverMajor = b[171]
	h.Function = b[172] & 7
	h.Device = b[172] >> 3
	h.Bus = b[173]
	h.SpecMinor = b[174]
	h.SpecMajor = b[175]
	h.Flags = HostInfoFlags(le.Uint32(b[176:]))
}

// Text gives the text that a field such as OSDist holds, up to its zero byte.
func Text(field []byte) string {
	if i := bytes.IndexByte(field, 0); i >= 0 {
		field = field[:i]
	}
	return string(field)
}
