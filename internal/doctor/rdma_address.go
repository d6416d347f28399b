package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/peerdirect/peerdirect/internal/inventory"
)

// checkGIDs looks for the address that each port is reached at.
func checkGIDs(ctx context.Context, s *System) []Finding {
	indices := map[int][]string{} // of RoCE ports whose GID is good
	found := s.eachPort(ctx, func(d *inventory.Device, p *inventory.Port) []Finding {
		folder := fmt.Sprintf("%s/ports/%d/gids", classFolder(d.Name), p.Number)
		k := kindOf(d, p)
		switch {
		case k == kindIWARP || value(p.State) != active && p.State != nil:
			return nil // it connects by IP addresses; or it cannot carry anything
		case value(p.GIDTable) == 0 && len(p.GIDs) == 0:
			return []Finding{s.missing(portName(d, p), folder, fs.ErrNotExist)}
		}
		f := Finding{Subject: portName(d, p)}
		if p.Netdev != nil {
			f.Evidence = append(f.Evidence, "network interface "+*p.Netdev)
		}
		s.judgeGID(&f, d, p, k, folder)
		if f.Verdict == OK && k == kindRoCE {
			indices[*p.BestGID] = append(indices[*p.BestGID], portName(d, p))
		}
		return []Finding{f}
	})
	if len(indices) > 1 {
		f := Finding{Verdict: Note, Summary: "the GIDs that connect are not at the same index on all ports: one number for all (NCCL_IB_GID_INDEX) is wrong for some",
			Remedy: "let the library choose by itself, as this one does, or give all interfaces the same kinds of addresses in the same order"}
		for _, i := range slices.Sorted(maps.Keys(indices)) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("index %d: %s", i, strings.Join(indices[i], ", ")))
		}
		found = append(found, f)
	}
	return found
}

// judgeGID chooses a port's GID and says what is wrong with it.
func (s *System) judgeGID(f *Finding, d *inventory.Device, p *inventory.Port, k kind, folder string) {
	give := " ('ip address add ADDRESS/PREFIX dev " + cmpOr(value(p.Netdev), "INTERFACE") + "')"
	if p.BestGID == nil {
		f.Verdict, f.Summary = s.matters(d), "the port is active and has no GID: nothing can connect to it"
		f.Evidence = append(f.Evidence, "/"+folder+": all zero")
		if k == kindRoCE {
			f.Remedy = "give its interface an address and bring it up" + give
		}
		return
	}
	g := p.GIDs[slices.IndexFunc(p.GIDs, func(g inventory.GID) bool { return g.Index == *p.BestGID })]
	f.Evidence = append(f.Evidence, fmt.Sprintf("/%s/%d: %s, %s", folder, g.Index, g.GID, orUnknown(g.Type)))
	f.Summary = fmt.Sprintf("GID index %d, %s", g.Index, g.Address)
	if k != kindRoCE {
		return
	}
	address, _ := netip.ParseAddr(g.Address)
	switch {
	case g.Type == nil:
		f.Verdict, f.Summary = Unknown, "whether a GID is for RoCE v2 is not told"
		f.Evidence = append(f.Evidence, fmt.Sprintf("/%s: no types", strings.TrimSuffix(folder, "gids")+"gid_attrs"))
	case *g.Type != "RoCE v2":
		f.Verdict, f.Summary = s.matters(d), "it has GIDs for RoCE v1 only, which no router passes on and many programs do not take"
		f.Remedy = "set the NIC to RoCE v2 by the vendor's tool or driver; peers must speak the same"
	case address.IsLinkLocalUnicast():
		f.Verdict, f.Summary = s.matters(d), "its only GIDs are link-local: they reach one Ethernet segment, and connection managers find no address"
		f.Remedy = "give its interface an address of the fabric's network" + give
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// roceHeaders are the bytes that RoCE needs of an interface's MTU beside the payload:
// iboe_get_mtu of the kernel (include/rdma/ib_addr.h of 7.3).
const roceHeaders = 40 + 8 + 12 + 4 + 28 + 4

// pathMTU is the MTU of InfiniBand that fits, 0 if none does.
func pathMTU(netMTU int) int {
	for mtu := 4096; mtu >= 256; mtu /= 2 {
		if netMTU-roceHeaders >= mtu {
			return mtu
		}
	}
	return 0
}

// checkMTU compares the path MTU of ports with what they can.
func checkMTU(ctx context.Context, s *System) []Finding {
	return s.eachPort(ctx, func(d *inventory.Device, p *inventory.Port) []Finding {
		k := kindOf(d, p)
		if k == kindIWARP || p.State != nil && *p.State != active {
			return nil // TCP has its own; no link
		}
		netMTU := 0
		for _, n := range d.Netdevs {
			if n.Name == value(p.Netdev) {
				netMTU = value(n.MTU)
			}
		}
		now, most := value(p.ActiveMTU), value(p.MaxMTU)
		f := Finding{Subject: portName(d, p)}
		switch {
		case now > 0:
			f.Evidence = append(f.Evidence, fmt.Sprintf("ibv_query_port: active_mtu %d, max_mtu %d", now, most))
		case k == kindRoCE && netMTU > 0: // files do not tell it
			now, most = pathMTU(netMTU), 4096
			f.Evidence = append(f.Evidence, fmt.Sprintf("by the kernel's rule for RoCE: %d", now))
		default:
			f.missing, f.Evidence = !s.Live, []string{fmt.Sprintf("/%s/ports/%d: no file has it", classFolder(d.Name), p.Number)}
			f.Verdict, f.Summary = Unknown, "the path MTU is not in files; an opened device tells it"
			return []Finding{f}
		}
		if netMTU > 0 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("/sys/class/net/%s/mtu: %d", *p.Netdev, netMTU))
		}
		f.Summary = fmt.Sprintf("path MTU %d", now)
		if now >= most {
			return []Finding{f}
		}
		f.Summary = fmt.Sprintf("the path MTU is %d of %d", now, most)
		f.Verdict = Note
		switch fits := pathMTU(netMTU); {
		case k == kindRoCE && netMTU > 0 && fits < most:
			if f.Summary += fmt.Sprintf(": the interface's MTU is %d, and %d takes %d at least", netMTU, most, most+roceHeaders); !software(d) {
				f.Verdict = s.matters(d)
			}
			f.Remedy = "raise the MTU of the interface, of its peers and of the switches between: 9000 is usual; a smaller one means more packets and more work for NICs"
			f.Commands = []string{fmt.Sprintf("ip link set %s mtu 9000", quote(*p.Netdev))}
		case k == kindInfiniBand:
			f.Remedy = "the subnet manager gives it: look at its partition configuration (mtu=5 is 4096) and at the switches on the way"
		}
		return []Finding{f}
	})
}
