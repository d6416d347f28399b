package peer

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/peerdirect/peerdirect/transfer"
)

// describe says what this side's NIC is, and which netdev and address its packets have.
func describe(o *Options, i transfer.Info) NIC {
	n := NIC{
		Version: o.Version, Kind: o.Rail.Kind(), Device: i.Device, Port: i.Port, Transport: i.Transport, LinkLayer: i.LinkLayer,
		MTU: i.MTU, GID: i.GID, GIDIndex: i.GIDIndex, Reads: i.Reads, Embedded: i.Embedded,
	}
	n.Host, _ = os.Hostname()
	n.Host = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return '?'
		}
		return c
	}, n.Host)
	if e := transfer.EmbeddedOf(o.Rail); e != nil {
		n.Fabric = e.ID()
		return n
	}
	port := path.Join("sys/class/infiniband", i.Device, "ports", strconv.Itoa(i.Port))
	n.Netdev = text(o.Root, path.Join(port, "gid_attrs/ndevs", strconv.Itoa(i.GIDIndex)))
	if n.Netdev == "" {
		return n
	}
	n.NetdevMTU, _ = strconv.Atoi(text(o.Root, path.Join("sys/class/net", n.Netdev, "mtu")))
	switch {
	case strings.HasPrefix(i.Transport, "RoCE v2"):
		if a, err := netip.ParseAddr(i.GID); err == nil {
			n.Address = a.Unmap().String()
		}
	case i.Transport == transfer.IWARP:
		n.Address = addressOf(n.Netdev)
	}
	return n
}

func text(root fs.FS, name string) string {
	b, _ := fs.ReadFile(root, name)
	return strings.TrimSpace(string(b))
}

// addressOf is the address that the RDMA CM would take of an interface: IPv4 first.
func addressOf(netdev string) (best string) {
	ifi, err := net.InterfaceByName(netdev)
	if err != nil {
		return ""
	}
	list, _ := ifi.Addrs()
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil:
		case p.Addr().Is4():
			return p.Addr().String()
		case best == "" && !p.Addr().IsLinkLocalUnicast():
			best = p.Addr().String()
		}
	}
	return best
}

// interfaceOf is the interface that has an address, "" if none has.
func interfaceOf(a netip.Addr) string {
	list, _ := net.Interfaces()
	for _, ifi := range list {
		addrs, _ := ifi.Addrs()
		for _, x := range addrs {
			if p, err := netip.ParsePrefix(x.String()); err == nil && p.Addr().Unmap() == a.Unmap().WithZone("") {
				return ifi.Name
			}
		}
	}
	return ""
}

// String is a NIC in a line.
func (n *NIC) String() string {
	b := fmt.Sprintf("%s port %d, %s", n.Device, n.Port, n.Transport)
	if n.Embedded {
		b += ", software inside the process"
	}
	b += fmt.Sprintf(", MTU %d", n.MTU)
	if n.GID != "" {
		gid := n.GID
		if a, err := netip.ParseAddr(gid); err == nil {
			gid = a.String() // shorter
		}
		b += fmt.Sprintf(", GID %s (index %d)", gid, n.GIDIndex)
	}
	if n.Netdev != "" {
		b += fmt.Sprintf(", on %s (MTU %d)", n.Netdev, n.NetdevMTU)
	}
	return b
}

// sameMTU bounds what both sides' queue pairs send.
func sameMTU(a, b *NIC) int { return min(a.MTU, b.MTU) }
