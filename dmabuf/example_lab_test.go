//go:build lab

package dmabuf_test

import (
	"errors"
	"os"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
)

// What the documentation shows does what it says, on exporters that a stock kernel
// has.
func TestTheExampleExports(t *testing.T) {
	if os.Getenv("PEERDIRECT_NODE") == "" {
		t.Skip("needs a lab guest: run make test-lab")
	}
	for _, name := range []string{"udmabuf", "memfd", "heap:system"} {
		t.Run(name, func(t *testing.T) {
			text, err := exported(name)
			if errors.Is(err, dmabuf.ErrNoDevice) || errors.Is(err, dmabuf.ErrUnsupported) {
				t.Skipf("needs the exporter, which this kernel lacks: %v", err)
			}
			if err != nil || text != "through the accelerator's memory" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	for kind, n := range dmabuf.Live() {
		t.Errorf("%d objects of kind %s are left", n, kind)
	}
}
