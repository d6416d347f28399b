package inventory

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/nldev"
)

func (p *Port) sysfs(s dir, iw bool) {
	if n := s.code("state"); n != nil {
		p.State = new(nldev.PortState(*n).String())
	}
	if n := s.code("phys_state"); n != nil {
		p.PhysicalState = new(nldev.PhysState(*n).String())
	}
	p.LinkLayer = s.text("link_layer")
	p.LID = s.hex("lid", 4)
	p.SMLID = s.hex("sm_lid", 4)
	p.LMC = s.int("lid_mask_count")
	p.SMSL = s.int("sm_sl")
	if n := s.number("cap_mask"); n != nil {
		p.Capabilities = portCaps(uint32(*n))
	}
	p.rate(s.text("rate"))
	gids := s.list("gids")
	p.GIDTable = new(len(gids))
	p.gids(s, iw)
	pkeys := s.list("pkeys")
	p.PKeyTable = new(len(pkeys))
	p.PKeys = []PKey{}
	for _, name := range pkeys {
		index, err := strconv.Atoi(name)
		if k := s.hex("pkeys/"+name, 4); k != nil && err == nil && k.Value != 0 {
			p.PKeys = append(p.PKeys, PKey{Index: index, PKey: *k})
		}
	}
}

// iwarp is the node type whose GIDs are only names.
const iwarp = "rnic"

// gids reads the used entries of the port's GID table.
func (p *Port) gids(s dir, iw bool) {
	p.GIDs = []GID{}
	for _, name := range s.list("gids") {
		index, err := strconv.Atoi(name)
		text := s.text("gids/" + name)
		if err != nil || text == nil {
			continue
		}
		addr, err := netip.ParseAddr(*text)
		if err != nil || addr == netip.IPv6Unspecified() {
			continue
		}
		g := newGID(index, addr)
		g.Netdev = s.text("gid_attrs/ndevs/" + name)
		// The kernel has one word for IB and RoCE v1; the link layer decides.
		if t := s.text("gid_attrs/types/" + name); t != nil {
			switch {
			case iw: // the kernel says IB/RoCE v1 of what is neither
			case *t == "IB/RoCE v1" && p.LinkLayer != nil && *p.LinkLayer == "InfiniBand":
				g.Type = new("IB")
			case *t == "IB/RoCE v1" && p.LinkLayer != nil && *p.LinkLayer == "Ethernet":
				g.Type = new("RoCE v1")
			default:
				g.Type = t
			}
		}
		p.GIDs = append(p.GIDs, g)
	}
	if p.Netdev == nil && len(p.GIDs) > 0 {
		p.Netdev = p.GIDs[0].Netdev
	}
}

// rate reads "100 Gb/sec (4X EDR)".
func (p *Port) rate(s *string) {
	if s == nil {
		return
	}
	number, rest, _ := strings.Cut(*s, " ")
	if gbps, err := strconv.ParseFloat(number, 64); err == nil && gbps > 0 {
		p.Rate = new(int(gbps * 1000))
	}
	if _, how, ok := strings.Cut(rest, "("); ok {
		width, speed, _ := strings.Cut(strings.TrimSuffix(how, ")"), " ")
		if n, err := strconv.Atoi(strings.TrimSuffix(width, "X")); err == nil {
			p.Width = &n
		}
		if speed != "" {
			p.SpeedName = &speed
		}
	}
	if p.Rate != nil && p.Width != nil && *p.Width > 0 {
		p.LaneRate = new(*p.Rate / *p.Width)
	}
}

func portCaps(v uint32) *Flags { return flags(uint64(v), 8, verbs.PortCaps(v).String()) }
