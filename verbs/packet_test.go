package verbs

import (
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
)

func TestGRHsOfBothKindsAreRead(t *testing.T) {
	v6, _ := hex.DecodeString("6" + "02" + "abcde" + "0010" + "1b" + "40" +
		"fe800000000000000000000000000001" + "fe800000000000000000000000000002")
	g, err := ParseGRH(v6)
	if err != nil || g.IPv4 || g.TrafficClass != 2 || g.FlowLabel != 0xabcde || g.PayloadLen != 16 || g.NextHeader != 0x1b ||
		g.HopLimit != 64 || g.SGID.Addr().String() != "fe80::1" || g.DGID.Addr().String() != "fe80::2" {
		t.Errorf("%+v, %v", g, err)
	}
	v4, _ := hex.DecodeString("0000000000000000000000000000000000000000" +
		"4520003c" + "00004000" + "0911beef" + "c0000201" + "c6336407")
	g, err = ParseGRH(v4)
	if err != nil || !g.IPv4 || g.TrafficClass != 0x20 || g.PayloadLen != 40 || g.HopLimit != 9 || g.NextHeader != 17 ||
		g.SGID.Addr().String() != "192.0.2.1" || g.DGID.Addr().String() != "198.51.100.7" {
		t.Errorf("%+v, %v", g, err)
	}
	for _, bad := range [][]byte{nil, make([]byte, 39), make([]byte, 40)} {
		if g, err := ParseGRH(bad); err == nil {
			t.Errorf("%d zeros were read as %+v", len(bad), g)
		}
	}
}

func FuzzGRH(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Add([]byte{0x60})
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := ParseGRH(b); err == nil && g.IPv4 != g.SGID.Addr().Is4() && b[0]>>4 != 6 {
			t.Fatalf("%+v", g)
		}
	})
}

// TestRulesAreLaidOutAsTheHeaderSays builds one rule of all layers; the bytes
// were laid out by hand after struct ibv_flow_attr and its specifications.
func TestRulesAreLaidOutAsTheHeaderSays(t *testing.T) {
	o := FlowOptions{Priority: 3, Port: 1, Flags: FlowDontTrap, Specs: []FlowSpec{
		FlowEthernet{Dst: net.HardwareAddr{1, 2, 3, 4, 5, 6}, EtherType: 0x0800, VLAN: 5, VLANMask: 0xfff},
		FlowIPv4{Dst: netip.MustParsePrefix("192.0.2.0/23")},
		FlowIPv6{Src: netip.MustParsePrefix("2001:db8::/33"), NextHeader: 17, Inner: true},
		FlowPorts{Dst: 4791},
		FlowPorts{TCP: true, Src: 1},
		FlowTag{Tag: 0x11223344},
		FlowDrop{},
	}}
	want := "00000000" + "00000000" + "d800" + "0300" + "07" + "01" + "0000" + "02000000" +
		// Ethernet: value from 6, mask from 22.
		"20000000" + "2800" + "010203040506" + "000000000000" + "0800" + "0005" +
		"ffffffffffff" + "000000000000" + "ffff" + "0fff" + "0000" +
		// IPv4: source, destination.
		"30000000" + "1800" + "0000" + "00000000" + "c0000200" + "00000000" + "fffffe00" +
		// IPv6 inside: addresses, flow label, next header, class, hops, padding.
		"31010000" + "5800" + "0000" +
		"20010db8000000000000000000000000" + "00000000000000000000000000000000" + "00000000" + "11" + "000000" +
		"ffffffff800000000000000000000000" + "00000000000000000000000000000000" + "00000000" + "ff" + "000000" +
		// UDP, TCP: destination, source.
		"41000000" + "1000" + "12b7" + "0000" + "ffff" + "0000" + "0000" +
		"40000000" + "1000" + "0000" + "0001" + "0000" + "ffff" + "0000" +
		"00100000" + "0c00" + "0000" + "44332211" +
		"01100000" + "0800" + "0000"
	got := hex.EncodeToString(o.bytes())
	// The total: 20 + 40 + 24 + 88 + 16 + 16 + 12 + 8 = 224.
	want = want[:16] + "e000" + want[20:]
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
