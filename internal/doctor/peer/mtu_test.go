package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/peerdirect/peerdirect/transfer"
)

// narrow answers probes as a path does that lets packets of so many bytes pass, IP
// header and all, from the prober and to it.
func narrow(t *testing.T, there, back int) *probe {
	t.Helper()
	return answering(t, func(bytes int, number, answer uint32) (uint32, bool) {
		return number, bytes+28 <= there && int(answer)+28 <= back
	}).where()
}

// answering is a responder of the loopback address that answers a probe of so many bytes
// with the number that reply gives, if it does.
func answering(t *testing.T, reply func(bytes int, number, answer uint32) (uint32, bool)) *responder {
	t.Helper()
	c, err := udp(t.Context(), netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	s := &responder{c: c, token: []byte("0123456789abcdef"), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		b := make([]byte, maxProbe)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			number, answer, ok := readProbe(b[:n], s.token)
			if !ok {
				continue
			}
			if number, ok = reply(n, number, answer); ok {
				putProbe(b[:answer], s.token, number, answer)
				c.WriteToUDPAddrPort(b[:answer], from)
			}
		}
	}()
	t.Cleanup(s.close)
	return s
}

// roce is a side whose NIC is on the loopback address.
func roce(mtu int) NIC {
	return NIC{Kind: transfer.KindRC, Device: "mlx5_0", Port: 1, Transport: "RoCE v2", MTU: mtu, Netdev: "lo", NetdevMTU: 65536, Address: "127.0.0.1", GID: "::ffff:127.0.0.1"}
}

// TestProbes: a path that is wide enough, and ones that are not, in one direction.
func TestProbes(t *testing.T) {
	const size = 4096 + 64
	for name, x := range map[string]struct {
		there, back int
		words       string
	}{
		"wide":             {size, size, ""},
		"narrow there":     {1500, 1 << 16, "packets of 4160 bytes, as the NICs send them, do not pass from 127.0.0.1 to 127.0.0.1 (nothing comes back), and of 1500 they do"},
		"narrow back":      {1 << 16, 4159, "and of 4159 they do"},
		"nothing at all":   {0, 0, "small probes"},
		"one byte too few": {size - 1, size, "and of 4159 they do"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(context.Background(), RoleDialler, Options{})
			defer r.finish()
			r.result.Local, r.result.Remote = roce(4096), roce(4096)
			st := r.result.step(StepMTU)
			here := netip.MustParseAddr("127.0.0.1")
			err := r.probes(t.Context(), st, here, here, narrow(t, x.there, x.back))
			if name == "wide" || name == "nothing at all" {
				if all := strings.Join(st.Evidence, "\n"); err != nil || !strings.Contains(all, x.words) || (strings.Count(all, "4160 bytes pass") == 2) != (name == "wide") {
					t.Errorf("%v\n%s", err, all)
				}
				return
			}
			var f *Fault
			if !errors.As(err, &f) || !strings.Contains(err.Error(), x.words) || !strings.Contains(f.Remedy, "MTU of 4160 bytes") {
				t.Errorf("%v", err)
			}
		})
	}
	// Larger than the interface takes.
	r := newRun(context.Background(), RoleDialler, Options{})
	defer r.finish()
	r.result.Local, r.result.Remote = roce(70000), roce(70000)
	here := netip.MustParseAddr("127.0.0.1")
	if err := r.probes(t.Context(), r.result.step(StepMTU), here, here, narrow(t, 1<<17, 1<<17)); err == nil || !strings.Contains(err.Error(), "EMSGSIZE") {
		t.Errorf("%v", err)
	}
}

// TestKnown: what is said of two MTUs, and of a NIC without an IP address.
func TestKnown(t *testing.T) {
	r := newRun(context.Background(), RoleDialler, Options{})
	defer r.finish()
	r.result.Local, r.result.Remote = roce(4096), roce(1024)
	r.result.Remote.NetdevMTU = 1500
	st := r.result.step(StepMTU)
	r.mtuKnown(st)
	if st.Verdict != Warn || !strings.Contains(st.Summary, "4096 bytes and the other's 1024") || !strings.Contains(st.Remedy, "1500") || !strings.Contains(strings.Join(st.Evidence, "\n"), "own address") {
		t.Errorf("%+v", st)
	}
	if n := r.largest(netip.MustParseAddr("127.0.0.1")); n != 1024+64 {
		t.Errorf("packets of %d bytes", n)
	}
	if n := r.largest(netip.MustParseAddr("::1")); n != 1024+84 {
		t.Errorf("packets of %d bytes", n)
	}
	r.result.Local.Transport = transfer.IWARP
	if n := r.largest(netip.MustParseAddr("127.0.0.1")); n != 1500 {
		t.Errorf("packets of %d bytes", n)
	}
	r.result.Remote.Address = ""
	if _, _, ok := r.addresses(); ok {
		t.Error("an address where there is none")
	}
}

