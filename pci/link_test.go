package pci

import "testing"

func TestLinks(t *testing.T) {
	for s, want := range map[string]float64{
		"2.5 GT/s": 2.5, "8 GT/s": 8, "8.0 GT/s PCIe": 8, "16.0 GT/s PCIe\n": 16, "32 GT/s PCIe/s": 32, "64.0 GT/s PCIe": 64, "8GT/s": 8,
		"": 0, "Unknown": 0, "Unknown speed": 0, "GT/s": 0, "8": 0, "-8 GT/s": 0, "NaN GT/s": 0, "Inf GT/s": 0, "1e300 GT/s": 0, "0 GT/s": 0, "8 GT/sec": 0,
	} {
		if got := parseSpeed(s); got != want {
			t.Errorf("speed %q: %v, want %v", s, got, want)
		}
	}
	for s, want := range map[string]int{
		"1": 1, "16\n": 16, "32": 32, "": 0, "0": 0, "255": 0, "256": 0, "63": 0, "-1": 0, "x16": 0, "Unknown": 0,
	} {
		if got := parseWidth(s); got != want {
			t.Errorf("width %q: %v, want %v", s, got, want)
		}
	}
}

// An idle accelerator has its link trained down: both speeds are kept.
func TestALinkIsReadAsFarAsItIsThere(t *testing.T) {
	m := two().file(lone+"/current_link_speed", "2.5 GT/s PCIe\n").file(lone+"/max_link_speed", "32.0 GT/s PCIe\n").
		file(lone+"/current_link_width", "16\n")
	topo, err := read(t, m)
	if want := (Link{Speed: 2.5, MaxSpeed: 32, Width: 16}); err != nil || topo.Devices[0].Link != want {
		t.Errorf("%+v, %v; want %+v", topo.Devices[0].Link, err, want)
	}
	topo, err = read(t, two())
	if err != nil || topo.Devices[0].Link != (Link{}) {
		t.Errorf("without files: %+v, %v", topo.Devices[0].Link, err)
	}
}

func FuzzLink(f *testing.F) {
	f.Add("8.0 GT/s PCIe")
	f.Add("255")
	f.Fuzz(func(t *testing.T, s string) {
		if v := parseSpeed(s); v != 0 && !(v >= 1 && v <= 1024) {
			t.Errorf("speed %q: %v", s, v)
		}
		if v := parseWidth(s); v < 0 || v > 32 {
			t.Errorf("width %q: %v", s, v)
		}
	})
}
