package verbs

import (
	"fmt"
	"math/rand/v2"
)

// QPState is a queue pair's state (enum ibv_qp_state).
type QPState uint32

const (
	StateReset QPState = iota
	StateInit
	StateRTR // ready to receive
	StateRTS // ready to send
	StateSQD // send queue drained
	StateSQE // send queue error
	StateError
	StateUnknown
)

func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint32(s))
}

// AttrMask says which fields of a QPAttr are meant (enum ibv_qp_attr_mask).
type AttrMask uint32

const (
	AttrState           AttrMask = 1 << 0
	AttrCurState        AttrMask = 1 << 1
	AttrSQDAsyncNotify  AttrMask = 1 << 2
	AttrAccess          AttrMask = 1 << 3
	AttrPKeyIndex       AttrMask = 1 << 4
	AttrPort            AttrMask = 1 << 5
	AttrQKey            AttrMask = 1 << 6
	AttrAV              AttrMask = 1 << 7
	AttrPathMTU         AttrMask = 1 << 8
	AttrTimeout         AttrMask = 1 << 9
	AttrRetryCount      AttrMask = 1 << 10
	AttrRNRRetry        AttrMask = 1 << 11
	AttrRQPSN           AttrMask = 1 << 12
	AttrMaxRDAtomic     AttrMask = 1 << 13
	AttrAltPath         AttrMask = 1 << 14
	AttrMinRNRTimer     AttrMask = 1 << 15
	AttrSQPSN           AttrMask = 1 << 16
	AttrMaxDestRDAtomic AttrMask = 1 << 17
	AttrPathMigState    AttrMask = 1 << 18
	AttrCap             AttrMask = 1 << 19
	AttrDestQPN         AttrMask = 1 << 20
	AttrRateLimit       AttrMask = 1 << 25
)

func (m AttrMask) String() string {
	return bitNames(uint64(m), []bitName{
		{uint64(AttrState), "STATE"}, {uint64(AttrCurState), "CUR_STATE"},
		{uint64(AttrSQDAsyncNotify), "EN_SQD_ASYNC_NOTIFY"}, {uint64(AttrAccess), "ACCESS_FLAGS"},
		{uint64(AttrPKeyIndex), "PKEY_INDEX"}, {uint64(AttrPort), "PORT"}, {uint64(AttrQKey), "QKEY"},
		{uint64(AttrAV), "AV"}, {uint64(AttrPathMTU), "PATH_MTU"}, {uint64(AttrTimeout), "TIMEOUT"},
		{uint64(AttrRetryCount), "RETRY_CNT"}, {uint64(AttrRNRRetry), "RNR_RETRY"}, {uint64(AttrRQPSN), "RQ_PSN"},
		{uint64(AttrMaxRDAtomic), "MAX_QP_RD_ATOMIC"}, {uint64(AttrAltPath), "ALT_PATH"},
		{uint64(AttrMinRNRTimer), "MIN_RNR_TIMER"}, {uint64(AttrSQPSN), "SQ_PSN"},
		{uint64(AttrMaxDestRDAtomic), "MAX_DEST_RD_ATOMIC"}, {uint64(AttrPathMigState), "PATH_MIG_STATE"},
		{uint64(AttrCap), "CAP"}, {uint64(AttrDestQPN), "DEST_QPN"}, {uint64(AttrRateLimit), "RATE_LIMIT"},
	})
}

// Route is the way to a peer (struct ibv_ah_attr).
type Route struct {
	Port         int
	DGID         GID // set for a global route, which RoCE always is
	SGIDIndex    int
	Global       bool
	FlowLabel    uint32
	HopLimit     uint8
	TrafficClass uint8
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
}

// QPAttr are a queue pair's attributes (struct ibv_qp_attr); the mask of a
// call says which count.
type QPAttr struct {
	State           QPState
	CurState        QPState
	PathMTU         MTU
	PathMigState    uint32
	QKey            uint32
	RQPSN           uint32 // 24 bits
	SQPSN           uint32 // 24 bits
	DestQPN         uint32 // 24 bits
	Access          Access
	MaxSend         int
	MaxRecv         int
	MaxSendSGE      int
	MaxRecvSGE      int
	MaxInline       int
	Route           Route
	AltRoute        Route
	PKeyIndex       int
	AltPKeyIndex    int
	SQDAsyncNotify  bool
	SQDraining      bool
	MaxRDAtomic     uint8 // reads and atomics in flight as requester
	MaxDestRDAtomic uint8 // and as responder
	MinRNRTimer     uint8 // encoded, 0 to 31
	Port            int
	Timeout         uint8 // 4.096 us * 2^Timeout; 0 waits for ever
	RetryCount      uint8 // 0 to 7
	RNRRetry        uint8 // 0 to 7; 7 retries for ever
	AltPort         int
	AltTimeout      uint8
	RateLimit       uint32 // kbit/s
}

