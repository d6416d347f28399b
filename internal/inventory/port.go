package inventory

import (
	"fmt"
	"net/netip"

	"github.com/peerdirect/peerdirect/verbs"
)

// Port is a port of a device.
type Port struct {
	Number         int     `json:"port"`
	State          *string `json:"state"`          // DOWN, INIT, ARMED, ACTIVE
	PhysicalState  *string `json:"physical_state"` // LINK_UP, DISABLED, POLLING
	LinkLayer      *string `json:"link_layer"`     // InfiniBand, Ethernet, Unspecified
	Netdev         *string `json:"netdev" nil:"none"`
	NetdevIndex    *int    `json:"netdev_index" nil:"none"`
	Rate           *int    `json:"rate_mbps"` // signalling, all lanes
	EffectiveRate  *int    `json:"effective_rate_mbps"`
	LaneRate       *int    `json:"lane_rate_mbps"`
	Width          *int    `json:"width_lanes"`
	SpeedName      *string `json:"speed"` // SDR, EDR, HDR
	MaxMTU         *int    `json:"max_mtu_bytes"`
	ActiveMTU      *int    `json:"active_mtu_bytes"`
	MaxMessage     *uint64 `json:"max_message_bytes"`
	LID            *Hex    `json:"lid"`
	SMLID          *Hex    `json:"sm_lid"`
	LMC            *int    `json:"lmc"`
	SMSL           *int    `json:"sm_sl"`
	SubnetPrefix   *string `json:"subnet_prefix"`
	SubnetTimeout  *int    `json:"subnet_timeout"` // code: 4.096 us * 2^code
	InitTypeReply  *int    `json:"init_type_reply"`
	VirtualLanes   *int    `json:"virtual_lane_count"`
	BadPKeys       *uint32 `json:"bad_pkey_count"`
	QKeyViolations *uint32 `json:"qkey_violation_count"`
	Capabilities   *Flags  `json:"capabilities"`
	Capabilities2  *Flags  `json:"capabilities2"`
	Flags          *Hex    `json:"flags"`
	PKeyTable      *int    `json:"pkey_table_length"`
	PKeys          []PKey  `json:"pkeys" group:"Partition keys"`
	GIDTable       *int    `json:"gid_table_length"`
	BestGID        *int    `json:"best_gid_index" nil:"none"` // for a routable connection
	GIDs           []GID   `json:"gids" group:"GIDs"`
}

// PKey is a used entry of a port's partition key table.
type PKey struct {
	Index int `json:"index"`
	PKey  Hex `json:"pkey"`
}

// GID is a used entry of a port's GID table.
type GID struct {
	Index   int     `json:"index"`
	GID     string  `json:"gid"`
	Address string  `json:"address"` // the GID in the form of an IP address
	Type    *string `json:"type"`    // IB, RoCE v1, RoCE v2
	Netdev  *string `json:"netdev" nil:"none"`
}

func newGID(index int, addr netip.Addr) GID {
	full := netip.AddrFrom16(addr.As16()).StringExpanded()
	if addr.Is4In6() {
		b := addr.As16()
		full = fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", b[12], b[13], b[14], b[15])
	}
	return GID{Index: index, GID: full, Address: addr.Unmap().String()}
}

// choose marks the GID that a routable connection wants.
func (p *Port) choose() {
	entries := make([]verbs.GIDEntry, 0, len(p.GIDs))
	for _, g := range p.GIDs {
		e := verbs.GIDEntry{Index: g.Index}
		if or(g.Type, "") == verbs.GIDTypeRoCEv2.String() {
			e.Type = verbs.GIDTypeRoCEv2
		}
		if e.GID.UnmarshalText([]byte(g.GID)) == nil {
			entries = append(entries, e)
		}
	}
	if best, ok := verbs.BestGIDOf(entries); ok {
		p.BestGID = &best.Index
	}
}

// gid is the best GID, nil without one.
func (p *Port) gid() *GID {
	for i, g := range p.GIDs {
		if p.BestGID != nil && g.Index == *p.BestGID {
			return &p.GIDs[i]
		}
	}
	return nil
}
