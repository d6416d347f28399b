package peer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Protocol is the version of what the two sides say to each other.
const Protocol = 1

// Types of the control connection's frames. Every message but a link's offer is of
// typeMessage.
const (
	typeMessage control.Type = 0x7100 + iota
	typeLink
)

// message is what one side tells the other; which fields count depends on the kind.
type message struct {
	Protocol int    `json:"protocol"`
	Kind     kind   `json:"kind"`
	Step     Name   `json:"step,omitempty"`
	NIC      *NIC   `json:"nic,omitempty"`    // hello
	Seed     uint64 `json:"seed,omitempty"`   // hello of the dialler: of all patterns
	Offer    []byte `json:"offer,omitempty"`  // word of keys: the rail's
	Region   *place `json:"region,omitempty"` // word of keys
	Probe    *probe `json:"probe,omitempty"`  // word of mtu
	Round    int    `json:"round,omitempty"`  // word: so many writes were looked at and are whole

	Error    *said    `json:"error,omitempty"` // hello, done, failed
	Evidence []string `json:"evidence,omitempty"`
	Figures  []Figure `json:"figures,omitempty"` // done
}

type kind string

const (
	kindHello  kind = "hello"
	kindBegin  kind = "begin"  // dialler
	kindWord   kind = "word"   // both
	kindDone   kind = "done"   // listener
	kindFailed kind = "failed" // dialler
	kindBye    kind = "bye"    // dialler
)

// place is a region of memory as a peer may write it.
type place struct {
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
	Key    uint32 `json:"key"`
}

// said is an error as it is told to the other side.
type said struct {
	Text   string         `json:"text"`
	Class  exchange.Class `json:"class"`
	Remedy string         `json:"remedy,omitempty"`
}

// Bounds of what a message may say.
const (
	maxMessage  = 256 << 10
	maxText     = 1024
	maxWord     = 256
	maxEvidence = 32 // lines
	maxFigures  = 32
	maxRound    = 1 << 20
)

// ErrProtocol: what the peer sent is not this protocol, or breaks its rules.
var ErrProtocol = errors.New("the peer does not speak this protocol")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// bytes is the message as it is sent.
func (m *message) bytes() ([]byte, error) {
	m.Protocol = Protocol
	if len(m.Evidence) > maxEvidence {
		m.Evidence = append(m.Evidence[:maxEvidence-1:maxEvidence-1], "…")
	}
	for i, e := range m.Evidence {
		m.Evidence[i] = plain(e)
	}
	if e := m.Error; e != nil {
		e.Text, e.Remedy = plain(e.Text), plain(e.Remedy)
	}
	return json.Marshal(m)
}

// readMessage reads what a peer sent, and checks all of it. The version is looked at
// first: a message of another one need not make sense.
func readMessage(b []byte) (m message, err error) {
	if len(b) > maxMessage {
		return message{}, malformed("a message of %d bytes", len(b))
	}
	var version struct {
		Protocol *int `json:"protocol"`
	}
	if err := json.Unmarshal(b, &version); err != nil || version.Protocol == nil {
		return message{}, malformed("a message without a version: %.64q", b)
	}
	if v := *version.Protocol; v != Protocol {
		return message{}, fmt.Errorf("%w: the peer speaks version %d of the doctor's protocol and this side version %d", exchange.ErrVersion, v, Protocol)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return message{}, malformed("a message that cannot be read: %s", plain(err.Error()))
	}
	if _, err := d.Token(); err != io.EOF {
		return message{}, malformed("more than one message at once")
	}
	return m, m.check()
}

func (m *message) check() error {
	known := m.Step == "" || slices.Contains(steps[:], m.Step)
	switch m.Kind {
	case kindHello:
		if m.NIC == nil {
			return malformed("a hello without a NIC")
		}
		if err := m.NIC.check(); err != nil {
			return err
		}
	case kindBegin, kindWord, kindDone, kindFailed:
		known = known && m.Step != ""
	case kindBye:
	default:
		return malformed("a message of kind %.32q", string(m.Kind))
	}
	switch {
	case !known:
		return malformed("a %s of step %.32q", m.Kind, string(m.Step))
	case len(m.Offer) > transfer.MaxOffer:
		return malformed("an offer of %d bytes", len(m.Offer))
	case m.Region != nil && m.Region.Addr+m.Region.Length < m.Region.Addr:
		return malformed("a region of %d bytes from %#x on", m.Region.Length, m.Region.Addr)
	case m.Round < 0 || m.Round > maxRound:
		return malformed("round %d", m.Round)
	case len(m.Evidence) > maxEvidence || len(m.Figures) > maxFigures:
		return malformed("%d lines of evidence and %d figures", len(m.Evidence), len(m.Figures))
	case m.Kind == kindFailed && m.Error == nil:
		return malformed("a failure without an error")
	}
	for i, e := range m.Evidence {
		m.Evidence[i] = plain(e)
	}
	for _, f := range m.Figures {
		if !word(f.Name) || !word(f.Unit) || f.Name == "" {
			return malformed("a figure called %.64q", f.Name)
		}
	}
	if e := m.Error; e != nil {
		if e.Text = plain(e.Text); e.Text == "" {
			return malformed("an error without a text")
		}
		e.Remedy = plain(e.Remedy)
	}
	if m.Probe != nil {
		return m.Probe.check()
	}
	return nil
}

// check looks whether a NIC that a peer describes could be one.
func (n *NIC) check() error {
	for _, s := range []*string{&n.Version, &n.Host, (*string)(&n.Kind), &n.Device, &n.Transport, &n.LinkLayer, &n.GID, &n.Netdev, &n.Fabric} {
		if len(*s) > maxWord || strings.ContainsFunc(*s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return malformed("a NIC described by %.64q", *s)
		}
	}
	if a, err := netip.ParseAddr(n.Address); n.Address != "" && (err != nil || a.Zone() != "") { // a zone is its own machine's
		return malformed("a NIC at the address %.64q", n.Address)
	}
	if n.MTU < 0 || n.MTU > 1<<20 || n.NetdevMTU < 0 || n.NetdevMTU > 1<<20 || n.Port < 0 || n.GIDIndex < 0 || n.Device == "" {
		return malformed("a NIC %q of port %d, GID index %d, MTU %d", n.Device, n.Port, n.GIDIndex, n.MTU)
	}
	return nil
}

// word tells whether a peer may call something so.
func word(s string) bool {
	return len(s) <= maxWord && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// plain makes a text harmless on a terminal: one line, no control characters, and not
// too long.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
