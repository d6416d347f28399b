//go:build lab

package transfer

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer/internal/leaktest"
	"github.com/peerdirect/peerdirect/verbs"
)

// exporter gives an exporter, and skips the test where there is none.
func exporter(t *testing.T, name string) dmabuf.Exporter {
	t.Helper()
	e, err := MemoryNamed(name)
	if err == nil && e != nil {
		err = e.Available()
	}
	if err != nil {
		t.Skip("needs an exporter: ", err)
	}
	return e
}

// perNICMemory is udmabuf's with the rules of a driver whose descriptors take one
// NIC each and must outlive the registration.
type perNICMemory struct {
	dmabuf.Memory
	exports *[]*dmabuf.Buffer
}

func (p perNICMemory) Export(offset, length uint64) (*dmabuf.Buffer, error) {
	b, err := p.Memory.Export(offset, length)
	if err == nil {
		b.OneImporter, b.Closing = true, dmabuf.CloseAfterDeregister
		*p.exports = append(*p.exports, b)
	}
	return b, err
}

// TestAnExportForEachNIC: one descriptor for each of several NICs where the
// exporter wants that, open until its registration is gone.
func TestAnExportForEachNIC(t *testing.T) {
	from := exporter(t, "udmabuf")
	leaktest.Held(t)
	const nics = 3
	e := embedded(t, EmbeddedOptions{NICs: nics})
	rail, err := e.Node(0).Open(Want{})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := from.Allocate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	var exports []*dmabuf.Buffer
	x := NewExport(perNICMemory{mem, &exports}, 4096, 1000)
	region, err := rail.RegisterExport(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Registered(); err != nil {
		t.Fatal(err)
	}
	if len(exports) != nics || exports[0].FD() == exports[1].FD() || len(region.lkeys) != nics {
		t.Errorf("%d exports for %d NICs", len(exports), nics)
	}
	for _, b := range exports {
		if b.FD() < 0 {
			t.Error("a descriptor was closed while its registration is there")
		}
	}
	if err := x.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("closed under registrations: %v", err)
	}
	for _, c := range []interface{ Close() error }{rail, x, mem} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, b := range exports {
		if b.FD() >= 0 {
			t.Error("a descriptor is open in the end")
		}
	}
}

func TestOptionsThatDoNotFitTheMachine(t *testing.T) {
	if os.Getenv("PEERDIRECT_DEVICE") == "" {
		t.Skip("needs a lab guest with an RDMA device: run make test-lab")
	}
	leaktest.Held(t)
	for name, change := range map[string]func(*RCOptions){
		"port":        func(o *RCOptions) { o.Port = 9 },
		"GID index":   func(o *RCOptions) { o.GIDIndex = new(5000) },
		"queue pairs": func(o *RCOptions) { o.Queues = 1000 },
	} {
		o := RCOptions{Device: os.Getenv("PEERDIRECT_DEVICE")}
		change(&o)
		_, err := OpenRC(o)
		var wrong *OptionError
		if !errors.As(err, &wrong) || wrong.Option != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenRC(RCOptions{Device: "nosuch0"}); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("no such device: %v", err)
	}
}
