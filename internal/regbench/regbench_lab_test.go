//go:build lab

package regbench

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// onDevice measures on a device of the kernel, for a short time.
func onDevice(t *testing.T, device, memory string) (*Report, error) {
	t.Helper()
	leavesNothing(t)
	rail, err := transfer.Named(device, transfer.RCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Rail: rail, Max: 64 << 10, Runs: 2, Each: time.Millisecond, Hits: []int{0, 90, 100}}
	if o.Memory, err = transfer.MemoryNamed(memory); err == nil && o.Memory != nil {
		err = o.Memory.Available()
	}
	if err != nil {
		t.Skip("needs an exporter: ", err)
	}
	return Run(t.Context(), o)
}

func TestRegistrationOnADevice(t *testing.T) {
	device := os.Getenv("PEERDIRECT_DEVICE")
	if device == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	r, err := onDevice(t, device, "host")
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r, 3, 3)
	t.Run("udmabuf", func(t *testing.T) {
		if _, err := onDevice(t, device, "udmabuf"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a driver without hardware took a dma-buf: %v", err)
		}
	})
}

func TestEFARegistration(t *testing.T) {
	names := os.Getenv("PEERDIRECT_EFA")
	if names == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa N")
	}
	first, _, _ := strings.Cut(names, ",")
	if rail, err := transfer.OpenEFA(transfer.EFAOptions{Device: first}); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks: ", err)
	} else if err != nil {
		t.Fatal(err)
	} else if err := rail.Close(); err != nil {
		t.Fatal(err)
	}
	for _, memory := range []string{"host", "udmabuf", "accel"} {
		t.Run(memory, func(t *testing.T) {
			r, err := onDevice(t, first, memory)
			if err != nil {
				t.Fatal(err)
			}
			whole(t, r, 3, 3)
		})
	}
}