// TestRouteOptions: the way to a link-local address is asked for by the NIC's interface,
// and to others by none.
func TestRouteOptions(t *testing.T) {
	for here, x := range map[string]struct{ there, oif string }{
		"192.0.2.1":    {"192.0.2.2", ""},
		"169.254.9.1":  {"169.254.9.2", ""},
		"2001:db8::1":  {"2001:db8::2", ""},
		"fe80::5:6:7f": {"fe80::5:6:80", "eth1"},
	} {
		r := newRun(context.Background(), RoleDialler, Options{})
		r.result.Local, r.result.Remote = roce(1024), roce(1024)
		r.result.Local.Netdev, r.result.Local.Address = "eth1", here
		r.result.Remote.Netdev, r.result.Remote.Address = "eth2", x.there
		a, b, ok := r.addresses()
		if o := routeOptions(a, b); !ok || o.Oif != x.oif || o.SrcAddr.String() != here {
			t.Errorf("%s: %+v", here, o)
		}
		r.finish()
	}
}

// TestDescribe reads a NIC's netdev and address from a capture.
func TestDescribe(t *testing.T) {
	root := fstest.MapFS{
		"sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/1": {Data: []byte("eth1\n")},
		"sys/class/infiniband/rxe0/ports/1/hw_counters/drops": {Data: []byte("7\n")},
		"sys/class/infiniband/rxe0/ports/1/counters/rx_data":  {Data: []byte("70\n")},
		"sys/class/net/eth1/mtu":                              {Data: []byte("1500\n")},
		"sys/class/net/eth1/statistics/rx_dropped":            {Data: []byte("1\n")},
		"sys/class/net/eth1/statistics/collisions":            {Data: []byte("none\n")},
	}
	o := &Options{Rail: transfer.RCOptions{Device: "rxe0"}, Root: root}
	i := transfer.Info{Device: "rxe0", Port: 1, Transport: "RoCE v2", LinkLayer: "Ethernet", MTU: 1024, GID: "::ffff:192.0.2.1", GIDIndex: 1}
	n := describe(o, i)
	if n.Netdev != "eth1" || n.NetdevMTU != 1500 || n.Address != "192.0.2.1" {
		t.Errorf("%+v", n)
	}
	if s := n.String(); s != "rxe0 port 1, RoCE v2, MTU 1024, GID ::ffff:192.0.2.1 (index 1), on eth1 (MTU 1500)" {
		t.Error(s)
	}
	before := count(root, &n)
	root["sys/class/infiniband/rxe0/ports/1/hw_counters/drops"].Data = []byte("9\n")
	root["sys/class/infiniband/rxe0/ports/1/counters/rx_data"].Data = []byte("80\n")
	if rose := strings.Join(before.rose(count(root, &n)), ""); rose != "counters that rose in this step: rxe0 drops +2, rxe0 rx_data +10" {
		t.Error(rose)
	}
	if rose := before.rose(before); rose != nil {
		t.Error(rose)
	}
	i.Transport, i.GIDIndex = "RoCE v1", 0
	if n := describe(o, i); n.Netdev != "" || n.Address != "" {
		t.Errorf("%+v", n)
	}
}

// TestFits: NICs that go together, and ones that do not, with what to choose.
func TestFits(t *testing.T) {
	a := roce(1024)
	for words, change := range map[string]func(*NIC){
		"":             func(*NIC) {},
		"--device":     func(n *NIC) { n.Kind = transfer.KindEFA },
		"iWARP":        func(n *NIC) { n.Transport = transfer.IWARP },
		"InfiniBand":   func(n *NIC) { n.LinkLayer = "InfiniBand" },
		"RoCE v1":      func(n *NIC) { n.Transport = "RoCE v1" },
		"IPv6":         func(n *NIC) { n.GID = "2001:db8::1" },
		"a fabric":     func(n *NIC) { n.Fabric = "f" },
		"unknown here": func(n *NIC) { n.Kind = "other" },
	} {
		b := roce(4096)
		change(&b)
		err := fits(&a, &b)
		if (err == nil) != (words == "") {
			t.Errorf("%s: %v", words, err)
		} else if err != nil && !strings.Contains(err.Error()+remedy(StepMatch, err), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// TestInterfaceOf finds the interface of an address.
func TestInterfaceOf(t *testing.T) {
	if got := interfaceOf(netip.MustParseAddr("127.0.0.1")); got == "" {
		t.Error("no interface has the loopback address")
	}
	if got := interfaceOf(netip.MustParseAddr("192.0.2.77")); got != "" {
		t.Errorf("%s has an address of documents", got)
	}
	if ifi, err := net.InterfaceByName("lo"); err == nil {
		if got := addressOf(ifi.Name); got != "127.0.0.1" {
			t.Errorf("lo has %q", got)
		}
	}
}
