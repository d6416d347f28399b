//go:build lab

package verbs_test

import (
	"os"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/verbs"
)

// What the documentation shows does what it says, on a device.
func TestTheExampleOfAReliableConnection(t *testing.T) {
	name := os.Getenv("PEERDIRECT_DEVICE")
	if name == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	transport := dev.Transport()
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if transport == verbs.TransportIWARP {
		t.Skip("needs a device whose queue pairs the program connects: iWARP's go by package rdmacm")
	}
	if got := golden.Stdout(t, ExamplePD_CreateRC); got != "7: by the NIC\n" {
		t.Errorf("it printed %q", got)
	}
	for kind, n := range verbs.Live() {
		t.Errorf("%d objects of kind %s are left", n, kind)
	}
}
