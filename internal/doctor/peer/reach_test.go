package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUnreached: what a failed connection means, with and without an answer to an echo
// request.
func TestUnreached(t *testing.T) {
	to := netip.MustParseAddrPort("192.0.2.1:18633")
	wrap := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	errno := func(e syscall.Errno) error { return wrap(os.NewSyscallError("connect", e)) }
	for _, x := range []struct {
		err    error
		alive  bool
		class  error
		words  string
		remedy string
	}{
		{errno(syscall.ECONNREFUSED), false, syscall.ECONNREFUSED, "refused: the machine 192.0.2.1 is there", "doctor --listen"},
		{errno(syscall.EPERM), false, syscall.EPERM, "filtered here", "nft list ruleset"},
		{errno(syscall.ENETUNREACH), false, syscall.ENETUNREACH, "unreachable: there is no route", "ip route get 192.0.2.1"},
		{errno(syscall.EHOSTUNREACH), false, syscall.EHOSTUNREACH, "unreachable: nobody has the address", "ip neigh"},
		{errno(syscall.EHOSTUNREACH), true, syscall.EHOSTUNREACH, "filtered: 192.0.2.1 answers an echo request, and connections to port 18633 are rejected", "nft"},
		{wrap(os.ErrDeadlineExceeded), true, syscall.ETIMEDOUT, "filtered: 192.0.2.1 answers an echo request, and nothing", "security groups"},
		{wrap(os.ErrDeadlineExceeded), false, syscall.ETIMEDOUT, "timeout: nothing answers at 192.0.2.1:18633 in 3s, and no echo", "is the machine up"},
		{errno(syscall.ETIMEDOUT), false, syscall.ETIMEDOUT, "timeout:", "is the machine up"},
		{errno(syscall.EADDRNOTAVAIL), false, syscall.EADDRNOTAVAIL, "unreachable", "ip addr"},
		{wrap(syscall.EMFILE), false, syscall.EMFILE, "too many open files", ""},
	} {
		err := unreached(to, 3*time.Second, x.err, func() (bool, string) { return x.alive, "no echo request is answered either" })
		if !errors.Is(err, x.class) || !strings.Contains(err.Error(), x.words) {
			t.Errorf("%v, %v: %v", x.err, x.alive, err)
		}
		var f *Fault
		if errors.As(err, &f) && !strings.Contains(f.Remedy, x.remedy) || (f == nil) != (x.remedy == "") {
			t.Errorf("%v, %v: remedy %+v", x.err, x.alive, f)
		}
	}
}

// TestUnresolved: what a failed look-up means.
func TestUnresolved(t *testing.T) {
	for words, err := range map[string]error{
		"does not exist":            &net.DNSError{Err: "no such host", Name: "node-b", IsNotFound: true},
		"nobody answered in time":   &net.DNSError{Err: "i/o timeout", Name: "node-b", IsTimeout: true},
		"server misbehaving":        &net.DNSError{Err: "server misbehaving", Name: "node-b"},
		context.Canceled.Error():    context.Canceled,
		"no address for \"node-b\"": &net.DNSError{Err: "other", Name: "node-b"},
	} {
		if got := unresolved("node-b", err); !strings.Contains(got.Error(), words) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestEcho: the loopback address answers, where echo requests may be sent at all.
func TestEcho(t *testing.T) {
	for _, to := range []string{"127.0.0.1", "::1"} {
		a := netip.MustParseAddr(to)
		c, _, err := echoSocket(a)
		if err != nil {
			if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EAFNOSUPPORT) {
				t.Error(err)
			}
			if alive, told := echo(t.Context(), a, time.Second); alive || !strings.Contains(told, "may send no echo request") {
				t.Errorf("%v, %s", alive, told)
			}
			continue
		}
		c.Close()
		if alive, told := echo(t.Context(), a, 30*time.Second); !alive && interfaceOf(a) != "" {
			t.Errorf("%v: %s", a, told)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if alive, _ := echo(ctx, netip.MustParseAddr("192.0.2.1"), time.Minute); alive {
		t.Error("an address of documents answers")
	}
}

func TestIsEcho(t *testing.T) {
	for _, x := range []struct {
		b    []byte
		raw  bool
		want bool
	}{
		{[]byte{0, 0, 0, 0, 0x12, 0x34, 0, 1}, true, true},
		{[]byte{0, 0, 0, 0, 0x99, 0x99, 0, 1}, true, false},
		{[]byte{0, 0, 0, 0, 0x99, 0x99, 0, 1}, false, true},
		{[]byte{8, 0, 0, 0, 0x12, 0x34, 0, 1}, true, false},
		{[]byte{0, 0, 0}, false, false},
		{nil, true, false},
	} {
		if got := isEcho(x.b, 0, 0x1234, x.raw); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
	if got := checksum([]byte{0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0, 0, 0xac, 0x10, 0x0a, 0x63, 0xac, 0x10, 0x0a, 0x0c}); got != 0xb1e6 {
		t.Errorf("checksum %#x", got)
	}
}

// TestAddresses: what is no address, and a port that has no number.
func TestAddresses(t *testing.T) {
	p := newPair(t)
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:no-such-port", "[::1", "127.0.0.1:99999"} {
		r, err := Check(t.Context(), addr, p.here)
		failed(t, outcome{r, err}, StepReach, err)
		if fmt.Sprint(err) == "" {
			t.Error("no error")
		}
	}
}