// transition is what one state change takes: the InfiniBand specification 1.4,
// volume 1, table 91, as the kernel checks it (qp_state_table of
// drivers/infiniband/core/verbs.c; for TypeDriver srd_qp_state_table of
// drivers/infiniband/hw/efa/efa_verbs.c).
type transition struct {
	required AttrMask
	optional AttrMask
}

// Attributes that go together.
const (
	attrsInit      = AttrPKeyIndex | AttrPort | AttrAccess
	attrsInitUD    = AttrPKeyIndex | AttrPort | AttrQKey
	attrsPath      = AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	attrsResponder = AttrMaxDestRDAtomic | AttrMinRNRTimer
	attrsRequester = AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRDAtomic
	attrsRunning   = AttrCurState | AttrAltPath | AttrAccess | AttrPathMigState
)

// transitionFor gives the rule of a state change, false where there is none.
func transitionFor(t QPType, from, to QPState) (transition, bool) {
	rule := transition{required: AttrState}
	if to == StateReset || to == StateError && from != StateReset {
		return rule, true
	}
	var (
		connected = t == TypeRC || t == TypeUC || t == TypeXRCSend || t == TypeXRCRecv
		responds  = t == TypeRC || t == TypeXRCRecv
		requests  = t == TypeRC || t == TypeXRCSend
		datagram  = t == TypeUD || t == TypeDriver
	)
	need := func(when bool, m AttrMask) {
		if when {
			rule.required |= m
		}
	}
	allow := func(when bool, m AttrMask) {
		if when {
			rule.optional |= m
		}
	}
	switch [2]QPState{from, to} {
	case [2]QPState{StateReset, StateInit}:
		need(connected, attrsInit)
		need(datagram, attrsInitUD)
		need(t == TypeRawPacket, AttrPort)
	case [2]QPState{StateInit, StateInit}:
		allow(connected, attrsInit)
		allow(datagram, attrsInitUD)
	case [2]QPState{StateInit, StateRTR}:
		need(connected, attrsPath)
		need(responds, attrsResponder)
		allow(connected, AttrAltPath|AttrAccess|AttrPKeyIndex)
		allow(datagram, AttrPKeyIndex|AttrQKey)
	case [2]QPState{StateRTR, StateRTS}:
		need(t != TypeRawPacket, AttrSQPSN)
		need(requests, attrsRequester)
		need(t == TypeXRCRecv, AttrTimeout)
		allow(t == TypeRawPacket, AttrRateLimit)
		allow(t == TypeDriver, AttrRNRRetry)
		allowRunning(&rule, connected, responds, datagram)
	case [2]QPState{StateRTS, StateRTS}:
		allow(t == TypeRawPacket, AttrRateLimit)
		allowRunning(&rule, connected, responds, datagram)
	case [2]QPState{StateSQD, StateRTS}:
		allowRunning(&rule, connected, responds, datagram)
	case [2]QPState{StateSQE, StateRTS}:
		allow(datagram, AttrCurState|AttrQKey)
		allow(t == TypeUC, AttrCurState|AttrAccess)
	case [2]QPState{StateRTS, StateSQD}:
		allow(t != TypeRawPacket, AttrSQDAsyncNotify)
	case [2]QPState{StateSQD, StateSQD}:
		allow(datagram, AttrPKeyIndex|AttrQKey)
		allow(connected, AttrAV|AttrAltPath|AttrAccess|AttrPKeyIndex|AttrPathMigState)
		allow(connected && t != TypeUC, AttrPort|AttrTimeout)
		allow(requests, attrsRequester)
		allow(responds, attrsResponder)
	default:
		return transition{}, false
	}
	return rule, true
}

// allowRunning adds what may change on the way to RTS, whatever the start.
func allowRunning(rule *transition, connected, responds, datagram bool) {
	switch {
	case datagram:
		rule.optional |= AttrCurState | AttrQKey
	case connected:
		rule.optional |= attrsRunning
	}
	if responds {
		rule.optional |= AttrMinRNRTimer
	}
}

// explainMask names what is wrong with a modification, "" when its mask is as
// it should be.
func explainMask(t QPType, from, to QPState, mask AttrMask) string {
	if from == StateUnknown {
		return ""
	}
	rule, ok := transitionFor(t, from, to)
	if !ok {
		return fmt.Sprintf("a %v queue pair cannot go from %v to %v", t, from, to)
	}
	text := ""
	if missing := rule.required &^ mask; missing != 0 {
		text = fmt.Sprintf("missing %v", missing)
	}
	if surplus := mask &^ (rule.required | rule.optional); surplus != 0 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("not allowed %v", surplus)
	}
	if text != "" {
		text = fmt.Sprintf("%v from %v to %v: %s", t, from, to, text)
	}
	return text
}

// randomPSN starts a queue pair's packet numbers where a stale packet of an
// earlier one is unlikely to fit.
func randomPSN() uint32 { return rand.Uint32N(1 << 24) }
