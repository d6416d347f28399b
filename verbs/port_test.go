package verbs

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestGIDsHaveOneTextAndReadMany(t *testing.T) {
	for in, want := range map[string]string{
		"::ffff:192.0.2.1":     "0000:0000:0000:0000:0000:ffff:c000:0201",
		"192.0.2.1":            "0000:0000:0000:0000:0000:ffff:c000:0201",
		"fe80::5054:ff:fe00:1": "fe80:0000:0000:0000:5054:00ff:fe00:0001",
		"FE80:0000:0000:0000:5054:00FF:FE00:0001": "fe80:0000:0000:0000:5054:00ff:fe00:0001",
		"::": "0000:0000:0000:0000:0000:0000:0000:0000",
	} {
		var g GID
		if err := g.UnmarshalText([]byte(in)); err != nil || g.String() != want {
			t.Errorf("%s reads as %v, %v", in, g, err)
		}
		text, err := json.Marshal(map[string]GID{"gid": g})
		var back map[string]GID
		if err != nil || json.Unmarshal(text, &back) != nil || back["gid"] != g {
			t.Errorf("%s does not survive JSON: %s, %v", in, text, err)
		}
	}
	for _, bad := range []string{"", "fe80", "fe80::1%eth0", "1.2.3", "fe80::1::2", "0000:0000:0000:0000:0000:ffff:c000:02011"} {
		var g GID
		if err := g.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, g)
		}
	}
	if !(GID{}).IsZero() || (GID{15: 1}).IsZero() {
		t.Error("IsZero")
	}
	if g := (GID{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: 1}); !g.Addr().Is4() || g.Addr().String() != "192.0.2.1" {
		t.Errorf("address %v", g.Addr())
	}
	for text, multicast := range map[string]bool{"ff02::1": true, "239.1.2.3": true, "192.0.2.1": false, "fe80::1": false} {
		var g GID
		if err := g.UnmarshalText([]byte(text)); err != nil || g.IsMulticast() != multicast {
			t.Errorf("%s is multicast: %v, %v", text, g.IsMulticast(), err)
		}
	}
}

func FuzzGIDText(f *testing.F) {
	for _, s := range []string{"::1", "fe80::1", "1.2.3.4", "::ffff:1.2.3.4", "x", "fe80::1%0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var g, again GID
		if g.UnmarshalText(text) != nil {
			return
		}
		out, err := g.MarshalText()
		if err != nil || len(out) != 39 {
			t.Fatalf("%q prints as %q, %v", text, out, err)
		}
		if err := again.UnmarshalText(out); err != nil || again != g {
			t.Fatalf("%q reads as %v, and that as %v, %v", text, g, again, err)
		}
	})
}

func TestGUIDText(t *testing.T) {
	g := GUID{0x50, 0x54, 0, 0xff, 0xfe, 0, 0, 1}
	text, err := g.MarshalText()
	if string(text) != "5054:00ff:fe00:0001" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

func TestMTUsAreEncoded(t *testing.T) {
	for bytes, want := range map[int]MTU{256: MTU256, 512: MTU512, 1024: MTU1024, 2048: MTU2048, 4096: MTU4096} {
		if m, ok := MTUOf(bytes); !ok || m != want || m.Bytes() != bytes {
			t.Errorf("%d is %d, %v", bytes, m, ok)
		}
	}
	for _, bytes := range []int{0, 1500, 128, 8192} {
		if m, ok := MTUOf(bytes); ok {
			t.Errorf("%d is %d", bytes, m)
		}
	}
	if MTU(0).Bytes() != 0 || MTU(9).Bytes() != 0 {
		t.Error("an unknown MTU has bytes")
	}
}

func TestTheBestGIDIsRoutable(t *testing.T) {
	gid := func(text string, kind GIDType) GIDEntry {
		var e GIDEntry
		if err := e.GID.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		e.Type = kind
		return e
	}
	order := []GIDEntry{ // from best to worst
		gid("192.0.2.1", GIDTypeRoCEv2),
		gid("2001:db8::1", GIDTypeRoCEv2),
		gid("fe80::1", GIDTypeRoCEv2),
		gid("2001:db8::1", GIDTypeRoCEv1),
		gid("fe80::1", GIDTypeRoCEv1),
	}
	for i := range order {
		// Wherever it stands in the table, and before its equals.
		rest := slices.Clone(order[i:])
		slices.Reverse(rest)
		equal := order[i]
		equal.Index = 99
		if best, ok := BestGIDOf(append(rest, equal)); !ok || best != order[i] {
			t.Errorf("%v %v is the best of %v", best.Type, best.GID, rest)
		}
	}
	if _, ok := BestGIDOf(nil); ok {
		t.Error("chosen from nothing")
	}
}

func TestSpeedsAndWidthsAreNamed(t *testing.T) {
	for _, c := range []struct {
		width uint8
		speed uint32
		text  string
		mbps  int
		lanes string
	}{
		{1, 1, "2.5 Gbps", 2500, "1X"},
		{2, 32, "25.0 Gbps", 100000, "4X"},
		{2, 128, "100.0 Gbps", 400000, "4X"},
		{2, 256, "200.0 Gbps", 800000, "4X"}, // XDR does not fit the old 8 bits
		{8, 16, "14.0 Gbps", 168000, "12X"},
		{16, 64, "50.0 Gbps", 100000, "2X"},
		{0, 0, "unknown (0)", 0, "unknown (0)"},
	} {
		a := PortAttr{ActiveWidth: c.width, ActiveSpeed: c.speed}
		if a.Speed() != c.text || a.Mbps() != c.mbps || a.Width() != c.lanes {
			t.Errorf("width %d, speed %d: %s, %s, %d Mbit/s", c.width, c.speed, a.Width(), a.Speed(), a.Mbps())
		}
	}
	if a := (PortAttr{PhysState: 5, MaxVLNum: 4}); a.Physical() != "LINK_UP" || a.VLs() != 8 {
		t.Error(a.Physical(), a.VLs())
	}
	if a := (PortAttr{PhysState: 99, MaxVLNum: 99}); a.Physical() != "unknown (99)" || a.VLs() != 0 {
		t.Error(a.Physical(), a.VLs())
	}
}
