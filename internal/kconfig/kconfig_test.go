package kconfig

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"testing/fstest"
)

const config = "# Linux/x86 6.12 Kernel Configuration\nCONFIG_PCI=y\nCONFIG_INFINIBAND=m\n# CONFIG_UDMABUF is not set\nCONFIG_HZ=250\nCONFIG_CMDLINE=\"secret\"\n"

func pack(t testing.TB, s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOption(t *testing.T) {
	for name, want := range map[string]string{"CONFIG_PCI": "y", "CONFIG_INFINIBAND": "m", "CONFIG_UDMABUF": "n", "CONFIG_HZ": "250", "CONFIG_P": "", "CONFIG_INFINI": "", "": ""} {
		if got, ok := Option([]byte(config), name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, want)
		}
	}
}

func TestRead(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		root    fstest.MapFS
		release string
		at, err string
	}{
		"beside the kernel":        {fstest.MapFS{"boot/config-6.12.0": file(config)}, "6.12.0", "boot/config-6.12.0", ""},
		"beside its modules":       {fstest.MapFS{"lib/modules/6.12.0/config": file(config)}, "6.12.0", "lib/modules/6.12.0/config", ""},
		"of the kernel itself":     {fstest.MapFS{Packed: file(string(pack(t, config)))}, "6.12.0", Packed, ""},
		"of an unknown release":    {fstest.MapFS{Packed: file(string(pack(t, config)))}, "", Packed, ""},
		"of a release that climbs": {fstest.MapFS{"etc/passwd": file(config)}, "/../../etc/passwd", "", Packed},
		"of another release":       {fstest.MapFS{"boot/config-6.1.0": file(config)}, "6.12.0", "", "/boot/config-6.12.0: file does not exist"},
		"an empty one":             {fstest.MapFS{"boot/config-6.12.0": file("")}, "6.12.0", "", "no kernel configuration"},
		"no gzip":                  {fstest.MapFS{Packed: file(config)}, "6.12.0", "", "gzip"},
		"the next where one is odd": {fstest.MapFS{"boot/config-6.12.0": file("x"), Packed: file(string(pack(t, config)))},
			"6.12.0", Packed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, at, err := Read(c.root, c.release)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v; want one with %q", err, c.err)
				}
			} else if err != nil || at != c.at || string(got) != config {
				t.Errorf("%q at %s, %v", got, at, err)
			}
		})
	}
}

func TestKeep(t *testing.T) {
	if got, want := string(Keep([]byte(config))), "\nCONFIG_PCI=y\nCONFIG_INFINIBAND=m\n# CONFIG_UDMABUF is not set\n"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(config))
	f.Add(pack(f, config))
	f.Fuzz(func(t *testing.T, b []byte) {
		if plain, err := Unpack(b); err == nil && len(plain) > MaxSize {
			t.Errorf("%d bytes", len(plain))
		}
		for _, name := range Direct {
			value, ok := Option(b, name)
			kept, still := Option(Keep(b), name)
			if value != kept || ok != still {
				t.Errorf("%s: %q, %v; of what is kept %q, %v", name, value, ok, kept, still)
			}
		}
	})
}
