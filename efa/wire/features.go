package wire

// FeatureID is a set of attributes of the device (enum efa_admin_aq_feature_id). In
// DeviceAttr.SupportedFeatures, feature f is bit f.
type FeatureID uint8

const (
	FeatureDeviceAttr     FeatureID = 1
	FeatureAENQConfig     FeatureID = 2
	FeatureNetworkAttr    FeatureID = 3
	FeatureQueueAttr1     FeatureID = 4
	FeatureHWHints        FeatureID = 5
	FeatureHostInfo       FeatureID = 6
	FeatureEventQueueAttr FeatureID = 7
	FeatureQueueAttr2     FeatureID = 9
)

func (f FeatureID) String() string {
	return name([]string{
		1: "DEVICE_ATTR", "AENQ_CONFIG", "NETWORK_ATTR", "QUEUE_ATTR_1", "HW_HINTS", "HOST_INFO",
		"EVENT_QUEUE_ATTR", 9: "QUEUE_ATTR_2",
	}, int(f), "feature")
}

// GetFeature is the command GET_FEATURE (struct efa_admin_get_feature_cmd). It is
// answered by the type of its feature, which is the response's whole payload:
// DeviceAttr, AENQConfig, NetworkAttr, QueueAttr1, HWHints, EventQueueAttr or
// QueueAttr2 (struct efa_admin_get_feature_resp).
type GetFeature struct {
	ControlBuffer CtrlBuffer
	Feature       FeatureID
	Raw           [44]byte
}

const SizeGetFeature = 60

func (c *GetFeature) Encode(b []byte) { putFeature(b, &c.ControlBuffer, c.Feature, &c.Raw) }
func (c *GetFeature) Decode(b []byte) { c.Feature = getFeature(b, &c.ControlBuffer, &c.Raw) }

// SetFeature is the command SET_FEATURE (struct efa_admin_set_feature_cmd). With
// FeatureAENQConfig, Data begins with an AENQConfig; with FeatureHostInfo, the
// control buffer holds a HostInfo.
type SetFeature struct {
	ControlBuffer CtrlBuffer
	Feature       FeatureID
	Data          [44]byte
}

const SizeSetFeature = 60

func (c *SetFeature) Encode(b []byte) { putFeature(b, &c.ControlBuffer, c.Feature, &c.Data) }
func (c *SetFeature) Decode(b []byte) { c.Feature = getFeature(b, &c.ControlBuffer, &c.Data) }

func putFeature(b []byte, buf *CtrlBuffer, f FeatureID, data *[44]byte) {
	_ = b[SizeGetFeature-1]
	buf.Encode(b)
	le.PutUint32(b[12:], uint32(f)<<8)
	copy(b[16:SizeGetFeature], data[:])
}

func getFeature(b []byte, buf *CtrlBuffer, data *[44]byte) FeatureID {
	_ = b[SizeGetFeature-1]
	buf.Decode(b)
	copy(data[:], b[16:SizeGetFeature])
	return FeatureID(b[13])
}

// SizeFeatureResp is the room a response has for a feature's attributes, or, after
// SET_FEATURE, for data that no feature uses yet (struct
// efa_admin_set_feature_resp).
const SizeFeatureResp = SizeACQEntry - PayloadACQ

// DeviceCaps are what a device can do beyond sends and receives.
type DeviceCaps uint32

const (
	CapRDMARead             DeviceCaps = 1 << 0
	CapRNRRetry             DeviceCaps = 1 << 1 // MODIFY_QP takes ModifyRNRRetry
	CapDataPolling128       DeviceCaps = 1 << 2 // a poller may watch data of up to 128 bytes itself
	CapRDMAWrite            DeviceCaps = 1 << 3
	CapUnsolicitedWriteRecv DeviceCaps = 1 << 4
	CapEventCounters        DeviceCaps = 1 << 5
	CapSQReqID64            DeviceCaps = 1 << 10
)

// DeviceAttr is the feature FeatureDeviceAttr (struct
// efa_admin_feature_device_attr_desc).
type DeviceAttr struct {
	SupportedFeatures uint64 // bit f for FeatureID f
	PageSizeCap       uint64 // bit n for pages of 1<<n bytes in REG_MR
	FWVersion         uint32
	AdminAPIVersion   uint32
	DeviceVersion     uint32
	DoorbellBAR       uint16
	PhysAddrWidth     uint8 // bits
	VirtAddrWidth     uint8 // bits
	Caps              DeviceCaps
	MaxRDMASize       uint32 // bytes in one read or write
	GUID              uint64
	MaxLinkSpeed      uint16 // Gbit/s
}

const SizeDeviceAttr = 56

