package peer

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// overhead is what a RoCE v2 packet has beside its payload, in bytes above IP: UDP, and
// at most BTH, RETH, immediate and ICRC.
const overhead = 8 + 12 + 16 + 4 + 4

// maxPacket is the largest that IP's length field can tell, in bytes.
const maxPacket = 1<<16 - 1

// ipHeader is the size of an address's.
func ipHeader(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 20
	}
	return 40
}

// addresses are those that the two NICs' packets go between; ok is false where they
// are not IP's.
func (r *run) addresses() (here, there netip.Addr, ok bool) {
	here, err := netip.ParseAddr(r.result.Local.Address)
	there, err2 := netip.ParseAddr(r.result.Remote.Address)
	if err != nil || err2 != nil || here.Is4() != there.Is4() {
		return here, there, false
	}
	zone := func(a netip.Addr) netip.Addr {
		if a.IsLinkLocalUnicast() && a.Is6() {
			return a.WithZone(r.result.Local.Netdev)
		}
		return a
	}
	return zone(here), zone(there), true
}

// largest is the IP packet that the two NICs send each other, in bytes.
func (r *run) largest(here netip.Addr) int {
	if r.result.Local.Transport == transfer.IWARP {
		// TCP's segments are as large as the smaller interface allows, which lo's
		// MTU, 65536, does of more than a packet can have.
		return min(r.result.Local.NetdevMTU, r.result.Remote.NetdevMTU, maxPacket)
	}
	return sameMTU(&r.result.Local, &r.result.Remote) + overhead + ipHeader(here)
}

// mtuKnown is both sides' part: what is known without a packet.
func (r *run) mtuKnown(st *Step) {
	a, b := &r.result.Local, &r.result.Remote
	st.Summary = fmt.Sprintf("the NICs use %d bytes", sameMTU(a, b))
	if a.MTU != b.MTU {
		st.warn(fmt.Sprintf("this side's MTU is %d bytes and the other's %d: both use the smaller", a.MTU, b.MTU),
			fmt.Sprintf("give both interfaces the same MTU; they have %d (%s) and %d (%s)", a.NetdevMTU, a.Netdev, b.NetdevMTU, b.Netdev))
	}
	here, there, ok := r.addresses()
	if !ok {
		return
	}
	r.routeKnown(st, here, there)
}

// routeOptions asks for the way between two addresses. A link-local one of IPv6 is on
// every interface: without the zone's the kernel takes any.
func routeOptions(here, there netip.Addr) *netlink.RouteGetOptions {
	return &netlink.RouteGetOptions{SrcAddr: here.AsSlice(), Oif: there.Zone()}
}

// routeKnown says which way the kernel sends packets to the peer's NIC, and how large.
func (r *run) routeKnown(st *Step, here, there netip.Addr) {
	list, err := netlink.RouteGetWithOptions(there.AsSlice(), routeOptions(here, there))
	if err != nil || len(list) == 0 {
		st.warn(fmt.Sprintf("this machine has no route from %v to %v: %v", here, there, errnoOf(err)), fmt.Sprintf("see: ip route get %v from %v", there, here))
		return
	}
	route, n := list[0], &r.result.Local
	if route.Type == unix.RTN_LOCAL {
		st.saw(fmt.Sprintf("%v is this machine's own address", there))
		return
	}
	name := fmt.Sprintf("interface %d", route.LinkIndex)
	if ifi, err := net.InterfaceByIndex(route.LinkIndex); err == nil {
		name = ifi.Name
	}
	by := ""
	if route.Gw != nil {
		by = fmt.Sprintf(" by %v", route.Gw)
	}
	st.saw(fmt.Sprintf("%s: %v to %v goes out by %s%s", n.Host, here, there, name, by))
	if name != n.Netdev {
		st.warn(fmt.Sprintf("packets from %v to %v go out by %s, and the NIC is on %s", here, there, name, n.Netdev),
			fmt.Sprintf("choose the NIC on %s (--device), a GID of that network (--gid-index), or change the route: ip route get %v from %v", name, there, here))
	}
	known, err := pathMTU(here, there)
	switch need := r.largest(here); {
	case err != nil:
		st.saw(fmt.Sprintf("what the kernel knows of the path's MTU: %v", errnoOf(err)))
	case known < need && n.Transport != transfer.IWARP:
		st.warn(fmt.Sprintf("the kernel knows a path of %d bytes to %v, and the NICs' packets have %d", known, there, need),
			fmt.Sprintf("see: ip route get %v; a smaller MTU of the interface makes the NIC's smaller: ip link set dev %s mtu BYTES", there, n.Netdev))
	default:
		st.saw(fmt.Sprintf("%s: the kernel knows a path of %d bytes", n.Host, known))
	}
}

// pathMTU is what the kernel knows of the way to an address, bytes.
func pathMTU(here, there netip.Addr) (mtu int, err error) {
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(here, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(there, 9)))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	level, option := unix.IPPROTO_IPV6, unix.IPV6_MTU
	if here.Is4() {
		level, option = unix.IPPROTO_IP, unix.IP_MTU
	}
	if e := raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), level, option) }); e != nil {
		err = e
	}
	return mtu, err
}

// mtuAnswer is the listener's part: it answers probes until the dialler has enough.
func (r *run) mtuAnswer(ctx context.Context, st *Step) error {
	r.mtuKnown(st)
	var own *responder
	word := message{Kind: kindWord, Step: StepMTU}
	if here, there, ok := r.addresses(); ok {
		var err error
		if own, err = newResponder(ctx, here, there, max(probeSize, r.largest(here)-8-ipHeader(here))); err != nil {
			st.saw(fmt.Sprintf("no probes can be answered on %v: %v", here, errnoOf(err)))
		} else {
			defer own.close()
			word.Probe = own.where()
		}
	}
	if err := r.tell(word); err != nil {
		return err
	}
	_, err := r.hear(ctx, kindWord, StepMTU)
	if own != nil {
		own.close()
		if own.largest > 0 {
			here, _, _ := r.addresses()
			st.saw(fmt.Sprintf("%s: the largest probe that came had %d bytes", r.result.Local.Host, own.largest+8+ipHeader(here)))
		}
		if own.failed != nil {
			st.saw(own.failed.Error())
		}
	}
	return err
}

// mtuProbe is the dialler's part: it sends packets as large as the NICs', and looks
// for the largest that passes if they do not.
func (r *run) mtuProbe(ctx context.Context, st *Step) error {
	r.mtuKnown(st)
	m, err := r.hear(ctx, kindWord, StepMTU)
	if err != nil {
		return err
	}
	here, there, ok := r.addresses()
	switch {
	case !ok:
		st.saw("nothing is probed: the NICs' packets are not IP's, or of addresses that are not known here; large-write tests them")
	case m.Probe == nil:
		st.saw("nothing is probed: the other side answers none")
	default:
		if err := r.probes(ctx, st, here, there, m.Probe); err != nil {
			return err
		}
	}
	return r.tell(message{Kind: kindWord, Step: StepMTU})
}
