package exchange

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/verbs"
)

func endpoint(qpn uint32) verbs.Endpoint {
	return verbs.Endpoint{
		QPN: qpn, PSN: 0xabcdef, GID: verbs.GID(netip.MustParseAddr("::ffff:192.0.2.1").As16()),
		MTU: 1024, Link: verbs.LinkEthernet.String(),
	}
}

func rxe(endpoints ...verbs.Endpoint) Offer {
	return Offer{Transport: verbs.TransportIB.String(), Device: "rxe0", Endpoints: endpoints}
}

func TestMatchOffers(t *testing.T) {
	own := rxe(endpoint(17), endpoint(18))
	if err := own.Match(rxe(endpoint(33), endpoint(34))); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*verbs.Endpoint)) Offer {
		e := endpoint(34)
		change(&e)
		return rxe(endpoint(33), e)
	}
	gid := func(text string) Offer {
		return with(func(e *verbs.Endpoint) { e.GID = verbs.GID(netip.MustParseAddr(text).As16()) })
	}
	siw := rxe(endpoint(1), endpoint(2))
	siw.Transport, siw.Device = verbs.TransportIWARP.String(), "siw\x1b0"
	for name, c := range map[string]struct {
		peer  Offer
		class error
		words string
	}{
		"count":          {rxe(endpoint(1)), ErrMismatch, "has 1 queue pairs and this side 2"},
		"none":           {rxe(), ErrMismatch, "has 0 queue pairs"},
		"transport":      {siw, ErrMismatch, `"siw\x1b0" speaks "iWARP" and this side's rxe0 InfiniBand`},
		"link":           {with(func(e *verbs.Endpoint) { e.Link = "InfiniBand" }), ErrMismatch, `is "InfiniBand" and this side's of rxe0 Ethernet`},
		"QPN 0":          {with(func(e *verbs.Endpoint) { e.QPN = 0 }), ErrProtocol, "queue pair 1: number 0x0"},
		"QPN 25 bits":    {with(func(e *verbs.Endpoint) { e.QPN = 1 << 24 }), ErrProtocol, "0x1000000"},
		"QPN twice":      {with(func(e *verbs.Endpoint) { e.QPN = 33 }), ErrProtocol, "twice"},
		"PSN":            {with(func(e *verbs.Endpoint) { e.PSN = 1 << 24 }), ErrProtocol, "24 bits"},
		"MTU 0":          {with(func(e *verbs.Endpoint) { e.MTU = 0 }), ErrProtocol, "MTU of 0"},
		"MTU odd":        {with(func(e *verbs.Endpoint) { e.MTU = 1500 }), ErrProtocol, "MTU of 1500"},
		"LID":            {with(func(e *verbs.Endpoint) { e.LID = 0xc001 }), ErrProtocol, "multicast"},
		"no GID":         {gid("::"), ErrProtocol, "no GID"},
		"GID multicast":  {gid("ff02::1"), ErrProtocol, "not the address of a port"},
		"GID IPv4":       {gid("::ffff:224.0.0.1"), ErrProtocol, "not the address of a port"},
		"GID zero IPv4":  {gid("::ffff:0.0.0.0"), ErrProtocol, "not the address of a port"},
		"GID broadcast":  {gid("::ffff:255.255.255.255"), ErrProtocol, "not the address of a port"},
		"GID loopback":   {gid("::1"), ErrProtocol, "not the address of a port"},
		"GID loopback 4": {gid("::ffff:127.0.0.1"), ErrProtocol, "not the address of a port"},
	} {
		err := own.Match(c.peer)
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Within an InfiniBand subnet the LID is enough, and iWARP needs neither.
	ib := with(func(e *verbs.Endpoint) { e.Link, e.LID, e.GID = "InfiniBand", 7, verbs.GID{} }).Endpoints[1]
	if err := rxe(ib).Match(rxe(ib)); err != nil {
		t.Error(err)
	}
	iwarp := Offer{Transport: "iWARP", Endpoints: []verbs.Endpoint{{QPN: 1, Link: "Ethernet"}}}
	if err := iwarp.Match(iwarp); err != nil {
		t.Error(err)
	}
}

