package transfer

import (
	"errors"
	"fmt"
)

// Kind tells which rails can be connected: those of the same kind.
type Kind string

const (
	KindRC       Kind = "rc"           // reliable connections of libibverbs
	KindEFA      Kind = "efa"          // SRD on the EFA devices of a kernel
	KindEmbedded Kind = "efa-embedded" // SRD on software devices inside a process
)

// Device says of a kind what a peer could be told to use.
func (k Kind) Device() string {
	switch k {
	case KindRC:
		return "an InfiniBand, RoCE or iWARP device"
	case KindEFA:
		return "an EFA device"
	case KindEmbedded:
		return "an embedded device"
	}
	return fmt.Sprintf("a device of a kind unknown here (%.32q)", string(k))
}

// Opener opens rails: [RCOptions], [EFAOptions], a node of an [Embedded], or
// several of these that make one rail, [NICs].
type Opener interface {
	// Kind tells what the rails can be connected to.
	Kind() Kind
	// NICs is how many NICs there are to be used.
	NICs() int
	// Open opens a rail. Every call opens another.
	Open(Want) (Rail, error)
}

// DeviceName is the kernel's name of the one NIC that an opener opens, "" where it
// has several or does not tell.
func DeviceName(o Opener) string {
	if n, ok := o.(interface{ DeviceName() string }); ok {
		return n.DeviceName()
	}
	return ""
}

// Want is what a transfer needs of a rail. Zero fields leave it to the options.
type Want struct {
	Peers  int // how many may be connected at once
	NICs   int // how many are to be used, the first ones
	Queues int // queue pairs of each NIC
	Depth  int // writes in flight, on all NICs together

	// Receives is how many messages and notices each peer may send ahead, on each
	// NIC. If neither it nor the options say so, an EFA device's receives are shared
	// among the peers that are wanted: 128 each, less where there are more than 64.
	Receives int

	// NoSpin has Wait sleep at once: the caller has polled long enough.
	NoSpin bool
}

const (
	// minReceives is the least that a rail posts for a peer.
	minReceives = 16
	// spare is how many places of a send queue are kept for notices and
	// messages, beside those that Want.Depth asks for.
	spare = 16
)

// ErrCancelled: this side's user ended it.
var ErrCancelled = errors.New("interrupted by the user")

// NICs opens several NICs as one rail.
type NICs []Opener

// Several makes one opener of those given, which must be of one kind.
func Several(nics ...Opener) (Opener, error) {
	switch {
	case len(nics) == 1:
		return nics[0], nil
	case len(nics) == 0 || len(nics) > MaxNICs:
		return nil, &OptionError{Option: "device", Err: fmt.Errorf("%d devices; there can be 1 to %d", len(nics), MaxNICs)}
	}
	for _, n := range nics {
		if n.Kind() != nics[0].Kind() {
			return nil, &OptionError{Option: "device", Err: fmt.Errorf("%s and %s do not go together: name devices of one kind",
				nics[0].Kind().Device(), n.Kind().Device())}
		}
	}
	return NICs(nics), nil
}

// Kind is that of every NIC.
func (n NICs) Kind() Kind { return n[0].Kind() }

// NICs is how many there are.
func (n NICs) NICs() int { return len(n) }

// Open opens the first NICs and joins them.
func (n NICs) Open(w Want) (Rail, error) {
	if w.NICs > 0 && w.NICs < len(n) {
		n = n[:w.NICs]
	}
	one := Want{NICs: 1, Peers: w.Peers, Queues: w.Queues, Receives: w.Receives, Depth: (w.Depth + len(n) - 1) / len(n)}
	var rails []Rail
	fail := func(err error) (Rail, error) {
		for _, r := range rails {
			err = errors.Join(err, r.Close())
		}
		return nil, err
	}
	for _, o := range n {
		r, err := o.Open(one)
		if err != nil {
			return fail(err)
		}
		rails = append(rails, r)
	}
	joined, err := Join(rails...)
	if err != nil {
		return fail(err)
	}
	return joined, nil
}

// OptionError is an option that does not fit the machine or makes no sense.
type OptionError struct {
	Option string
	Err    error
}

func (e *OptionError) Error() string { return fmt.Sprintf("%s: %v", e.Option, e.Err) }
func (e *OptionError) Unwrap() error { return e.Err }
