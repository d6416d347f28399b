package verbs

/*
#include <time.h>
#include "shim.h"

static int vb_query_device(struct ibv_context *c, struct ibv_device_attr_ex *a, int *extended)
{
	struct ibv_query_device_ex_input in = {0};
	struct verbs_context *v = verbs_get_ctx_op(c, query_device_ex);
	int rc;

	memset(a, 0, sizeof(*a));
	*extended = 1;
	if (v) {
		errno = 0;
		rc = vb_rc(v->query_device_ex(c, &in, a, sizeof(*a)));
		if (rc != EOPNOTSUPP && rc != ENOSYS)
			return rc;
	}
	memset(a, 0, sizeof(*a));
	*extended = 0;
	errno = 0;
	return vb_rc(vb.ibv_query_device(c, &a->orig_attr));
}

static int vb_clock(struct ibv_context *c, uint64_t *ticks)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct verbs_context *v = VB_OP(c, query_rt_values);
	int rc;

	if (!v)
		return EOPNOTSUPP;
	rc = vb_rc(v->query_rt_values(c, &values));
	if (!rc && !(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return EOPNOTSUPP;
	*ticks = (uint64_t)values.raw_clock.tv_sec * 1000000000u + values.raw_clock.tv_nsec;
	return rc;
}
*/
import "C"

import (
	"unsafe"
)

// DeviceAttr is what a device can do (struct ibv_device_attr_ex). Extended
// tells whether the library could ask for the part below it; without, that
// part is zero.
type DeviceAttr struct {
	FirmwareVersion string
	NodeGUID        GUID
	SysImageGUID    GUID
	VendorID        uint32
	VendorPartID    uint32
	HardwareVersion uint32
	Ports           int // physical ports

	MaxMRSize   uint64 // bytes
	PageSizeCap uint64 // bit n: pages of 2^n bytes

	Caps      DeviceCaps
	AtomicCap AtomicCap

	MaxQP, MaxQPWR, MaxSGE, MaxSGERead int
	MaxCQ, MaxCQE                      int
	MaxMR, MaxPD, MaxMW, MaxAH         int
	MaxSRQ, MaxSRQWR, MaxSRQSGE        int
	MaxPKeys                           int

	MaxQPReadAtomic      int // reads and atomics in flight as responder, a queue pair
	MaxEEReadAtomic      int
	MaxResReadAtomic     int // and for the whole device
	MaxQPInitReadAtomic  int // in flight as requester, a queue pair
	MaxEEInitReadAtomic  int
	MaxEE, MaxRDD        int
	MaxRawIPv6QP         int
	MaxRawEthernetQP     int
	MaxMulticastGroups   int
	MaxMulticastQPs      int // of one group
	MaxTotalMulticastQPs int
	MaxFMR, MaxMapPerFMR int
	LocalAckDelay        uint8 // 4.096 us * 2^LocalAckDelay
	Extended             bool
	ODP                  ODPCaps
	TimestampMask        uint64 // valid bits of Timestamp; 0: none
	CoreClockKHz         uint64 // clock of Timestamp and Clock; 0: none
	TSO                  TSOCaps
	RSS                  RSSCaps
	MaxWQ                uint32
	PacketPacing         PacketPacingCaps
	RawPacket            RawPacketCaps
	TagMatching          TagMatchingCaps
	MaxModerationCount   uint16 // completions; 0: no moderation
	MaxModerationPeriod  uint16 // microseconds
	MaxDMSize            uint64 // device memory, bytes
	PCIAtomicFetchAdd    uint16 // sizes: 1 4 bytes, 2 8 bytes, 4 16 bytes
	PCIAtomicSwap        uint16
	PCIAtomicCompareSwap uint16
}

// Attr queries the device's limits and capabilities.
func (d *Device) Attr() (DeviceAttr, error) {
	if d.ctx == nil {
		return DeviceAttr{}, &Error{Verb: "ibv_query_device", Object: d.info.Name, Err: ErrClosed}
	}
	var (
		x        C.struct_ibv_device_attr_ex
		extended C.int
	)
	if rc := C.vb_query_device(d.ctx, &x, &extended); rc != 0 {
		return DeviceAttr{}, code("ibv_query_device_ex", d.info.Name, int(rc), "")
	}
	o := &x.orig_attr
	a := DeviceAttr{
		FirmwareVersion:      C.GoString(&o.fw_ver[0]),
		NodeGUID:             *(*GUID)(unsafe.Pointer(&o.node_guid)),
		SysImageGUID:         *(*GUID)(unsafe.Pointer(&o.sys_image_guid)),
		VendorID:             uint32(o.vendor_id),
		VendorPartID:         uint32(o.vendor_part_id),
		HardwareVersion:      uint32(o.hw_ver),
		Ports:                int(o.phys_port_cnt),
		MaxMRSize:            uint64(o.max_mr_size),
		PageSizeCap:          uint64(o.page_size_cap),
		Caps:                 DeviceCaps(uint32(o.device_cap_flags)),
		AtomicCap:            AtomicCap(o.atomic_cap),
		MaxQP:                int(o.max_qp),
		MaxQPWR:              int(o.max_qp_wr),
		MaxSGE:               int(o.max_sge),
		MaxSGERead:           int(o.max_sge_rd),
		MaxCQ:                int(o.max_cq),
		MaxCQE:               int(o.max_cqe),
		MaxMR:                int(o.max_mr),
		MaxPD:                int(o.max_pd),
		MaxMW:                int(o.max_mw),
		MaxAH:                int(o.max_ah),
		MaxSRQ:               int(o.max_srq),
		MaxSRQWR:             int(o.max_srq_wr),
		MaxSRQSGE:            int(o.max_srq_sge),
		MaxPKeys:             int(o.max_pkeys),
		MaxQPReadAtomic:      int(o.max_qp_rd_atom),
		MaxEEReadAtomic:      int(o.max_ee_rd_atom),
		MaxResReadAtomic:     int(o.max_res_rd_atom),
		MaxQPInitReadAtomic:  int(o.max_qp_init_rd_atom),
		MaxEEInitReadAtomic:  int(o.max_ee_init_rd_atom),
		MaxEE:                int(o.max_ee),
		MaxRDD:               int(o.max_rdd),
		MaxRawIPv6QP:         int(o.max_raw_ipv6_qp),
		MaxRawEthernetQP:     int(o.max_raw_ethy_qp),
		MaxMulticastGroups:   int(o.max_mcast_grp),
		MaxMulticastQPs:      int(o.max_mcast_qp_attach),
		MaxTotalMulticastQPs: int(o.max_total_mcast_qp_attach),
		MaxFMR:               int(o.max_fmr),
		MaxMapPerFMR:         int(o.max_map_per_fmr),
		LocalAckDelay:        uint8(o.local_ca_ack_delay),
		Extended:             extended != 0,
	}
	if a.Extended {
		a.extend(&x)
	}
	return a, nil
}

