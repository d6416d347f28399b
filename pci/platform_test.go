package pci

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProcessors(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want processor
	}{
		"intel": {"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\nflags\t\t: fpu lm sse\n\nprocessor\t: 1\nvendor_id\t: Other\n",
			processor{"x86_64", "GenuineIntel", 6, 143, No}},
		"guest":                         {"vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nflags\t\t: lm hypervisor\n", processor{"x86_64", "AuthenticAMD", 25, 1, Yes}},
		"arm":                           {"processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n\n", processor{arch: "aarch64", vendor: "ARM"}},
		"an implementer without a name": {"CPU implementer : 0xee\n", processor{vendor: "0xee"}},
		"power":                         {"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n\ntimebase\t: 512000000\nplatform\t: PowerNV\n", processor{}},
		"numbers that are none":         {"vendor_id : x\ncpu family : six\nmodel : -1\n", processor{vendor: "x"}},
		"nothing":                       {"", processor{}},
	} {
		if got := parseProcessor(c.text); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestPlatform(t *testing.T) {
	const cpu = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nflags : lm\n"
	for name, c := range map[string]struct {
		m    machine
		want Platform
	}{
		"nothing told": {two(), Platform{}},
		"a server": {
			two().file("proc/cpuinfo", cpu).file("proc/sys/kernel/osrelease", "6.12.1\n").
				file("sys/class/dmi/id/sys_vendor", "Acme\n").file("sys/class/dmi/id/product_name", "Box 9\n"),
			Platform{Arch: "x86_64", CPU: "GenuineIntel", Family: 6, Model: 85, System: "Acme Box 9", Kernel: "6.12.1", Virtual: No},
		},
		"a product that begins with its vendor": {
			two().file("sys/devices/virtual/dmi/id/sys_vendor", "ACME").file("sys/devices/virtual/dmi/id/product_name", "Acme Box 9"),
			Platform{System: "Acme Box 9"},
		},
		"a device tree": {
			two().file("sys/firmware/devicetree/base/model", "Board 3\x00").file("proc/sys/kernel/arch", "ppc64le\n").
				file("proc/version", "Linux version 5.14.0-1 (a@b) #1 SMP\n"),
			Platform{Arch: "ppc64le", System: "Board 3", Kernel: "5.14.0-1"},
		},
		"a guest on arm": {
			two().file("proc/cpuinfo", "CPU implementer : 0x41\nCPU architecture: 8\n").file("sys/class/dmi/id/sys_vendor", "QEMU"),
			Platform{Arch: "aarch64", CPU: "ARM", System: "QEMU", Virtual: Yes},
		},
		"flags that are cut": {
			two().file("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : lm "+strings.Repeat("feature ", 600)+"hypervisor\n"),
			Platform{CPU: "GenuineIntel"},
		},
	} {
		topo, err := read(t, c.m)
		if diff := cmp.Diff(c.want, topo.Platform); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func FuzzProcessor(f *testing.F) {
	f.Add("vendor_id : GenuineIntel\ncpu family : 6\nflags : lm hypervisor\n")
	f.Add("Linux version 6.1.0 (a)")
	f.Fuzz(func(t *testing.T, s string) {
		if c := parseProcessor(s); c.family < 0 || c.model < 0 {
			t.Errorf("%+v", c)
		}
		if v := parseVersion(s); strings.Contains(v, " ") {
			t.Errorf("release %q", v)
		}
	})
}
