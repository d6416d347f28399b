package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// echo asks a machine to answer an ICMP echo request, as ping does. told is what came
// of it, for people.
func echo(ctx context.Context, to netip.Addr, limit time.Duration) (alive bool, told string) {
	c, raw, err := echoSocket(to)
	if err != nil {
		return false, fmt.Sprintf("this process may send no echo request (%v)", errnoOf(err))
	}
	defer c.Close()
	end := time.Now().Add(limit)
	if t, ok := ctx.Deadline(); ok && t.Before(end) {
		end = t
	}
	c.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request, answer := byte(8), byte(0)
	if to.Is6() && !to.Is4In6() {
		request, answer = 128, 129
	}
	id := uint16(os.Getpid())
	b := binary.BigEndian.AppendUint16([]byte{request, 0, 0, 0}, id)
	b = binary.BigEndian.AppendUint16(b, 1)
	if to.Unmap().Is4() { // the kernel has the other family's
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	var at net.Addr = &net.UDPAddr{IP: to.Unmap().AsSlice(), Zone: to.Zone()}
	if raw {
		at = &net.IPAddr{IP: to.Unmap().AsSlice(), Zone: to.Zone()}
	}
	if _, err := c.WriteTo(b, at); err != nil {
		return false, fmt.Sprintf("an echo request cannot be sent (%v)", errnoOf(err))
	}
	buf := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return false, "no echo request is answered either"
		}
		if m := buf[:n]; isEcho(m, answer, id, raw) && addrOf(from) == to.Unmap().WithZone("") {
			return true, "an echo request is answered"
		}
	}
}

// echoSocket opens a socket for echo requests: of the kind that the group may have, or
// else a raw one.
func echoSocket(to netip.Addr) (c net.PacketConn, raw bool, err error) {
	family, proto := unix.AF_INET6, unix.IPPROTO_ICMPV6
	if to.Unmap().Is4() {
		family, proto = unix.AF_INET, unix.IPPROTO_ICMP
	}
	for _, typ := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW} {
		var fd int
		if fd, err = unix.Socket(family, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto); err != nil {
			continue
		}
		f := os.NewFile(uintptr(fd), "icmp")
		c, err = net.FilePacketConn(f)
		f.Close()
		if err == nil {
			return c, typ == unix.SOCK_RAW, nil
		}
	}
	return nil, false, err
}

// isEcho tells whether a packet is the answer. A raw socket gets everybody's; the others
// have an id of the kernel's.
func isEcho(b []byte, answer byte, id uint16, raw bool) bool {
	return len(b) >= 8 && b[0] == answer && (!raw || binary.BigEndian.Uint16(b[4:]) == id)
}

func addrOf(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.UDPAddr:
		ip = a.IP
	case *net.IPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// checksum is the Internet's (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
