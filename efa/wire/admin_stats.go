package wire

// StatsType is a set of statistics (enum efa_admin_get_stats_type).
type StatsType uint8

const (
	StatsBasic     StatsType = 0
	StatsMessages  StatsType = 1
	StatsRDMARead  StatsType = 2
	StatsRDMAWrite StatsType = 3
	StatsNetwork   StatsType = 4
)

func (t StatsType) String() string {
	return name([]string{"BASIC", "MESSAGES", "RDMA_READ", "RDMA_WRITE", "NETWORK"}, int(t), "statistics")
}

// StatsScope says whose statistics (enum efa_admin_get_stats_scope).
type StatsScope uint8

const (
	StatsScopeAll   StatsScope = 0
	StatsScopeQueue StatsScope = 1 // the queue ScopeModifier
)

// GetStats is the command GET_STATS (struct efa_admin_aq_get_stats_cmd). It is
// answered by the type of its set, which is the response's whole payload.
type GetStats struct {
	ControlBuffer CtrlBuffer
	Type          StatsType
	Scope         StatsScope
	ScopeModifier uint16
}

const SizeGetStats = 16

func (c *GetStats) Encode(b []byte) {
	_ = b[SizeGetStats-1]
	c.ControlBuffer.Encode(b)
	b[12] = byte(c.Type)
	b[13] = byte(c.Scope)
	le.PutUint16(b[14:], c.ScopeModifier)
}

func (c *GetStats) Decode(b []byte) {
	_ = b[SizeGetStats-1]
	c.ControlBuffer.Decode(b)
	c.Type = StatsType(b[12])
	c.Scope = StatsScope(b[13])
	c.ScopeModifier = le.Uint16(b[14:])
}

// BasicStats is the set StatsBasic (struct efa_admin_basic_stats).
type BasicStats struct {
	TxBytes, TxPkts, RxBytes, RxPkts uint64
	RxDrops                          uint64
	QKeyViol                         uint64 // packets dropped for their queue key
}

const SizeBasicStats = 48

func (s *BasicStats) Encode(b []byte) {
	_ = b[SizeBasicStats-1]
	le.PutUint64(b, s.TxBytes)
	le.PutUint64(b[8:], s.TxPkts)
	le.PutUint64(b[16:], s.RxBytes)
	le.PutUint64(b[24:], s.RxPkts)
	le.PutUint64(b[32:], s.RxDrops)
	le.PutUint64(b[40:], s.QKeyViol)
}

func (s *BasicStats) Decode(b []byte) {
	_ = b[SizeBasicStats-1]
	s.TxBytes = le.Uint64(b)
	s.TxPkts = le.Uint64(b[8:])
	s.RxBytes = le.Uint64(b[16:])
	s.RxPkts = le.Uint64(b[24:])
	s.RxDrops = le.Uint64(b[32:])
	s.QKeyViol = le.Uint64(b[40:])
}

// MessagesStats is the set StatsMessages (struct efa_admin_messages_stats).
type MessagesStats struct{ SendBytes, SendWRs, RecvBytes, RecvWRs uint64 }

const SizeMessagesStats = 32

func (s *MessagesStats) Encode(b []byte) {
	_ = b[SizeMessagesStats-1]
	le.PutUint64(b, s.SendBytes)
	le.PutUint64(b[8:], s.SendWRs)
	le.PutUint64(b[16:], s.RecvBytes)
	le.PutUint64(b[24:], s.RecvWRs)
}

func (s *MessagesStats) Decode(b []byte) {
	_ = b[SizeMessagesStats-1]
	s.SendBytes = le.Uint64(b)
	s.SendWRs = le.Uint64(b[8:])
	s.RecvBytes = le.Uint64(b[16:])
	s.RecvWRs = le.Uint64(b[24:])
}

// RDMAReadStats is the set StatsRDMARead (struct efa_admin_rdma_read_stats).
type RDMAReadStats struct {
	ReadWRs, ReadBytes, ReadWRErr uint64 // as initiator
	ReadRespBytes                 uint64 // as target
}

const SizeRDMAReadStats = 32

func (s *RDMAReadStats) Encode(b []byte) {
	_ = b[SizeRDMAReadStats-1]
	le.PutUint64(b, s.ReadWRs)
	le.PutUint64(b[8:], s.ReadBytes)
	le.PutUint64(b[16:], s.ReadWRErr)
	le.PutUint64(b[24:], s.ReadRespBytes)
}

func (s *RDMAReadStats) Decode(b []byte) {
	_ = b[SizeRDMAReadStats-1]
	s.ReadWRs = le.Uint64(b)
	s.ReadBytes = le.Uint64(b[8:])
	s.ReadWRErr = le.Uint64(b[16:])
	s.ReadRespBytes = le.Uint64(b[24:])
}

// RDMAWriteStats is the set StatsRDMAWrite (struct efa_admin_rdma_write_stats).
type RDMAWriteStats struct {
	WriteWRs, WriteBytes, WriteWRErr uint64 // as initiator
	WriteRecvBytes                   uint64 // as target
}

const SizeRDMAWriteStats = 32

func (s *RDMAWriteStats) Encode(b []byte) {
	_ = b[SizeRDMAWriteStats-1]
	le.PutUint64(b, s.WriteWRs)
	le.PutUint64(b[8:], s.WriteBytes)
	le.PutUint64(b[16:], s.WriteWRErr)
	le.PutUint64(b[24:], s.WriteRecvBytes)
}

func (s *RDMAWriteStats) Decode(b []byte) {
	_ = b[SizeRDMAWriteStats-1]
	s.WriteWRs = le.Uint64(b)
	s.WriteBytes = le.Uint64(b[8:])
	s.WriteWRErr = le.Uint64(b[16:])
	s.WriteRecvBytes = le.Uint64(b[24:])
}

// NetworkStats is the set StatsNetwork (struct efa_admin_network_stats).
type NetworkStats struct {
	RetransBytes             uint64
	RetransPkts              uint64
	RetransTimeoutEvents     uint64
	UnresponsiveRemoteEvents uint64
	ImpairedRemoteConnEvents uint64
}

const SizeNetworkStats = 40

func (s *NetworkStats) Encode(b []byte) {
	_ = b[SizeNetworkStats-1]
	le.PutUint64(b, s.RetransBytes)
	le.PutUint64(b[8:], s.RetransPkts)
	le.PutUint64(b[16:], s.RetransTimeoutEvents)
	le.PutUint64(b[24:], s.UnresponsiveRemoteEvents)
	le.PutUint64(b[32:], s.ImpairedRemoteConnEvents)
}

func (s *NetworkStats) Decode(b []byte) {
	_ = b[SizeNetworkStats-1]
	s.RetransBytes = le.Uint64(b)
	s.RetransPkts = le.Uint64(b[8:])
	s.RetransTimeoutEvents = le.Uint64(b[16:])
	s.UnresponsiveRemoteEvents = le.Uint64(b[24:])
	s.ImpairedRemoteConnEvents = le.Uint64(b[32:])
}
