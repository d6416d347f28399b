package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// reach finds the peer's addresses, and connects to the first that answers.
func (r *run) reach(ctx context.Context, st *Step, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fault("an address is HOST, HOST:PORT or [IPv6]:PORT", err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, unresolved(host, err)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		st.saw(fmt.Sprintf("%s is %v", host, addrs))
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, fault("name a port by its number; a listener's is "+DefaultPort+" unless it was given another", err)
	}
	deadline, _ := ctx.Deadline()
	var first error
	for i, a := range addrs {
		a = a.Unmap()
		// Time for the others is left, and for a look why nothing answers.
		left := time.Until(deadline) / time.Duration(len(addrs)-i+1)
		c, took, err := dialOnce(ctx, netip.AddrPortFrom(a, uint16(number)), left)
		if err != nil {
			to := netip.AddrPortFrom(a, uint16(number))
			err = unreached(to, left, err, func() (bool, string) { return echo(ctx, a, min(left, 2*time.Second)) })
			if ctx.Err() != nil {
				return nil, err
			}
			if len(addrs) > 1 {
				st.saw(plain(err.Error()))
			}
			if first == nil {
				first = err
			}
			continue
		}
		local := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		ifi := interfaceOf(local)
		st.Summary = fmt.Sprintf("%v answers, from %v on %s", netip.AddrPortFrom(a, uint16(number)), local, ifi)
		st.figure("tcp-connect", float64(took.Nanoseconds())/1e3, "us")
		if n := r.result.Local.Netdev; n != "" && ifi != "" && ifi != n {
			st.saw(fmt.Sprintf("TCP goes by %s and the NIC's packets by %s: the steps from mtu on test the latter", ifi, n))
		}
		return c, nil
	}
	return nil, first
}

func dialOnce(ctx context.Context, to netip.AddrPort, limit time.Duration) (net.Conn, time.Duration, error) {
	begin := time.Now()
	d := net.Dialer{Timeout: limit, KeepAlive: -1}
	c, err := d.DialContext(ctx, "tcp", to.String())
	return c, time.Since(begin), err
}

// unresolved says why a name has no address.
func unresolved(host string, err error) error {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return err
	case dns.IsNotFound:
		return fault("see: getent hosts "+plain(host)+"; or give the address itself", fmt.Errorf("no address: the name %q does not exist, or has no address", host))
	case dns.IsTimeout:
		return fault("the name servers of /etc/resolv.conf do not answer: give the address itself", fmt.Errorf("no address: nobody answered in time what %q is", host))
	}
	return fault("see /etc/resolv.conf and /etc/nsswitch.conf, or give the address itself", fmt.Errorf("no address for %q: %s", host, dns.Err))
}

// unreached says what a failed connection means. Where that is not clear, an echo
// request tells a machine that is not there from a port that is filtered.
func unreached(to netip.AddrPort, limit time.Duration, err error, echo func() (alive bool, told string)) error {
	const (
		start  = "start it there: peerdirect doctor --listen ADDRESS, with an address that this machine reaches, and without one it is the loopback address alone"
		filter = "let TCP to the listener's port pass: nft list ruleset on both machines, security groups and access lists between"
	)
	is := func(list ...syscall.Errno) bool {
		for _, e := range list {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
	switch {
	case is(syscall.ECONNREFUSED):
		return fault(start, fmt.Errorf("refused: the machine %v is there, and nobody listens on port %d: %w", to.Addr(), to.Port(), syscall.ECONNREFUSED))
	case is(syscall.EACCES, syscall.EPERM):
		return fault("look at this machine's own rules: nft list ruleset", fmt.Errorf("filtered here: this machine's firewall lets nothing go to %v: %w", to, errnoOf(err)))
	case is(syscall.ENETUNREACH):
		return fault("see: ip route get "+to.Addr().String(), fmt.Errorf("unreachable: there is no route to %v: %w", to.Addr(), syscall.ENETUNREACH))
	case is(syscall.EINVAL, syscall.EADDRNOTAVAIL):
		return fault("see: ip addr; a link-local address needs its interface, as fe80::1%eth0", fmt.Errorf("unreachable: %v cannot be reached from an address of this machine: %w", to.Addr(), errnoOf(err)))
	case !is(syscall.EHOSTUNREACH, syscall.ETIMEDOUT) && !isTimeout(err):
		return err
	}
	alive, told := echo()
	switch {
	case alive && is(syscall.EHOSTUNREACH):
		return fault(filter, fmt.Errorf("filtered: %v answers an echo request, and connections to port %d are rejected: %w", to.Addr(), to.Port(), syscall.EHOSTUNREACH))
	case alive:
		return fault(filter, fmt.Errorf("filtered: %v answers an echo request, and nothing that is sent to port %d: %w", to.Addr(), to.Port(), syscall.ETIMEDOUT))
	case is(syscall.EHOSTUNREACH):
		return fault("is the machine up, in that network, with that address? See: ip neigh; ip route get "+to.Addr().String(),
			fmt.Errorf("unreachable: nobody has the address %v, or a router or firewall says so: %w", to.Addr(), syscall.EHOSTUNREACH))
	}
	return fault("is the machine up, and its address right? If it is, "+filter,
		fmt.Errorf("timeout: nothing answers at %v in %v, and %s: %w", to, limit.Round(time.Millisecond), told, syscall.ETIMEDOUT))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func errnoOf(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}
