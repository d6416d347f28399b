package pci

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestKernelHasP2PDMA(t *testing.T) {
	const (
		yes    = "#\n# Automatically generated\n#\nCONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\nCONFIG_X86=y\n"
		no     = "#\nCONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n"
		before = "#\nCONFIG_PCI=y\nCONFIG_PCI_P2PDMA_OTHER=y\n" // a kernel that does not know it
		boot   = "boot/config-6.12.1"
		proc   = "proc/config.gz"
	)
	root := func() machine { return two().file("proc/sys/kernel/osrelease", "6.12.1\n") }
	for name, c := range map[string]struct {
		m    machine
		want Tri
		err  string
	}{
		"nothing told":                {root(), Unknown, ""},
		"built with it":               {root().file(boot, yes), Yes, ""},
		"built without":               {root().file(boot, no), No, ""},
		"a kernel before it":          {root().file(boot, before), No, ""},
		"of another kernel":           {root().file("boot/config-6.1.0", yes), Unknown, ""},
		"a file that is none":         {root().file(boot, "hello"), Unknown, ""},
		"the kernel's own":            {root().file(proc, gzipped(t, yes)), Yes, ""},
		"the kernel's own, without":   {root().file(proc, gzipped(t, no)), No, ""},
		"the kernel's own, cut":       {root().file(proc, gzipped(t, yes)[:20]), Unknown, "no kernel configuration"},
		"the kernel's own, no gzip":   {root().file(proc, yes), Unknown, "no kernel configuration"},
		"a file that is none, beside": {root().file(boot, "").file(proc, gzipped(t, no)), No, ""},
		"memory is published":         {root().file(boot, no).file(lone+"/p2pmem/size", "4096\n"), Yes, ""},
		"a release that is a path":    {two().file("proc/sys/kernel/osrelease", "../../etc/x").file("etc/x", yes), Unknown, ""},
	} {
		topo, err := read(t, c.m)
		if got := topo.Platform.P2PDMA; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}

func TestPeerToPeerNeedsTheKernel(t *testing.T) {
	for _, c := range []struct {
		built   Tri
		allowed Tri
		reason  string
	}{
		{Yes, Yes, "bridge 0000:01:00.0 is above both and nothing on the path redirects"},
		{Unknown, Yes, "bridge 0000:01:00.0 is above both and nothing on the path redirects, if the kernel is built with CONFIG_PCI_P2PDMA"},
		{No, No, "the kernel is built without CONFIG_PCI_P2PDMA; besides, bridge 0000:01:00.0 is above both and nothing on the path redirects"},
	} {
		p := newPeers()
		p.Platform.P2PDMA = c.built
		if got := p.P2P(p.gpu, p.near); got.Allowed != c.allowed || got.Reason != c.reason || got.Through != WayBridge {
			t.Errorf("%v: %+v", c.built, got)
		}
	}
}
