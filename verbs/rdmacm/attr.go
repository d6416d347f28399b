package rdmacm

import "fmt"

// QPState is a queue pair's state (enum ib_qp_state, as enum ibv_qp_state).
type QPState uint32

const (
	StateReset QPState = iota
	StateInit
	StateRTR
	StateRTS
	StateSQD
	StateSQE
	StateError
)

func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// Bits of QPAttr.Mask (enum ib_qp_attr_mask, as enum ibv_qp_attr_mask).
const (
	QPStateBit        = 1 << 0
	QPAccessFlags     = 1 << 3
	QPPKeyIndex       = 1 << 4
	QPPort            = 1 << 5
	QPAH              = 1 << 7
	QPPathMTU         = 1 << 8
	QPTimeout         = 1 << 9
	QPRetryCount      = 1 << 10
	QPRNRRetry        = 1 << 11
	QPRQPSN           = 1 << 12
	QPMaxRDAtomic     = 1 << 13
	QPAltPath         = 1 << 14
	QPMinRNRTimer     = 1 << 15
	QPSQPSN           = 1 << 16
	QPMaxDestRDAtomic = 1 << 17
	QPDestQPN         = 1 << 20
)

// QPAttr is what ibv_modify_qp wants for a transition, as the connection
// manager has negotiated it (struct ib_uverbs_qp_attr of ib_user_verbs.h).
// Fields whose bit is not in Mask mean nothing.
type QPAttr struct {
	Mask            uint32 // QPStateBit and others
	State           QPState
	PathMTU         uint8 // enum ibv_mtu
	QKey            uint32
	RQPSN, SQPSN    uint32
	DestQPN         uint32
	Access          uint32 // enum ibv_access_flags
	AH              AHAttr
	PKeyIndex       uint16
	MaxRDAtomic     uint8
	MaxDestRDAtomic uint8
	MinRNRTimer     uint8 // encoded as in ibv_qp_attr
	Port            uint8
	Timeout         uint8 // 4.096 us << Timeout
	RetryCount      uint8
	RNRRetry        uint8
}

// AHAttr is the way to the peer (struct ib_uverbs_ah_attr).
type AHAttr struct {
	DGID         [16]byte
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	Global       bool
	Port         uint8
}

func decodeQPAttr(b []byte) QPAttr {
	u32 := func(at int) uint32 { return native.Uint32(b[at:]) }
	const ah, tail = 40, 128
	return QPAttr{
		Mask:    u32(0),
		State:   QPState(u32(4)),
		PathMTU: uint8(u32(12)),
		QKey:    u32(20),
		RQPSN:   u32(24),
		SQPSN:   u32(28),
		DestQPN: u32(32),
		Access:  u32(36),
		AH: AHAttr{
			DGID:         [16]byte(b[ah : ah+16]),
			FlowLabel:    u32(ah + 16),
			SGIDIndex:    b[ah+20],
			HopLimit:     b[ah+21],
			TrafficClass: b[ah+22],
			DLID:         native.Uint16(b[ah+24:]),
			SL:           b[ah+26],
			SrcPathBits:  b[ah+27],
			StaticRate:   b[ah+28],
			Global:       b[ah+29] != 0,
			Port:         b[ah+30],
		},
		PKeyIndex:       native.Uint16(b[124:]),
		MaxRDAtomic:     b[tail+2],
		MaxDestRDAtomic: b[tail+3],
		MinRNRTimer:     b[tail+4],
		Port:            b[tail+5],
		Timeout:         b[tail+6],
		RetryCount:      b[tail+7],
		RNRRetry:        b[tail+8],
	}
}
