package verbs

import (
	"fmt"
	"syscall"
)

// Endpoint is what a peer must know of a queue pair to connect to it.
type Endpoint struct {
	QPN  uint32 `json:"qpn"` // 24 bits
	PSN  uint32 `json:"psn"` // first packet number this side sends, 24 bits
	LID  uint16 `json:"lid"`
	GID  GID    `json:"gid"`
	MTU  int    `json:"mtu"`  // bytes; the path takes the smaller of both
	Link string `json:"link"` // link layer, which both must share
}

// ConnectOptions tune a connection. Zero fields take the default in the
// comment; Retry and RNRRetry count, so none is asked for with NoRetry.
type ConnectOptions struct {
	Timeout     int   // 4.096 us * 2^Timeout for an acknowledgement; default 14 (67 ms)
	Retry       int   // 1 to 7; default 6, since rxe takes 7 for without end and never reports a lost peer
	RNRRetry    int   // default 7, which is without end
	MinRNRTimer int   // as encoded; default 12 (0.64 ms)
	MaxRead     uint8 // reads and atomics in flight each way; default 1, or less where the device has less
	SL          uint8
	HopLimit    uint8 // default 64
	Class       uint8 // traffic class
	MTU         MTU   // default: the smaller of both ports'
}

// NoRetry asks for none at all, where zero means the default.
const NoRetry = -1

func (o *ConnectOptions) defaults() {
	pick := func(v *int, def int) {
		switch *v {
		case 0:
			*v = def
		case NoRetry:
			*v = 0
		}
	}
	pick(&o.Timeout, 14)
	pick(&o.Retry, 6)
	pick(&o.RNRRetry, 7)
	pick(&o.MinRNRTimer, 12)
	if o.MaxRead == 0 {
		o.MaxRead = 1
	}
	if o.HopLimit == 0 {
		o.HopLimit = 64
	}
}

// RC is a reliable connection.
type RC struct{ *QP }

// UC is an unreliable connection.
type UC struct{ *QP }

// UD sends datagrams; each request names its peer by an address handle.
type UD struct{ *QP }

// RCOptions are QPOptions for CreateRC; the Type is set by it.
type RCOptions = QPOptions

// CreateRC makes a reliable connection in the INIT state: receives can be
// posted, Connect does the rest.
func (pd *PD) CreateRC(o QPOptions) (*RC, error) {
	q, err := pd.createInit(o, TypeRC)
	if err != nil {
		return nil, err
	}
	return &RC{q}, nil
}

// CreateUC makes an unreliable connection in the INIT state.
func (pd *PD) CreateUC(o QPOptions) (*UC, error) {
	q, err := pd.createInit(o, TypeUC)
	if err != nil {
		return nil, err
	}
	return &UC{q}, nil
}

// CreateUD makes a datagram queue pair that is ready to send.
func (pd *PD) CreateUD(o QPOptions, qkey uint32) (*UD, error) {
	o.Type = TypeUD
	q, err := pd.CreateQP(o)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return q.Init(qkey) },
		func() error { return q.Modify(QPAttr{State: StateRTR}, AttrState) },
		func() error { return q.Modify(QPAttr{State: StateRTS, SQPSN: q.psn}, AttrState|AttrSQPSN) },
	} {
		if err := step(); err != nil {
			q.Close()
			return nil, err
		}
	}
	return &UD{q}, nil
}

