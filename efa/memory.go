package efa

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// GID is a device's 128-bit address, in the byte order it is printed in.
type GID [16]byte

// String prints the GID as an IPv6 address.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// IsZero tells whether no GID is set.
func (g GID) IsZero() bool { return g == GID{} }

// MarshalText prints the GID as String does.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads an IPv6 address, or 32 hexadecimal digits.
func (g *GID) UnmarshalText(b []byte) error {
	if len(b) == 2*len(g) {
		if _, err := hex.Decode(g[:], b); err == nil {
			return nil
		}
	}
	a, err := netip.ParseAddr(string(b))
	if err != nil || !a.Is6() || a.Zone() != "" {
		return fmt.Errorf("%q is no GID: it takes an IPv6 address", b)
	}
	*g = a.As16()
	return nil
}

// Access is what a memory region allows (enum ibv_access_flags, those that EFA
// has).
type Access uint32

const (
	LocalWrite  Access = 1 << 0 // receives and reads may write here
	RemoteWrite Access = 1 << 1 // peers may write here
	RemoteRead  Access = 1 << 2 // peers may read here
)

func (a Access) String() string {
	return bitNames(uint64(a), "LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ")
}

// bitNames prints a set of flags by name, from bit 0 on; bits without a name as
// a number.
func bitNames(v uint64, names ...string) string {
	if v == 0 {
		return "none"
	}
	var out []string
	for i, name := range names {
		if v&(1<<i) != 0 {
			out = append(out, name)
			v &^= 1 << i
		}
	}
	if v != 0 {
		out = append(out, fmt.Sprintf("%#x", v))
	}
	return strings.Join(out, "|")
}

// Slice is a piece of a local region, as a work request names it.
type Slice struct {
	Addr   uint64
	Length uint32
	LKey   uint32 // 24 bits; more mark a piece outside its region
}

// badKey in a key marks a piece outside its region.
const badKey = 1 << 31

// RemoteRegion is a peer's region as the peer described it.
type RemoteRegion struct {
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
	RKey   uint32 `json:"rkey"`
}

// RemoteSlice is a place in a peer's region. Left is the number of bytes from
// there to the region's end, so that a request over it fails here and not
// there.
type RemoteSlice struct {
	Addr uint64
	Left uint64
	RKey uint32
}

// At is the place offset bytes into the region. A place outside has no bytes
// left.
func (r RemoteRegion) At(offset uint64) RemoteSlice {
	if offset > r.Length {
		return RemoteSlice{RKey: r.RKey}
	}
	return RemoteSlice{Addr: r.Addr + offset, RKey: r.RKey, Left: r.Length - offset}
}
