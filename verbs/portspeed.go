package verbs

/*
#include "shim.h"

static int vb_port_speed(struct ibv_context *c, uint32_t port, uint64_t *speed)
{
	if (!vb_newer.ibv_query_port_speed)
		return -1;
	errno = 0;
	return vb_rc(vb_newer.ibv_query_port_speed(c, port, speed));
}
*/
import "C"

import "fmt"

// PortCaps are a port's capability bits (enum ibv_port_cap_flags).
type PortCaps uint32

var portCapNames = []bitName{
	{1 << 1, "SM"}, {1 << 2, "NOTICE_SUP"}, {1 << 3, "TRAP_SUP"}, {1 << 4, "OPT_IPD_SUP"}, {1 << 5, "AUTO_MIGR_SUP"},
	{1 << 6, "SL_MAP_SUP"}, {1 << 7, "MKEY_NVRAM"}, {1 << 8, "PKEY_NVRAM"}, {1 << 9, "LED_INFO_SUP"},
	{1 << 11, "SYS_IMAGE_GUID_SUP"}, {1 << 12, "PKEY_SW_EXT_PORT_TRAP_SUP"}, {1 << 14, "EXTENDED_SPEEDS_SUP"},
	{1 << 15, "CAP_MASK2_SUP"}, {1 << 16, "CM_SUP"}, {1 << 17, "SNMP_TUNNEL_SUP"}, {1 << 18, "REINIT_SUP"},
	{1 << 19, "DEVICE_MGMT_SUP"}, {1 << 20, "VENDOR_CLASS_SUP"}, {1 << 21, "DR_NOTICE_SUP"},
	{1 << 22, "CAP_MASK_NOTICE_SUP"}, {1 << 23, "BOOT_MGMT_SUP"}, {1 << 24, "LINK_LATENCY_SUP"},
	{1 << 25, "CLIENT_REG_SUP"}, {1 << 26, "IP_BASED_GIDS"},
}

func (c PortCaps) String() string { return bitNames(uint64(c), portCapNames) }

// Names lists the capabilities, unknown bits as one number.
func (c PortCaps) Names() []string { return bitList(uint64(c), portCapNames) }

// PortCaps2 are a port's further capability bits (enum ibv_port_cap_flags2).
type PortCaps2 uint16

var portCap2Names = []bitName{
	{1 << 0, "SET_NODE_DESC_SUP"}, {1 << 1, "INFO_EXT_SUP"}, {1 << 2, "VIRT_SUP"},
	{1 << 3, "SWITCH_PORT_STATE_TABLE_SUP"}, {1 << 4, "LINK_WIDTH_2X_SUP"}, {1 << 5, "LINK_SPEED_HDR_SUP"},
	{1 << 10, "LINK_SPEED_NDR_SUP"}, {1 << 12, "LINK_SPEED_XDR_SUP"},
}

func (c PortCaps2) String() string { return bitNames(uint64(c), portCap2Names) }

// Names lists the capabilities, unknown bits as one number.
func (c PortCaps2) Names() []string { return bitList(uint64(c), portCap2Names) }

// Caps are the port's capabilities, to be printed by name.
func (a *PortAttr) Caps() PortCaps { return PortCaps(a.CapFlags) }

// Caps2 are the port's further capabilities, to be printed by name.
func (a *PortAttr) Caps2() PortCaps2 { return PortCaps2(a.CapFlags2) }

// Lanes is the active width in lanes, 0 for an unknown encoding.
func (a *PortAttr) Lanes() int {
	switch a.ActiveWidth {
	case 1:
		return 1
	case 2:
		return 4
	case 4:
		return 8
	case 8:
		return 12
	case 16:
		return 2
	}
	return 0
}

// LaneMbps is the signalling rate of one lane in Mbit/s, 0 for an unknown
// encoding.
func (a *PortAttr) LaneMbps() int {
	switch a.ActiveSpeed {
	case 1:
		return 2500 // SDR
	case 2:
		return 5000 // DDR
	case 4, 8:
		return 10000 // QDR, FDR10
	case 16:
		return 14000 // FDR
	case 32:
		return 25000 // EDR
	case 64:
		return 50000 // HDR
	case 128:
		return 100000 // NDR
	case 256:
		return 200000 // XDR
	}
	return 0
}

// Mbps is the port's signalling rate in Mbit/s, 0 where unknown. Software
// devices report an invented one.
func (a *PortAttr) Mbps() int { return a.Lanes() * a.LaneMbps() }

// Speed is the rate of one lane as text: "25.0 Gbps".
func (a *PortAttr) Speed() string {
	if n := a.LaneMbps(); n != 0 {
		return fmt.Sprintf("%d.%d Gbps", n/1000, n%1000/100)
	}
	return fmt.Sprintf("unknown (%d)", a.ActiveSpeed)
}

// Width is the active width as text: "4X".
func (a *PortAttr) Width() string {
	if n := a.Lanes(); n != 0 {
		return fmt.Sprintf("%dX", n)
	}
	return fmt.Sprintf("unknown (%d)", a.ActiveWidth)
}

// Physical is the physical state's name (IBTA PortPhysicalState).
func (a *PortAttr) Physical() string {
	names := [...]string{1: "SLEEP", "POLLING", "DISABLED", "PORT_CONFIGURATION_TRAINING", "LINK_UP", "LINK_ERROR_RECOVERY", "PHY_TEST"}
	if a.PhysState > 0 && int(a.PhysState) < len(names) {
		return names[a.PhysState]
	}
	return fmt.Sprintf("unknown (%d)", a.PhysState)
}

// VLs is the number of virtual lanes, 0 for an unknown encoding.
func (a *PortAttr) VLs() int {
	counts := [...]int{0, 1, 2, 4, 8, 15}
	if int(a.MaxVLNum) < len(counts) {
		return counts[a.MaxVLNum]
	}
	return 0
}

// PortSpeed asks for a port's effective speed in Mbit/s, which unlike
// PortAttr.Mbps knows of bonds and virtual functions. The library has it from
// its symbol version 1.16 on, which is newer than rdma-core 56.
func (d *Device) PortSpeed(port int) (uint64, error) {
	object := fmt.Sprintf("%s port %d", d.info.Name, port)
	if d.ctx == nil {
		return 0, &Error{Verb: "ibv_query_port_speed", Object: object, Err: ErrClosed}
	}
	var speed C.uint64_t
	rc := C.vb_port_speed(d.ctx, C.uint32_t(port), &speed)
	if rc < 0 {
		return 0, unsupported("ibv_query_port_speed", object)
	}
	return uint64(speed) * 100, code("ibv_query_port_speed", object, int(rc), "")
}
