package pci

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const regions = `0x00000000fa000000 0x00000000faffffff 0x0000000000040200
0x0000020000000000 0x0000021fffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000022000000000 0x0000022001ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000000000000e000 0x000000000000e07f 0x0000000000040101
0x00000000fb000000 0x00000000fb07ffff 0x0000000000046200
0x0000030000000000 0x0000030fffffffff 0x000000000014220c
`

func TestBARs(t *testing.T) {
	topo, err := read(t, two().file(lone+"/resource", regions))
	if err != nil {
		t.Error(err)
	}
	want := []BAR{
		{Index: 0, Size: 16 << 20, Memory: true},
		{Index: 1, Size: 128 << 30, Memory: true, Prefetchable: true, Width64: true},
		{Index: 3, Size: 32 << 20, Memory: true, Prefetchable: true, Width64: true},
		{Index: 5, Size: 128},
	}
	if diff := cmp.Diff(want, topo.Devices[0].BARs); diff != "" {
		t.Error(diff)
	}
}

func TestRegionsThatAreNone(t *testing.T) {
	const good = "0xfa000000 0xfaffffff 0x200\n"
	for _, c := range []struct {
		text string
		bars int
		bad  bool
	}{
		{"", 0, false},
		{"\n", 0, false},
		{good, 1, false},
		{"0x1000 0xfff 0x200\n" + good, 1, false}, // empty, as the kernel says it
		{"0x0 0xffff 0x20000200\n", 1, false},     // has a size, and no place yet
		{"0x2000 0xfff 0x200\n" + good, 1, true},
		{"0x0 0xffffffffffffffff 0x200\n" + good, 1, true},
		{"0x1 0x2\n" + good, 1, true},
		{"0x1 0x2 0x200 0x3\n" + good, 1, true},
		{"a bar\n" + good, 1, true},
		{strings.Repeat(good, 100), 6, false},
	} {
		bars, err := parseBARs(c.text)
		if len(bars) != c.bars || (err != nil) != c.bad {
			t.Errorf("%q: %d registers, %v", clip(c.text), len(bars), err)
		}
	}
}

func TestPublishedMemory(t *testing.T) {
	for _, c := range []struct {
		m    machine
		want Tri
	}{
		{two(), Unknown},
		{two().file(lone+"/resource", regions), No},
		{two().file(lone+"/resource", ""), No},
		{two().file(lone+"/resource", regions).file(lone+"/p2pmem/size", "65536\n"), Yes},
		{two().file(lone+"/p2pmem/size", "65536\n"), Yes},
	} {
		topo, err := read(t, c.m)
		if got := topo.Devices[0].PeerMem; got != c.want || err != nil {
			t.Errorf("%v, %v; want %v", got, err, c.want)
		}
	}
}

func FuzzBARs(f *testing.F) {
	f.Add(regions[:120])
	f.Add("0x2000 0xfff 0x200\n")
	f.Fuzz(func(t *testing.T, s string) {
		bars, _ := parseBARs(s)
		last := -1
		for _, b := range bars {
			if b.Index <= last || b.Index > 5 || b.Size == 0 {
				t.Fatalf("%q: %+v", s, bars)
			}
			last = b.Index
		}
	})
}
