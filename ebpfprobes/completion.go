package ebpfprobes

import (
	"fmt"
	"time"
)

// Wait is what a completion's time is from and to.
type Wait uint8

const (
	// Woken is from the device's interrupt to the return of the read that slept for it:
	// how long the program takes to wake up.
	Woken Wait = iota
	// Collected is from the interrupt to the return of a read that began later: the
	// program slept elsewhere (poll, epoll) or was busy.
	Collected
	// Polled is from posting to the program's having the completion.
	Polled
	// Marked is the same of a queue of this project's: the program itself measures and
	// marks one operation at a time, about two thousand a second at most.
	Marked
)

// String names the wait.
func (w Wait) String() string { return word(w, "woken", "collected", "polled", "marked") }

// FromPosting tells whether the wait is of an operation and not of an event.
func (w Wait) FromPosting() bool { return w == Polled || w == Marked }

// Opcode is what a work request does, as enum ibv_wr_opcode counts, or what was received.
type Opcode uint8

const (
	OpWrite            Opcode = 0
	OpWriteImmediate   Opcode = 1
	OpSend             Opcode = 2
	OpSendImmediate    Opcode = 3
	OpRead             Opcode = 4
	OpReceive          Opcode = 128
	OpReceiveImmediate Opcode = 129
	OpcodeUnknown      Opcode = 255 // of events, and where a completion does not tell
)

// String names the opcode.
func (o Opcode) String() string {
	switch o {
	case OpReceive:
		return "receive"
	case OpReceiveImmediate:
		return "receive-imm"
	case OpcodeUnknown:
		return "unknown"
	}
	return word(o, "write", "write-imm", "send", "send-imm", "read", "compare-swap", "fetch-add",
		"invalidate", "bind", "send-inv", "send-tso")
}

// Status is a completion's, as enum ibv_wc_status of libibverbs counts.
type Status uint32

// NotTaken is of a marked operation that the device did not take.
const NotTaken Status = 1<<32 - 1

// String says what went wrong.
func (s Status) String() string {
	if s == NotTaken {
		return "not taken by the device"
	}
	names := [...]string{
		"success", "local length", "local queue pair operation", "local EE context operation",
		"local protection", "flushed", "memory window bind", "bad response", "local access",
		"remote invalid request", "remote access", "remote operation", "retries exceeded",
		"receiver-not-ready retries exceeded", "local RDD violation", "remote invalid RD request",
		"remote abort", "invalid EE context number", "invalid EE context state", "fatal",
		"response timeout", "general", "tag matching", "rendezvous incomplete",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("?%d", uint32(s))
}

// CompletionKey tells rows apart.
type CompletionKey struct {
	PID    int    // 0 is processes that have ended, see CompletionRow
	Device string // RDMA device; "" is unknown
	Queue  uint64 // the program's address of its completion queue; 0: of several
	Number int64  // the kernel's number of it; -1 is unknown, where it is polled, or of several
	Wait   Wait
	Opcode Opcode
	Size   uint64 // the class, as RegistrationKey.Size; 0 is below 2 or unknown
}

// CompletionRow is what a session counted of one key. When the kernel's table is half
// full, processes of one name that have ended become one, whose PID is 0; and if that is
// not enough, of each other process the queues that nothing came from since the last look.
type CompletionRow struct {
	CompletionKey
	Command string
	Times   Histogram
	Failed  uint64 // completions in error
	Bytes   uint64
	// Untimed are completions whose posting was not seen: it was before the window.
	Untimed uint64
	// Repeated are work requests whose id another in flight had. Which of them a
	// completion is of cannot be told, so neither is timed.
	Repeated uint64
}

// CompletionFailure counts completions in error that are alike.
type CompletionFailure struct {
	PID     int
	Command string
	Device  string
	Queue   uint64
	QP      uint32 // 0 is unknown
	Status  Status
	Opcode  Opcode
	Count   uint64
}

// Sampling tells how much of the time polled queues were followed.
type Sampling struct {
	Windows  uint64
	Followed time.Duration // all windows together
	// Opening and Closing are how long it took to attach and to detach, all windows
	// together: calls are held up then, too.
	Opening, Closing time.Duration
	Posts            uint64 // work requests seen in them
	// Unsignaled are those that complete without telling; they are not timed.
	Unsignaled uint64
}
