package verbs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// GID is a 128-bit port address; for RoCE v2 it is an IPv6 address, or an IPv4
// one mapped into it.
type GID [16]byte

// IsZero tells an unused table entry.
func (g GID) IsZero() bool { return g == GID{} }

// Addr is the GID read as an IP address, IPv4 where it is a mapped one.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String prints eight groups of four hexadecimal digits, as sysfs does.
func (g GID) String() string {
	var b strings.Builder
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02x%02x", g[i], g[i+1])
	}
	return b.String()
}

// MarshalText prints the GID as String does.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads any form of an IPv6 address.
func (g *GID) UnmarshalText(text []byte) error {
	a, err := netip.ParseAddr(string(text))
	if err != nil || a.Zone() != "" {
		return fmt.Errorf("%q is no GID", text)
	}
	*g = a.As16()
	return nil
}

// GIDType is the protocol that a GID entry selects (enum ibv_gid_type).
type GIDType uint32

func (t GIDType) String() string {
	switch t {
	case GIDTypeIB:
		return "IB"
	case GIDTypeRoCEv1:
		return "RoCE v1"
	case GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// GIDEntry is one used entry of a port's GID table.
type GIDEntry struct {
	GID     GID
	Port    int
	Index   int
	Type    GIDType
	IfIndex int // netdev's interface index, 0 without one
}

// NetDev is the name of the entry's network interface, "" without one.
func (e GIDEntry) NetDev() string {
	if e.IfIndex == 0 {
		return ""
	}
	ifi, err := net.InterfaceByIndex(e.IfIndex)
	if err != nil {
		return ""
	}
	return ifi.Name
}

var errEmptyGID = errors.New("empty entry")

// BestGIDOf chooses the entry that a routable connection wants: RoCE v2 before
// v1, IPv4 before IPv6, global before link-local, the first among equals. It is
// false without any.
func BestGIDOf(entries []GIDEntry) (best GIDEntry, ok bool) {
	for i, e := range entries {
		if i == 0 || gidRank(e) > gidRank(best) {
			best = e
		}
	}
	return best, len(entries) > 0
}

func gidRank(e GIDEntry) int {
	rank := 0
	if e.Type == GIDTypeRoCEv2 {
		rank += 4
		if e.GID.Addr().Is4() {
			rank += 2
		}
	}
	if !e.GID.Addr().IsLinkLocalUnicast() {
		rank++
	}
	return rank
}

const (
	GIDTypeIB GIDType = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)
