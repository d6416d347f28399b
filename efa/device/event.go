package device

// EventKind is what happened to a device.
type EventKind uint8

const (
	// EventFatal: the device stopped and wants a reset. Peers find it
	// unresponsive.
	EventFatal EventKind = iota + 1
	// EventReset: all objects are gone.
	EventReset
	// EventLinkDown and EventLinkUp: see FaultPlan.LinkDown.
	EventLinkDown
	EventLinkUp
	// EventDrained: a queue pair in SQD that asked to be told has no request in
	// flight any more.
	EventDrained
	// EventWarning: something was lost that the driver should know of; Reason
	// says what.
	EventWarning
)

func (k EventKind) String() string {
	names := [...]string{"none", "fatal", "reset", "link down", "link up", "drained", "warning"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Event is something that happened to a device as a whole.
type Event struct {
	Kind   EventKind
	QP     uint16 // EventDrained: its number
	Reason string
}
