package rdmacm

import (
	"fmt"
	"syscall"
)

// EventType is what the connection manager reports (enum rdma_cm_event_type of
// include/rdma/rdma_cm.h).
type EventType uint32

const (
	EventAddrResolved EventType = iota
	EventAddrError
	EventRouteResolved
	EventRouteError
	EventConnectRequest
	EventConnectResponse
	EventConnectError
	EventUnreachable
	EventRejected
	EventEstablished
	EventDisconnected
	EventDeviceRemoval
	EventMulticastJoin
	EventMulticastError
	EventAddrChange
	EventTimewaitExit
)

var eventNames = [...]string{
	"address resolved", "address error", "route resolved", "route error",
	"connect request", "connect response", "connect error", "unreachable",
	"rejected", "established", "disconnected", "device removal",
	"multicast join", "multicast error", "address change", "timewait exit",
}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint32(t))
}

// Event is one report of the connection manager. InfiniBand pads private data
// with zeros to the size its message has; iWARP keeps the length.
type Event struct {
	Type               EventType
	Status             int32  // 0, a negative errno, or an InfiniBand reject reason
	QPN                uint32 // the peer's queue pair; 0 on iWARP
	Private            []byte // the peer's private data
	ResponderResources uint8  // reads and atomics the peer serves at once
	InitiatorDepth     uint8  // reads and atomics the peer issues at once
}

type rawEvent struct {
	Event
	uid uint64
	id  uint32
}

// Reject reasons of InfiniBand (enum ib_cm_rej_reason of include/rdma/ib_cm.h)
// that a peer's kernel gives on its own.
var rejectReasons = map[int32]string{
	1:  "no free queue pair",
	3:  "no resources",
	4:  "the peer waited too long for the connection to be completed",
	5:  "unsupported request",
	6:  "the peer's half of the exchange is in another state",
	8:  "nobody listens there",
	9:  "the transport type is not supported",
	10: "stale connection: the peer still knows this queue pair from before",
	12: "invalid GID: the peer does not own the address on that port",
	13: "invalid LID",
	14: "invalid service level",
	17: "invalid packet rate",
	24: "the port is redirected",
	26: "invalid path MTU",
	27: "insufficient responder resources",
	28: "the program there refused",
}

// failure is the error of an event that ended a connection attempt or a connection.
func (e Event) failure() (detail string, err error) {
	errno := syscall.Errno(0)
	if e.Status < 0 {
		errno = syscall.Errno(-e.Status)
	}
	or := func(otherwise syscall.Errno) syscall.Errno {
		if errno == 0 {
			return otherwise
		}
		return errno
	}
	switch e.Type {
	case EventAddrError:
		return "no RDMA device has a route to that address; see: ip route get ADDRESS, rdma link", or(syscall.EADDRNOTAVAIL)
	case EventRouteError:
		return "the fabric knows no path to that address", or(syscall.EHOSTUNREACH)
	case EventConnectError:
		return "the connection could not be made", or(syscall.ECONNABORTED)
	case EventUnreachable:
		return "the peer does not answer; check that the device there is up and that no firewall stands between", or(syscall.ETIMEDOUT)
	case EventRejected:
		switch {
		case e.Status == 28 || errno == syscall.ECONNRESET:
			return "the program there refused", syscall.ECONNREFUSED
		case errno == syscall.ECONNREFUSED:
			return "nobody listens there, or the program there refused", syscall.ECONNREFUSED
		}
		if reason, ok := rejectReasons[e.Status]; ok {
			return fmt.Sprintf("%s (reject reason %d)", reason, e.Status), syscall.ECONNREFUSED
		}
		return fmt.Sprintf("reject reason %d", e.Status), syscall.ECONNREFUSED
	case EventDisconnected:
		return "the peer closed the connection, or the link was lost", or(syscall.ECONNRESET)
	case EventDeviceRemoval:
		return "the RDMA device was removed", syscall.ENODEV
	}
	return fmt.Sprintf("unexpected here: %v", e.Type), or(syscall.EPROTO)
}