func (pd *PD) createInit(o QPOptions, t QPType) (*QP, error) {
	o.Type = t
	q, err := pd.CreateQP(o)
	if err != nil {
		return nil, err
	}
	if err := q.Init(0); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// Init moves the queue pair to INIT with the port, P_Key and access of its
// options; qkey counts for datagrams only.
func (q *QP) Init(qkey uint32) error {
	attr := QPAttr{State: StateInit, PKeyIndex: q.opts.PKey, Port: q.opts.Port, Access: q.opts.Access, QKey: qkey}
	rule, _ := transitionFor(q.opts.Type, StateReset, StateInit)
	return q.Modify(attr, rule.required)
}

// Reset brings the queue pair back to RESET; what is posted is forgotten.
func (q *QP) Reset() error { return q.Modify(QPAttr{State: StateReset}, AttrState) }

// Fail moves the queue pair to ERR: everything posted completes as flushed.
func (q *QP) Fail() error { return q.Modify(QPAttr{State: StateError}, AttrState) }

// Drain stops the send queue after the request it is at (SQD). With notify
// the device raises EventSQDrained once it stands still.
func (q *QP) Drain(notify bool) error {
	return q.Modify(QPAttr{State: StateSQD, SQDAsyncNotify: notify}, AttrState|AttrSQDAsyncNotify)
}

// Resume lets a drained send queue go on.
func (q *QP) Resume() error { return q.Modify(QPAttr{State: StateRTS}, AttrState) }

// gid is the source GID chosen for the queue pair; chosen late, because an
// InfiniBand subnet needs none.
func (q *QP) gid() (GIDEntry, error) {
	if q.opts.GID.GID.IsZero() {
		e, err := q.dev.BestGID(q.opts.Port)
		if err != nil {
			return e, err
		}
		q.opts.GID = e
	}
	return q.opts.GID, nil
}

// Endpoint describes the queue pair to a peer. A queue pair that was made without
// a GID reads its port's whole table here, a system call an entry: who makes many
// calls BestGID once and gives them QPOptions.GID.
func (q *QP) Endpoint() (Endpoint, error) {
	port, err := q.dev.Port(q.opts.Port)
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{QPN: q.qpn, PSN: q.psn, LID: port.LID, MTU: port.ActiveMTU.Bytes(), Link: port.LinkLayer.String()}
	gid, err := q.gid()
	if err != nil && port.LinkLayer != LinkInfiniBand {
		return Endpoint{}, err
	}
	e.GID = gid.GID
	return e, nil
}

// Connect connects the queue pair to the peer's and leaves it ready to send.
// Both sides must connect before either sends.
func (q *RC) Connect(peer Endpoint, o ConnectOptions) error { return q.connect(peer, o) }

// Connect connects the queue pair to the peer's and leaves it ready to send.
func (q *UC) Connect(peer Endpoint, o ConnectOptions) error { return q.connect(peer, o) }

func (q *QP) connect(peer Endpoint, o ConnectOptions) error {
	o.defaults()
	wrong := func(format string, args ...any) error {
		return &Error{Verb: "connect", Object: q.describe(), Err: syscall.EINVAL, Detail: fmt.Sprintf(format, args...)}
	}
	if q.dev.Transport() == TransportIWARP {
		return &Error{Verb: "connect", Object: q.describe(), Err: ErrUnsupported,
			Detail: "an iWARP queue pair is connected by the RDMA CM: use verbs/exchange or verbs/rdmacm"}
	}
	port, err := q.dev.Port(q.opts.Port)
	if err != nil {
		return err
	}
	if peer.QPN >= 1<<24 || peer.PSN >= 1<<24 {
		return wrong("the peer's QPN %#x or PSN %#x has more than 24 bits", peer.QPN, peer.PSN)
	}
	if peer.Link != "" && peer.Link != port.LinkLayer.String() {
		return wrong("the peer's port is %s, this one is %v", peer.Link, port.LinkLayer)
	}
	mtu := o.MTU
	if mtu == 0 {
		mtu = port.ActiveMTU
		if theirs, ok := MTUOf(peer.MTU); ok && theirs < mtu {
			mtu = theirs
		}
	}
	route := Route{Port: q.opts.Port, DLID: peer.LID, SL: o.SL}
	if port.LinkLayer != LinkInfiniBand || !peer.GID.IsZero() && peer.LID == 0 {
		if peer.GID.IsZero() {
			return wrong("the peer sent no GID, which Ethernet needs")
		}
		gid, err := q.gid()
		if err != nil {
			return err
		}
		route.Global, route.DGID, route.SGIDIndex = true, peer.GID, gid.Index
		route.HopLimit, route.TrafficClass = o.HopLimit, o.Class
	}
	attr := QPAttr{
		State: StateRTR, Route: route, PathMTU: mtu, DestQPN: peer.QPN, RQPSN: peer.PSN,
		MaxDestRDAtomic: o.MaxRead, MinRNRTimer: uint8(o.MinRNRTimer),
	}
	rule, _ := transitionFor(q.opts.Type, StateInit, StateRTR)
	if err := q.Modify(attr, rule.required); err != nil {
		return err
	}
	attr = QPAttr{
		State: StateRTS, SQPSN: q.psn, Timeout: uint8(o.Timeout), RetryCount: uint8(o.Retry),
		RNRRetry: uint8(o.RNRRetry), MaxRDAtomic: o.MaxRead,
	}
	rule, _ = transitionFor(q.opts.Type, StateRTR, StateRTS)
	return q.Modify(attr, rule.required)
}