func (a *DeviceAttr) Encode(b []byte) {
	_ = b[SizeDeviceAttr-1]
	le.PutUint64(b, a.SupportedFeatures)
	le.PutUint64(b[8:], a.PageSizeCap)
	le.PutUint32(b[16:], a.FWVersion)
	le.PutUint32(b[20:], a.AdminAPIVersion)
	le.PutUint32(b[24:], a.DeviceVersion)
	le.PutUint16(b[28:], a.DoorbellBAR)
	b[30] = a.PhysAddrWidth
	b[31] = a.VirtAddrWidth
	le.PutUint32(b[32:], uint32(a.Caps))
	le.PutUint32(b[36:], a.MaxRDMASize)
	le.PutUint64(b[40:], a.GUID)
	le.PutUint64(b[48:], uint64(a.MaxLinkSpeed))
}

func (a *DeviceAttr) Decode(b []byte) {
	_ = b[SizeDeviceAttr-1]
	a.SupportedFeatures = le.Uint64(b)
	a.PageSizeCap = le.Uint64(b[8:])
	a.FWVersion = le.Uint32(b[16:])
	a.AdminAPIVersion = le.Uint32(b[20:])
	a.DeviceVersion = le.Uint32(b[24:])
	a.DoorbellBAR = le.Uint16(b[28:])
	a.PhysAddrWidth = b[30]
	a.VirtAddrWidth = b[31]
	a.Caps = DeviceCaps(le.Uint32(b[32:]))
	a.MaxRDMASize = le.Uint32(b[36:])
	a.GUID = le.Uint64(b[40:])
	a.MaxLinkSpeed = le.Uint16(b[48:])
}

// QueueAttr1 is the feature FeatureQueueAttr1 (struct
// efa_admin_feature_queue_attr_desc_1). Depths are in entries.
type QueueAttr1 struct {
	MaxQP         uint32
	MaxSQDepth    uint32
	InlineBufSize uint32 // bytes
	MaxRQDepth    uint32
	MaxCQ         uint32
	MaxCQDepth    uint32
	SubCQsPerCQ   uint16
	MinSQDepth    uint16
	MaxSendSGEs   uint16 // buffers in one send
	MaxRecvSGEs   uint16 // buffers in one receive
	MaxMR         uint32
	MaxMRPages    uint32
	MaxPD         uint32
	MaxAH         uint32
	MaxLLQSize    uint32 // bytes
	MaxRDMASGEs   uint16 // local buffers in one read or write
	MaxTxBatch    uint16 // units of 64 bytes between two send doorbells; 0 for no limit
}

const SizeQueueAttr1 = 56

func (a *QueueAttr1) Encode(b []byte) {
	_ = b[SizeQueueAttr1-1]
	le.PutUint32(b, a.MaxQP)
	le.PutUint32(b[4:], a.MaxSQDepth)
	le.PutUint32(b[8:], a.InlineBufSize)
	le.PutUint32(b[12:], a.MaxRQDepth)
	le.PutUint32(b[16:], a.MaxCQ)
	le.PutUint32(b[20:], a.MaxCQDepth)
	le.PutUint16(b[24:], a.SubCQsPerCQ)
	le.PutUint16(b[26:], a.MinSQDepth)
	le.PutUint16(b[28:], a.MaxSendSGEs)
	le.PutUint16(b[30:], a.MaxRecvSGEs)
	le.PutUint32(b[32:], a.MaxMR)
	le.PutUint32(b[36:], a.MaxMRPages)
	le.PutUint32(b[40:], a.MaxPD)
	le.PutUint32(b[44:], a.MaxAH)
	le.PutUint32(b[48:], a.MaxLLQSize)
	le.PutUint16(b[52:], a.MaxRDMASGEs)
	le.PutUint16(b[54:], a.MaxTxBatch)
}

func (a *QueueAttr1) Decode(b []byte) {
	_ = b[SizeQueueAttr1-1]
	a.MaxQP = le.Uint32(b)
	a.MaxSQDepth = le.Uint32(b[4:])
	a.InlineBufSize = le.Uint32(b[8:])
	a.MaxRQDepth = le.Uint32(b[12:])
	a.MaxCQ = le.Uint32(b[16:])
	a.MaxCQDepth = le.Uint32(b[20:])
	a.SubCQsPerCQ = le.Uint16(b[24:])
	a.MinSQDepth = le.Uint16(b[26:])
	a.MaxSendSGEs = le.Uint16(b[28:])
	a.MaxRecvSGEs = le.Uint16(b[30:])
	a.MaxMR = le.Uint32(b[32:])
	a.MaxMRPages = le.Uint32(b[36:])
	a.MaxPD = le.Uint32(b[40:])
	a.MaxAH = le.Uint32(b[44:])
	a.MaxLLQSize = le.Uint32(b[48:])
	a.MaxRDMASGEs = le.Uint16(b[52:])
	a.MaxTxBatch = le.Uint16(b[54:])
}

