package exchange

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/rdmacm"
)

// sameDevice tells whether the kernel chose the device that the queue pairs are
// on: two devices on one interface share its addresses.
func sameDevice(dev *verbs.Device, chosen rdmacm.Device, addr netip.Addr) error {
	want := dev.Info().Index
	if want < 0 || chosen.Index < 0 || want == chosen.Index {
		return nil
	}
	return &Error{Err: ErrMismatch, Detail: fmt.Sprintf(
		"the RDMA CM takes address %v to be of RDMA device %d, but the queue pairs are on %s, which is %d: keep one RDMA device an interface, see: rdma link",
		addr, chosen.Index, dev.Name(), want)}
}

// addrOf is the IP address in a net.Addr, if there is one.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// address is an address of the device's interface: the one nearest to another
// address, and an IPv4 one rather than IPv6 where there is none.
func (o Options) address(dev *verbs.Device, near netip.Addr) (netip.Addr, error) {
	if o.Address.IsValid() {
		return o.Address, nil
	}
	prefixes, err := interfacePrefixes(dev)
	if err != nil {
		return netip.Addr{}, err
	}
	best, ok := nearest(prefixes, near)
	if !ok {
		return netip.Addr{}, &Error{Err: ErrNoDevice, Detail: fmt.Sprintf(
			"the network interface of %s has no IP address, which the RDMA CM needs; give it one with: ip addr add", dev.Name())}
	}
	return best, nil
}

// nearest chooses by, in this order: the address itself, its subnet, its
// family, IPv4, not link-local.
func nearest(prefixes []netip.Prefix, near netip.Addr) (best netip.Addr, ok bool) {
	most := -1
	for _, p := range prefixes {
		a := p.Addr()
		score := 0
		for i, yes := range []bool{
			!a.IsLinkLocalUnicast(),
			a.Is4(),
			near.IsValid() && a.Is4() == near.Is4(),
			near.IsValid() && p.Contains(near),
			a == near,
		} {
			if yes {
				score |= 1 << i
			}
		}
		if score > most {
			best, most = a, score
		}
	}
	return best, most >= 0
}

// interfacePrefixes are the addresses of the network interfaces that a device
// sits on. The kernel names the interface with the GID; where it does not, the
// GID of an iWARP port begins with the interface's hardware address.
func interfacePrefixes(dev *verbs.Device) ([]netip.Prefix, error) {
	gids, err := dev.GIDs(1)
	if err != nil {
		return nil, err
	}
	for port := 2; err == nil; port++ { // ends at the port that is not there
		var more []verbs.GIDEntry
		more, err = dev.GIDs(port)
		gids = append(gids, more...)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, ifi := range interfaces {
		if ifi.Flags&net.FlagUp == 0 || !slices.ContainsFunc(gids, func(g verbs.GIDEntry) bool { return sitsOn(g, ifi) }) {
			continue
		}
		addrs, err := ifi.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if p, ok := prefixOf(a); ok {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

func sitsOn(g verbs.GIDEntry, ifi net.Interface) bool {
	if g.IfIndex != 0 {
		return g.IfIndex == ifi.Index
	}
	return len(ifi.HardwareAddr) == 6 && bytes.Equal(g.GID[:6], ifi.HardwareAddr)
}

// prefixOf leaves IPv6 link-local addresses out: they mean nothing without an
// interface, and the peer's interfaces are not ours.
func prefixOf(a net.Addr) (netip.Prefix, bool) {
	n, ok := a.(*net.IPNet)
	if !ok {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	ip = ip.Unmap()
	if !ok || ip.Is6() && ip.IsLinkLocalUnicast() {
		return netip.Prefix{}, false
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(ip, ones), true
}
