package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// ErrCancelled: this side's user ended the test.
var ErrCancelled = transfer.ErrCancelled

// ErrTimeout: the deadline of a step passed.
var ErrTimeout = errors.New("nothing happened")

// StepError is the first step that failed.
type StepError struct {
	Step   Name
	Err    error
	Remedy string // "" where there is none to tell
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Fault is an error with what is to be done about it.
type Fault struct {
	Err    error
	Remedy string
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

func fault(remedy string, err error) error { return &Fault{err, remedy} }

// DamageError is memory that does not have the bytes that were written.
type DamageError struct {
	What      string // "a write of 4096 bytes"
	Bytes     int    // that were compared
	Wrong     int
	First     int  // offset of the first
	Got       byte // there
	Want      byte
	Untouched bool // all that is wrong is as it was before
}

func (e *DamageError) Error() string {
	how := fmt.Sprintf("%#02x where %#02x was written", e.Got, e.Want)
	if e.Untouched {
		how = "nothing was written there"
	}
	return fmt.Sprintf("%s: %d of %d bytes are wrong, from offset %d on: %s", e.What, e.Wrong, e.Bytes, e.First, how)
}

func (e *DamageError) Unwrap() error { return exchange.ErrVerification }

// PeerError is what the other side said of its failure. It is of the class that the
// other side's error is of.
type PeerError struct {
	Text   string
	Remedy string
	of     exchange.RemoteError
}

func (e *PeerError) Error() string { return "the other side: " + e.Text }
func (e *PeerError) Unwrap() error { return &e.of }

func (s *said) err() *PeerError {
	return &PeerError{Text: s.Text, Remedy: s.Remedy, of: exchange.RemoteError{Text: s.Text, Class: s.Class}}
}

// say is an error as the other side is told of it.
func say(step Name, err error) *said {
	text := err.Error()
	var p *PeerError
	if errors.As(err, &p) { // which the other side knows
		text = strings.TrimSuffix(text, ": "+p.Error())
		if text == p.Error() {
			text = "nothing was wrong at this side until then"
		}
	}
	return &said{Text: text, Class: exchange.ClassOf(err), Remedy: remedy(step, err)}
}

// remedy says what to do about a step's error, from the most particular on.
func remedy(step Name, err error) string {
	var f *Fault
	if errors.As(err, &f) && f.Remedy != "" {
		return f.Remedy
	}
	var p *PeerError
	if errors.As(err, &p) && p.Remedy != "" {
		return p.Remedy
	}
	if errors.Is(err, ErrCancelled) {
		return ""
	}
	var lost *transfer.LostError
	if errors.As(err, &lost) && lost.Request {
		return "packets pass, and a NIC refuses the memory, not the way: look at the kernel's log of both machines (dmesg: IOMMU faults, the driver), and compare the keys of the step keys"
	}
	if errors.Is(err, exchange.ErrVersion) || errors.Is(err, control.ErrVersion) {
		return "run the same peerdirect on both machines"
	}
	if errors.Is(err, ErrProtocol) {
		return "run the same peerdirect on both machines, and see that the port is its listener's: peerdirect doctor --listen"
	}
	if (errors.Is(err, control.ErrGone) || errors.Is(err, control.ErrLeft)) && step != StepCredentials {
		return "the other program or machine went away in the middle of the test: look at what it printed, and at its kernel's log (dmesg)"
	}
	return byStep[step]
}

// byStep is what helps where nothing more particular is known.
var byStep = map[Name]string{
	StepDevice:      "peerdirect doctor, without --peer, says what this machine lacks; peerdirect devices lists its NICs",
	StepReach:       "see ip addr and ip route on both machines, and that the listener runs: peerdirect doctor --listen ADDRESS",
	StepCredentials: "give both sides the same token (--token-file), or certificates of one authority (peerdirect cert)",
	StepMatch:       "choose NICs of one transport with --device, and GIDs of one type and family with --gid-index",
	StepMTU:         "give every interface and switch port on the way the same MTU, or lower that of the NICs' interfaces: ip link set dev NETDEV mtu BYTES",
	StepKeys:        "peerdirect doctor, without --peer, on both machines: limits on locked memory, queue pairs and regions",
	StepConnect:     "compare GID, GID index and interface of both sides above; peerdirect devices -v shows the GID tables, and dmesg what the drivers say",
	StepSmall:       "the way of the NICs' packets differs from that of TCP: let UDP port 4791 (RoCE) or EFA's security group pass in both directions, and compare VLAN and GID of both sides",
	StepLarge:       "small packets pass and large or many do not: compare the MTU of all interfaces and switch ports on the way, then flow control (PFC, ECN) and dropped packets: peerdirect devices -v, ethtool -S, dcb pfc show",
	StepOrder:       "the transport does not hold what it promises: this is a defect of driver, firmware or device; report it with this output",
	StepRead:        "the peer's NIC must answer reads: peerdirect devices -v shows how many it takes",
	StepBack:        "the way from the other side to this one is another: look for the same as in small-write and large-write in that direction",
}

// why finds the error that explains another: what ended the context, if that did end
// what the other is of.
func why(ctx context.Context, err error) error {
	if ctx.Err() == nil || err == nil {
		return err
	}
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err // it says what it was waiting for
	}
	if !errors.Is(err, ctx.Err()) && errors.Is(cause, ErrTimeout) {
		return err // it failed by itself
	}
	return cause
}

// short is an error without what is named beside it.
func short(err error) string {
	text := err.Error()
	for _, class := range []error{fs.ErrPermission, errors.ErrUnsupported} {
		text = strings.TrimSuffix(text, ": "+class.Error())
	}
	return cmp.Or(text, "failed")
}