func (a *DeviceAttr) extend(x *C.struct_ibv_device_attr_ex) {
	a.Caps |= DeviceCaps(x.device_cap_flags_ex)
	// The old field has eight bits; devices with more ports tell here.
	if n := int(x.phys_port_cnt_ex); n > a.Ports {
		a.Ports = n
	}
	a.ODP = ODPCaps{
		Supported: x.odp_caps.general_caps&C.IBV_ODP_SUPPORT != 0,
		Implicit:  x.odp_caps.general_caps&C.IBV_ODP_SUPPORT_IMPLICIT != 0,
		RC:        ODPOps(x.odp_caps.per_transport_caps.rc_odp_caps),
		UC:        ODPOps(x.odp_caps.per_transport_caps.uc_odp_caps),
		UD:        ODPOps(x.odp_caps.per_transport_caps.ud_odp_caps),
		XRC:       ODPOps(x.xrc_odp_caps),
	}
	a.TimestampMask = uint64(x.completion_timestamp_mask)
	a.CoreClockKHz = uint64(x.hca_core_clock)
	a.TSO = TSOCaps{MaxPayload: uint32(x.tso_caps.max_tso), QPTypes: QPTypes(x.tso_caps.supported_qpts)}
	a.MaxWQ = uint32(x.max_wq_type_rq)
	a.RSS = RSSCaps{
		QPTypes:       QPTypes(x.rss_caps.supported_qpts),
		MaxTables:     uint32(x.rss_caps.max_rwq_indirection_tables),
		MaxTableSize:  uint32(x.rss_caps.max_rwq_indirection_table_size),
		HashFields:    RXHashFields(x.rss_caps.rx_hash_fields_mask),
		HashFunctions: uint8(x.rss_caps.rx_hash_function),
	}
	a.PacketPacing = PacketPacingCaps{
		Min:     uint32(x.packet_pacing_caps.qp_rate_limit_min),
		Max:     uint32(x.packet_pacing_caps.qp_rate_limit_max),
		QPTypes: QPTypes(x.packet_pacing_caps.supported_qpts),
	}
	a.RawPacket = RawPacketCaps(x.raw_packet_caps)
	a.TagMatching = TagMatchingCaps{
		MaxRendezvousHeader: uint32(x.tm_caps.max_rndv_hdr_size),
		MaxTags:             uint32(x.tm_caps.max_num_tags),
		Flags:               uint32(x.tm_caps.flags),
		MaxOps:              uint32(x.tm_caps.max_ops),
		MaxSGE:              uint32(x.tm_caps.max_sge),
	}
	a.MaxModerationCount = uint16(x.cq_mod_caps.max_cq_count)
	a.MaxModerationPeriod = uint16(x.cq_mod_caps.max_cq_period)
	a.MaxDMSize = uint64(x.max_dm_size)
	a.PCIAtomicFetchAdd = uint16(x.pci_atomic_caps.fetch_add)
	a.PCIAtomicSwap = uint16(x.pci_atomic_caps.swap)
	a.PCIAtomicCompareSwap = uint16(x.pci_atomic_caps.compare_swap)
}

// PageSizes lists the page sizes, in bytes, that registrations can be built of.
func (a *DeviceAttr) PageSizes() []uint64 {
	var out []uint64
	for bit := uint64(1); bit != 0; bit <<= 1 {
		if a.PageSizeCap&bit != 0 {
			out = append(out, bit)
		}
	}
	return out
}

// Clock reads the device's free-running clock, in ticks of CoreClockKHz: the
// clock that Timestamp of completions is in.
func (d *Device) Clock() (uint64, error) {
	if d.ctx == nil {
		return 0, &Error{Verb: "ibv_query_rt_values_ex", Object: d.info.Name, Err: ErrClosed}
	}
	var ticks C.uint64_t
	rc := C.vb_clock(d.ctx, &ticks)
	return uint64(ticks), code("ibv_query_rt_values_ex", d.info.Name, int(rc), "")
}
