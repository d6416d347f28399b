package ebpfprobes

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"
)

// QPState is a queue pair's state (enum ib_qp_state).
type QPState uint8

const (
	StateReset QPState = iota
	StateInit
	StateRTR
	StateRTS
	StateSQD
	StateSQE
	StateError
	// StateUnknown is of a queue pair that is older than the session, until it changes;
	// and of one that is not there.
	StateUnknown QPState = 0xff
)

// String gives the state as the specification does; "?" if it is unknown.
func (s QPState) String() string {
	if s == StateUnknown {
		return "?"
	}
	return word(s, "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR")
}

// QPType is a queue pair's type (enum ib_qp_type).
type QPType uint8

// String names the type. SRD is a driver's own.
func (t QPType) String() string {
	switch t {
	case 0:
		return "SMI"
	case 1:
		return "GSI"
	case 2:
		return "RC"
	case 3:
		return "UC"
	case 4:
		return "UD"
	case 8:
		return "RAW_PACKET"
	case 9:
		return "XRC_INI"
	case 10:
		return "XRC_TGT"
	case 0xff:
		return "DRIVER"
	}
	return fmt.Sprintf("?%d", t)
}

// Change is what was done to a queue pair.
type Change uint8

const (
	Created Change = iota
	Modified
	Destroyed
)

// String names the change.
func (c Change) String() string { return word(c, "created", "modified", "destroyed") }

// QP is a queue pair as far as the session has seen it.
type QP struct {
	Device  string
	Number  uint32
	Type    QPType
	PID     int    // who made it, or changed it first of what is older; 0 if Kernel
	Command string // the thread's name, or who uses RDMA in the kernel
	Kernel  bool
	State   QPState
	Born    time.Time // zero: before the session
	Changes uint32    // that did not fail

	// Of its peer, as far as it was told: datagram queue pairs are told none.
	RemoteQPN uint32 // 0 is unknown
	RemoteGID netip.Addr
	GIDIndex  uint8 // of RemoteGID's path, the local one
	Port      uint8 // 0 is unknown
	MTU       int   // bytes; 0 is unknown
}

// QPChange is one change of a queue pair.
type QPChange struct {
	At       time.Time // when it ended
	PID, TID int       // who did it
	Command  string
	Change   Change
	From, To QPState // alike where a modification is of something else
	Mask     uint32  // what a modification sets: enum ib_qp_attr_mask
	Took     time.Duration
	Err      syscall.Errno // 0 if it did not fail
	QP       QP            // after it
}

// QPTransition counts changes that are alike.
type QPTransition struct {
	PID     int // who did it
	Command string
	// Ended tells of a row of processes of that name that are no more. Those of one name
	// become one when the kernel's table is half full; PID is 0 then.
	Ended    bool
	Device   string
	Type     QPType
	Change   Change
	From, To QPState
	Err      syscall.Errno
	Count    uint64
	Sum      time.Duration
	Longest  time.Duration
}
