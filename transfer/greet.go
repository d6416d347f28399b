package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Protocol is the version of what two sides say to each other after the
// exchange's own greeting.
const Protocol = 3

// hello is what the sides must know of each other before a rail connects.
type hello struct {
	Protocol int  `json:"protocol"`
	Kind     Kind `json:"rail"`
	NICs     int  `json:"nics"`
	Queues   int  `json:"queue_pairs"` // of each NIC; 0 from the receiver
	// Memory is for people: each side registers its own, and no key tells whose
	// it is.
	Memory string `json:"memory"`
}

const purpose = "transfer"

// maxMemoryName bounds what a peer may call its memory.
const maxMemoryName = 64

// greet exchanges hellos and finds what both sides can do: the smaller number
// of NICs, and the queue pairs that the sender wants.
func greet(ctx context.Context, conn *exchange.Conn, program string, mine hello) (Want, hello, error) {
	mine.Protocol = Protocol
	own, err := json.Marshal(mine)
	if err != nil {
		return Want{}, hello{}, err
	}
	host, _ := os.Hostname()
	peer, err := conn.Greet(ctx, exchange.Hello{Program: "peerdirect", Version: program, Purpose: purpose, Host: host, Options: own})
	if err != nil {
		return Want{}, hello{}, err
	}
	h, err := readHello(peer.Options, mine, peer.Version, program)
	if err != nil {
		return Want{}, hello{}, conn.Fail(err)
	}
	return Want{NICs: min(h.NICs, mine.NICs), Queues: max(h.Queues, mine.Queues)}, h, nil
}

// readHello checks what a peer of a version says against this side's.
func readHello(options []byte, mine hello, version, program string) (h hello, err error) {
	if err := json.Unmarshal(options, &h); err != nil {
		return hello{}, fmt.Errorf("%w: options that cannot be read: %v", exchange.ErrProtocol, err)
	}
	switch {
	case h.Protocol != Protocol:
		err = fmt.Errorf("%w: the peer (version %q) speaks version %d of the transfer, this side (version %q) version %d; run the same peerdirect on both machines",
			exchange.ErrVersion, version, h.Protocol, program, Protocol)
	case h.Kind != mine.Kind:
		err = fmt.Errorf("%w: one side has %s and the other %s, which do not reach each other; choose with --device",
			exchange.ErrMismatch, mine.Kind.device(), h.Kind.device())
	case h.NICs < 1 || h.NICs > MaxNICs || h.Queues < 0 || h.Queues > maxPairs || max(h.Queues, mine.Queues) == 0:
		err = malformed("%d NICs and %d queue pairs", h.NICs, h.Queues)
	case len(h.Memory) > maxMemoryName || strings.ContainsFunc(h.Memory, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = malformed("memory called %.64q", h.Memory)
	}
	if err != nil {
		return hello{}, err
	}
	if h.Memory == "" {
		h.Memory = HostMemory // a version that had no other
	}
	return h, nil
}