// QueueAttr2 is the feature FeatureQueueAttr2 (struct
// efa_admin_feature_queue_attr_desc_2).
type QueueAttr2 struct {
	InlineBufSizeEx uint16        // bytes; above MaxInline, sends have 128-byte entries
	CounterEvents   CounterEvents // what counters can count
	MaxCounters     uint32
	CounterMaxVal   uint64 // after which a counter goes on at 0
}

const SizeQueueAttr2 = 24

func (a *QueueAttr2) Encode(b []byte) {
	_ = b[SizeQueueAttr2-1]
	le.PutUint64(b, uint64(a.InlineBufSizeEx))
	le.PutUint32(b[8:], uint32(a.CounterEvents))
	le.PutUint32(b[12:], a.MaxCounters)
	le.PutUint64(b[16:], a.CounterMaxVal)
}

func (a *QueueAttr2) Decode(b []byte) {
	_ = b[SizeQueueAttr2-1]
	a.InlineBufSizeEx = le.Uint16(b)
	a.CounterEvents = CounterEvents(le.Uint32(b[8:]))
	a.MaxCounters = le.Uint32(b[12:])
	a.CounterMaxVal = le.Uint64(b[16:])
}

// EventQueueAttr is the feature FeatureEventQueueAttr (struct
// efa_admin_event_queue_attr_desc).
type EventQueueAttr struct {
	MaxEQ      uint32
	MaxEQDepth uint32 // entries
	Events     EQEvents
}

const SizeEventQueueAttr = 12

func (a *EventQueueAttr) Encode(b []byte) {
	_ = b[SizeEventQueueAttr-1]
	le.PutUint32(b, a.MaxEQ)
	le.PutUint32(b[4:], a.MaxEQDepth)
	le.PutUint32(b[8:], uint32(a.Events))
}

func (a *EventQueueAttr) Decode(b []byte) {
	_ = b[SizeEventQueueAttr-1]
	a.MaxEQ = le.Uint32(b)
	a.MaxEQDepth = le.Uint32(b[4:])
	a.Events = EQEvents(le.Uint32(b[8:]))
}

// AENQConfig is the feature FeatureAENQConfig, got and set (struct
// efa_admin_feature_aenq_desc). AENQGroup g is bit g.
type AENQConfig struct {
	Supported uint32
	Enabled   uint32
}

const SizeAENQConfig = 8

func (a *AENQConfig) Encode(b []byte) {
	_ = b[SizeAENQConfig-1]
	le.PutUint32(b, a.Supported)
	le.PutUint32(b[4:], a.Enabled)
}

func (a *AENQConfig) Decode(b []byte) {
	_ = b[SizeAENQConfig-1]
	a.Supported = le.Uint32(b)
	a.Enabled = le.Uint32(b[4:])
}

// NetworkAttr is the feature FeatureNetworkAttr (struct
// efa_admin_feature_network_attr_desc).
type NetworkAttr struct {
	Addr GID    // the device's own, GID index 0
	MTU  uint32 // bytes of payload in a packet
}

const SizeNetworkAttr = 20

func (a *NetworkAttr) Encode(b []byte) {
	_ = b[SizeNetworkAttr-1]
	*(*GID)(b) = a.Addr
	le.PutUint32(b[16:], a.MTU)
}

func (a *NetworkAttr) Decode(b []byte) {
	_ = b[SizeNetworkAttr-1]
	a.Addr = *(*GID)(b)
	a.MTU = le.Uint32(b[16:])
}

// HWHints is the feature FeatureHWHints (struct efa_admin_hw_hints). All are in
// milliseconds; 0 leaves the driver its own value.
type HWHints struct {
	MMIOReadTimeout        uint16
	DriverWatchdogTimeout  uint16
	AdminCompletionTimeout uint16
	PollInterval           uint16
}

const SizeHWHints = 8

func (a *HWHints) Encode(b []byte) {
	_ = b[SizeHWHints-1]
	le.PutUint16(b, a.MMIOReadTimeout)
	le.PutUint16(b[2:], a.DriverWatchdogTimeout)
	le.PutUint16(b[4:], a.AdminCompletionTimeout)
	le.PutUint16(b[6:], a.PollInterval)
}

func (a *HWHints) Decode(b []byte) {
	_ = b[SizeHWHints-1]
	a.MMIOReadTimeout = le.Uint16(b)
	a.DriverWatchdogTimeout = le.Uint16(b[2:])
	a.AdminCompletionTimeout = le.Uint16(b[4:])
	a.PollInterval = le.Uint16(b[6:])
}
