package peer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// probe says where a listener answers probes of the MTU: a word of the step mtu. In a
// probe, a datagram that must not be fragmented, are
//
//	0   16  the token
//	16  4   number
//	20  4   bytes that the answer is to have, itself and this not more than maxProbe
//
// and what is left is zero. The answer has the same, and zeroes up to its size.
type probe struct {
	Port  uint16 `json:"port"`
	Token []byte `json:"token"`
}

const (
	probeToken = 16
	probeSize  = probeToken + 8
	maxProbe   = 1 << 16
	maxAnswers = 512 // of a responder; a dialler asks for 73 at most
)

func (p *probe) check() error {
	if p.Port == 0 || len(p.Token) != probeToken {
		return malformed("probes at port %d with a token of %d bytes", p.Port, len(p.Token))
	}
	return nil
}

// readProbe gives a probe's number and the size of its answer; ok is false for what is
// none, or a stranger's.
func readProbe(b, token []byte) (number, answer uint32, ok bool) {
	if len(b) < probeSize || len(b) > maxProbe || subtle.ConstantTimeCompare(b[:probeToken], token) != 1 {
		return 0, 0, false
	}
	number, answer = binary.BigEndian.Uint32(b[probeToken:]), binary.BigEndian.Uint32(b[probeToken+4:])
	return number, answer, answer >= probeSize && answer <= maxProbe
}

// putProbe makes a probe of b.
func putProbe(b, token []byte, number, answer uint32) {
	clear(b)
	copy(b, token)
	binary.BigEndian.PutUint32(b[probeToken:], number)
	binary.BigEndian.PutUint32(b[probeToken+4:], answer)
}

// udp opens a socket on an address whose packets are never fragmented, whatever the
// kernel believes of the path's MTU.
func udp(ctx context.Context, at netip.Addr) (*net.UDPConn, error) {
	p, err := new(net.ListenConfig).ListenPacket(ctx, "udp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, err
	}
	c := p.(*net.UDPConn)
	raw, err := c.SyscallConn()
	if err == nil {
		set := func(fd uintptr) {
			if at.Is4() {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
			} else {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
			}
		}
		if e := raw.Control(set); e != nil {
			err = e
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// responder answers probes until it is closed. Who has the token could have it send to
// another's address what is much larger than a probe; so it answers only the address that
// the dialler said its NIC has, with no more than the NICs' packets carry, and stops at
// maxAnswers.
type responder struct {
	c     *net.UDPConn
	token []byte
	from  netip.Addr // without a zone
	size  int        // the largest answer, bytes
	ended chan struct{}
	// largest is the largest probe that came, failed why an answer could not be sent;
	// both are the caller's once ended is closed.
	largest int
	failed  error
}

// newResponder answers, at an address of this machine, the probes that come from another.
func newResponder(ctx context.Context, at, from netip.Addr, size int) (*responder, error) {
	c, err := udp(ctx, at)
	if err != nil {
		return nil, err
	}
	s := &responder{c: c, token: make([]byte, probeToken), from: from.WithZone(""), size: size, ended: make(chan struct{})}
	rand.Read(s.token)
	go s.serve()
	return s, nil
}

func (s *responder) serve() {
	defer close(s.ended)
	b := make([]byte, maxProbe+1)
	for answers := 0; answers < maxAnswers; {
		n, from, err := s.c.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error that an answer met
		}
		number, answer, ok := readProbe(b[:n], s.token)
		if !ok || int(answer) > s.size || from.Addr().Unmap().WithZone("") != s.from {
			continue
		}
		answers++
		s.largest = max(s.largest, n)
		putProbe(b[:answer], s.token, number, answer)
		if _, err := s.c.WriteToUDPAddrPort(b[:answer], from); err != nil && s.failed == nil {
			s.failed = fmt.Errorf("an answer of %d bytes: %w", answer, errnoOf(err))
		}
	}
}

func (s *responder) where() *probe {
	return &probe{Port: uint16(s.c.LocalAddr().(*net.UDPAddr).Port), Token: s.token}
}

func (s *responder) close() {
	s.c.Close()
	<-s.ended
}

// prober sends probes.
type prober struct {
	c      *net.UDPConn
	to     netip.AddrPort
	token  []byte
	number uint32
	tries  int
	wait   time.Duration // for an answer, of each try
}

// try sends a probe of some bytes of UDP payload, which is to be answered by as many as
// are given, and tells whether the answer came. An error is the kernel's, which did not
// send it.
func (p *prober) try(ctx context.Context, there, back int) (bool, error) {
	b, got := make([]byte, there), make([]byte, maxProbe)
	first := p.number + 1 // all tries are alike: a late answer to one before the last counts
	stop := context.AfterFunc(ctx, func() { p.c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for range p.tries {
		p.number++
		putProbe(b, p.token, p.number, uint32(back))
		p.c.SetReadDeadline(time.Now().Add(p.wait))
		if _, err := p.c.WriteToUDPAddrPort(b, p.to); err != nil {
			return false, err
		}
		for {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			n, from, err := p.c.ReadFromUDPAddrPort(got)
			if err != nil {
				break // time is over, or an ICMP error: once more
			}
			if number, size, ok := readProbe(got[:n], p.token); ok && number >= first && number <= p.number && int(size) == n && n == back && from.Port() == p.to.Port() {
				return true, nil
			}
		}
	}
	return false, nil
}