// The most queue pairs fit into one frame, whatever their numbers.
func TestMostQueuePairsFit(t *testing.T) {
	o := rxe()
	for i := range MaxQueuePairs {
		e := endpoint(uint32(1<<24 - 1 - i))
		e.LID, e.MTU, e.Link = 0xbfff, 4096, "InfiniBand"
		e.GID = verbs.GID(netip.MustParseAddr("fe80:1111:2222:3333:4444:5555:6666:7777").As16())
		o.Endpoints = append(o.Endpoints, e)
	}
	b, err := json.Marshal(o)
	if err != nil || len(b) > MaxPayload {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	var again Offer
	if err := json.Unmarshal(b, &again); err != nil || again.Endpoints[4095] != o.Endpoints[4095] {
		t.Errorf("%+v, %v", again.Endpoints[4095], err)
	}
}

func TestCMOffer(t *testing.T) {
	good := cmOffer{Addr: netip.MustParseAddrPort("192.0.2.1:7471"), Token: make([]byte, tokenSize)}
	b, err := json.Marshal(good)
	var again cmOffer
	if err != nil || json.Unmarshal(b, &again) != nil || again.check() != nil || again.Addr != good.Addr {
		t.Errorf("%s: %+v, %v", b, again, err)
	}
	for _, text := range []string{
		`{}`, `{"addr":"192.0.2.1:0","token":"AAAAAAAAAAA="}`, `{"addr":"0.0.0.0:1","token":"AAAAAAAAAAA="}`,
		`{"addr":"224.0.0.1:1","token":"AAAAAAAAAAA="}`, `{"addr":"[ff02::1]:1","token":"AAAAAAAAAAA="}`,
		`{"addr":"255.255.255.255:1","token":"AAAAAAAAAAA="}`, `{"addr":"192.0.2.1:1","token":"AAAA"}`,
	} {
		var at cmOffer
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if at.check() == nil {
			t.Errorf("%s was taken", text)
		}
	}
	if b := private(good.Token, 0x01020304); len(b) != privateSize || string(b[:4]) != "PDX\x01" || string(b[12:]) != "\x01\x02\x03\x04" {
		t.Errorf("private data %x", b)
	}
}

func TestNearest(t *testing.T) {
	prefixes := []netip.Prefix{
		netip.MustParsePrefix("2001:db8::1/64"), netip.MustParsePrefix("169.254.3.4/16"),
		netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("192.0.2.2/24"),
	}
	for near, want := range map[string]string{
		"192.0.2.2":     "192.0.2.2",
		"192.0.2.77":    "192.0.2.1",
		"2001:db8::9":   "2001:db8::1",
		"2001:db8:1::9": "2001:db8::1",
		"203.0.113.1":   "198.51.100.1",
		"169.254.9.9":   "169.254.3.4",
	} {
		if got, ok := nearest(prefixes, netip.MustParseAddr(near)); !ok || got.String() != want {
			t.Errorf("near %s: %v, want %s", near, got, want)
		}
	}
	if got, ok := nearest(prefixes, netip.Addr{}); !ok || got.String() != "198.51.100.1" {
		t.Errorf("near nothing: %v", got)
	}
	if _, ok := nearest(nil, netip.Addr{}); ok {
		t.Error("chosen from nothing")
	}
	for text, want := range map[string]bool{"fe80::1/64": false, "192.0.2.1/24": true, "2001:db8::1/64": true} {
		ip, n, _ := net.ParseCIDR(text)
		n.IP = ip
		if p, ok := prefixOf(n); ok != want || ok && p.String() != text {
			t.Errorf("%s: %v, %v", text, p, ok)
		}
	}
}

func TestSitsOn(t *testing.T) {
	eth := net.Interface{Index: 2, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
	for _, c := range []struct {
		gid  verbs.GIDEntry
		want bool
	}{
		{verbs.GIDEntry{IfIndex: 2}, true},
		{verbs.GIDEntry{IfIndex: 3, GID: verbs.GID{2, 0, 0, 0, 0, 9}}, false},
		{verbs.GIDEntry{GID: verbs.GID{2, 0, 0, 0, 0, 9}}, true},
		{verbs.GIDEntry{GID: verbs.GID{2, 0, 0, 0, 0, 8}}, false},
	} {
		if got := sitsOn(c.gid, eth); got != c.want {
			t.Errorf("%+v: %v", c.gid, got)
		}
	}
}

func FuzzOffer(f *testing.F) {
	seed, err := json.Marshal(rxe(endpoint(33), endpoint(34)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"transport":"InfiniBand","endpoints":[{"qpn":1,"gid":"::1"},null]}`))
	f.Add([]byte(`{"endpoints":null}`))
	own := rxe(endpoint(17), endpoint(18))
	f.Fuzz(func(t *testing.T, b []byte) {
		var peer Offer
		if json.Unmarshal(b, &peer) != nil {
			return
		}
		err := own.Match(peer)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Detail == "" {
				t.Fatalf("error without a name: %v", err)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n\x00") {
				t.Fatalf("error text %q", err)
			}
			return
		}
		for _, e := range peer.Endpoints {
			if e.QPN == 0 || e.QPN>>24 != 0 || e.PSN>>24 != 0 || e.GID.IsZero() || e.Link != "Ethernet" {
				t.Fatalf("taken: %+v", e)
			}
		}
	})
}
