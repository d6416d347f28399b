package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// Protocol is the version of what two sides say to each other once they have proved
// themselves.
const Protocol = 5

// Frames of the control connection before it is the engines'.
const (
	typeHello control.Type = 0x7000 + iota
	typeLink
)

// hello is what the sides must know of each other before their engines meet. The
// side that dialled says its own first.
type hello struct {
	Protocol int           `json:"protocol"`
	Version  string        `json:"version"`
	Kind     transfer.Kind `json:"rail"`
	IWARP    bool          `json:"iwarp,omitempty"`
	NICs     int           `json:"nics"`
	Queues   int           `json:"queue_pairs"` // of each NIC
	// Memory is for people: each side registers its own, and no key tells whose
	// it is.
	Memory string `json:"memory"`
	// Fabric is of embedded devices: those of another fabric are reached through a
	// link.
	Fabric string `json:"fabric,omitempty"`
	// Refused is why the side that was dialled wants no transfer.
	Refused string `json:"refused,omitempty"`
}

const (
	maxMemoryName = 64
	maxHello      = 8 << 10
)

// hello describes this side.
func (n *Node) hello() hello {
	rails := n.engine.Rails()
	h := hello{
		Protocol: Protocol, Version: n.o.Version, Kind: n.o.Rail.Kind(), IWARP: rails[0].Transport == transfer.IWARP,
		NICs: len(rails), Queues: rails[0].Queues, Memory: transfer.MemoryName(n.o.Memory),
	}
	if n.embedded != nil {
		h.Fabric = n.embedded.ID()
	}
	return h
}

// greet exchanges hellos and gives the peer's. refused is why this side, which was
// dialled, wants no more transfers.
func (n *Node) greet(ctx context.Context, c *control.Conn, dialled bool, refused error) (theirs hello, err error) {
	mine := n.hello()
	if dialled {
		if err := sendHello(c, mine); err != nil {
			return hello{}, err
		}
		return receiveHello(ctx, c, mine)
	}
	theirs, err = receiveHello(ctx, c, mine)
	if err == nil {
		err = refused
	}
	if err != nil {
		mine.Refused = err.Error()
	}
	if failed := sendHello(c, mine); err == nil {
		err = failed
	}
	return theirs, err
}

func sendHello(c *control.Conn, h hello) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return c.Send(typeHello, b)
}

func receiveHello(ctx context.Context, c *control.Conn, mine hello) (hello, error) {
	kind, b, err := c.Receive(ctx)
	switch {
	case err != nil:
		return hello{}, err
	case kind != typeHello:
		return hello{}, malformed("%s begins with a message of type %v: it is another program, or another version of this one", c, kind)
	}
	h, err := readHello(b, mine)
	if err != nil {
		return hello{}, fmt.Errorf("%s: %w", c, err)
	}
	return h, nil
}

// readHello checks what a peer says against this side's.
func readHello(b []byte, mine hello) (h hello, err error) {
	if len(b) > maxHello {
		return hello{}, malformed("a hello of %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return hello{}, malformed("a hello that cannot be read: %v", err)
	}
	word := func(s string) bool {
		return len(s) <= maxMemoryName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrMismatch, fmt.Sprintf(format, args...))
	}
	switch {
	case h.Protocol != Protocol:
		err = wrong("the peer (version %.32q) speaks version %d of the transfer, this side (version %q) version %d; run the same peerdirect on both machines",
			h.Version, h.Protocol, mine.Version, Protocol)
	case h.Refused != "":
		err = fmt.Errorf("it refuses: %.*s", maxReason, printable(h.Refused))
	case h.Kind != mine.Kind:
		err = wrong("one side has %s and the other %s, which do not reach each other; choose with --device", mine.Kind.Device(), h.Kind.Device())
	case h.IWARP != mine.IWARP:
		err = wrong("only one side's device is iWARP, which reaches its own kind alone; choose with --device")
	case h.NICs < 1 || h.NICs > transfer.MaxNICs || h.Queues < 1 || h.Queues > maxPairs:
		err = malformed("%d NICs and %d queue pairs", h.NICs, h.Queues)
	case h.Queues != mine.Queues:
		err = wrong("the peer has %d queue pairs for each NIC and this side %d; give both sides the same --qp", h.Queues, mine.Queues)
	case !word(h.Memory) || h.Memory == "":
		err = malformed("memory called %.64q", h.Memory)
	case !word(h.Fabric) || (h.Fabric == "") != (mine.Fabric == ""):
		err = malformed("a fabric called %.64q", h.Fabric)
	}
	if err != nil {
		return hello{}, err
	}
	return h, nil
}
