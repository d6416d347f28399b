//go:build lab

package efa

import (
	"os"
	"strings"
	"testing"
)

// TestEFALetsGo: a device that was closed is let go of. What is mapped would hold it as an
// open descriptor does, until the process ends. libefa of rdma-core 44 leaves the page of
// each completion queue's doorbell mapped, docs/efa.md.
func TestEFALetsGo(t *testing.T) {
	name := labDevices(t)[0]
	var old bool
	mapped := func() (n int) {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(maps)) {
			old = old || strings.Contains(line, "/libefa.so.") && strings.HasSuffix(line, ".44.0\n")
			if strings.Contains(line, "/dev/infiniband/uverbs") {
				n++
			}
		}
		return n
	}
	before := mapped() // by the tests before
	paths(t, func(t *testing.T, o OpenOptions) {
		was := mapped()
		for range 3 {
			dev, err := OpenWith(name, o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				ep, err := dev.CreateSRD(SRDOptions{MaxSend: 4, MaxRecv: 4})
				if err != nil {
					t.Fatal(err)
				}
				if mapped() < was+4 {
					t.Errorf("of an endpoint and its completion queue %d mappings are seen", mapped()-was)
				}
				if err := ep.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := dev.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want := 0
		if old {
			want = 3 * 2
		}
		if n := mapped() - was; n != want {
			t.Errorf("%d mappings are left of 6 endpoints, want %d", n, want)
		}
	})
	if before > 0 && !old {
		t.Errorf("the tests before left %d mappings", before)
	}
}
