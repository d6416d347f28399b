package transfer

import (
	"net"
	"os"
	"strconv"

	"github.com/peerdirect/peerdirect/verbs/exchange"
	"golang.org/x/sys/unix"
)

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// traffic is what a control connection carried each way, as the kernel counts
// it: the claim that no page went this way is worth what its count is worth.
// The connection does not hand out its socket, so it is looked for by its
// addresses among this process's descriptors.
func traffic(conn *exchange.Conn) (sent, received uint64) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, 0
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || !joins(fd, conn.LocalAddr(), conn.RemoteAddr()) {
			continue
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			continue
		}
		sent, received = info.Bytes_sent-info.Bytes_retrans, info.Bytes_received
		if info.State == unix.BPF_TCP_CLOSE_WAIT && received > 0 {
			received-- // the kernel counts the end as a byte
		}
		return sent, received
	}
	return 0, 0
}

// joins tells whether a descriptor is the TCP socket between two addresses.
func joins(fd int, local, remote net.Addr) bool {
	name, err := unix.Getsockname(fd)
	if err != nil || !same(name, local) {
		return false
	}
	peer, err := unix.Getpeername(fd)
	return err == nil && same(peer, remote)
}

func same(sa unix.Sockaddr, addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return sa.Port == tcp.Port && tcp.IP.Equal(sa.Addr[:])
	case *unix.SockaddrInet6:
		return sa.Port == tcp.Port && tcp.IP.Equal(sa.Addr[:])
	}
	return false
}
