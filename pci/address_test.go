package pci

import (
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		text string
		want Address
		back string
	}{
		{"0000:3b:00.0", Address{0, 0x3b, 0, 0}, "0000:3b:00.0"},
		{"3b:1f.7", Address{0, 0x3b, 0x1f, 7}, "0000:3b:1f.7"},
		{"00000001:C1:00.0", Address{1, 0xc1, 0, 0}, "0001:c1:00.0"}, // as NVML spells it
		{"10001:80:01.0", Address{0x10001, 0x80, 1, 0}, "10001:80:01.0"},
		{"ffffffff:ff:1f.7", Address{0xffffffff, 0xff, 0x1f, 7}, "ffffffff:ff:1f.7"},
		{"0:0:0.0", Address{}, "0000:00:00.0"},
	} {
		got, err := ParseAddress(c.text)
		if err != nil || got != c.want || got.String() != c.back {
			t.Errorf("%s: %v, %v; want %v", c.text, got, err, c.back)
		}
	}
	for _, text := range []string{"", ":", "::.", "0000:3b:00", "0000:3b:00.8", "0000:3b:20.0", "0000:3bb:00.0",
		"123456789:00:00.0", "0000:3b:00.0:pcie010", "0x0000:3b:00.0", "-1:00:00.0", " 3b:00.0", "0000:3b:00.00",
		"0000:3b:0000.0", "GPU-3b:00.0"} {
		if a, err := ParseAddress(text); err == nil {
			t.Errorf("%q is taken for %v", text, a)
		}
	}
	if _, err := ParseAddress(strings.Repeat("0", 1<<20)); err == nil || len(err.Error()) > 200 {
		t.Error("a megabyte of digits is not refused in a line")
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"0000:3b:00.0", "10001:80:01.0", "3b:00.0", "::."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		if b, err := ParseAddress(a.String()); err != nil || a != b {
			t.Fatalf("%q is %v, and that is %v, %v", s, a, b, err)
		}
		if c, ok := scanAddress(a.String(), 4); !ok || c != a {
			t.Fatalf("%v as the kernel spells it is %v, %v", a, c, ok)
		}
	})
}
