package path

import (
	"errors"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/cuda"
	"github.com/peerdirect/peerdirect/internal/sysroot"
	"github.com/peerdirect/peerdirect/pci"
	"golang.org/x/sys/unix"
)

// needPair skips where there are no two GPUs, and names what is missing.
func needPair(t *testing.T) Options {
	t.Helper()
	if err := cuda.Start(); err != nil {
		t.Skipf("needs two NVIDIA GPUs: %v", err)
	}
	if n, err := cuda.Devices(); err != nil || n < 2 {
		t.Skipf("needs two NVIDIA GPUs: the driver shows %d, %v", n, err)
	}
	o := Options{GPUs: [2]int{0, 1}, Min: 5000, Max: 16<<20 + 12345, Chunk: 1 << 20, Rounds: 2, Duration: time.Millisecond, Both: true}
	if root, err := sysroot.Open("/"); err == nil {
		o.Topology, _ = pci.Read(root)
	}
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGPUs measures two GPUs by every way, and checks every byte.
func TestGPUs(t *testing.T) {
	o := needPair(t)
	for range 2 { // the second finds nothing of the first
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Conditions.Verified == 0 {
			t.Error("nothing was verified")
		}
		for _, row := range r.Rows {
			if row.Rate.Least <= 0 || row.Alone != nil && row.Alone.Least <= 0 {
				t.Errorf("%+v", row)
			}
		}
		for _, f := range r.Verdict {
			t.Logf("%s: %s", f.Code, f.Text)
		}
	}
}

// TestGPUsThatSpoil: a byte that is altered in the GPU's memory is found where it is.
func TestGPUsThatSpoil(t *testing.T) {
	o := needPair(t)
	r := &rig{o: o, drv: cudaDriver{}, beat: noBeat, grace: grace}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	l := r.lanes[1]
	k := key{route{Piped, -1}, 1, 3 << 20}
	if err := l.up.fill(l.to.in, poison, k.size+guard); err != nil {
		t.Fatal(err)
	}
	if err := l.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.copies(t.Context(), l, k, 1, func(int) uint64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	if err := r.verify(l, 1, k, 1); err != nil {
		t.Fatal(err)
	}
	for _, off := range []uint64{0, 1<<20 + 77, k.size - 1, k.size + guard - 1} {
		b := make([]byte, 1)
		if err := l.to.gpu.toHost(b, l.to.in+off); err != nil {
			t.Fatal(err)
		}
		spoiled := []byte{b[0] ^ 0x10}
		if err := l.to.gpu.toDevice(l.to.in+off, spoiled); err != nil {
			t.Fatal(err)
		}
		var m *MismatchError
		if err := r.verify(l, 1, k, 1); !errors.As(err, &m) || m.Got != spoiled[0] || m.Want != b[0] || m.Offset != off && m.Copy >= 0 {
			t.Errorf("offset %d: %v", off, err)
		} else {
			t.Log(err)
		}
		if err := l.to.gpu.toDevice(l.to.in+off, b); err != nil {
			t.Fatal(err)
		}
	}
}

func unmap(t *testing.T, b []byte) {
	t.Helper()
	if err := unix.Munmap(b); err != nil {
		t.Error(err)
	}
}

// TestOnNode: memory lies where it was asked for.
func TestOnNode(t *testing.T) {
	b, err := onNode(0, 1<<20)
	if err != nil {
		t.Skipf("needs mbind: %v", err)
	}
	defer unmap(t, b)
	for _, at := range []int{0, len(b) - 1} {
		if n, err := nodeOf(b[at:]); err != nil || n != 0 {
			t.Errorf("byte %d lies on node %d, %v", at, n, err)
		}
	}
	if _, err := onNode(nodeBits, 4096); err == nil {
		t.Error("a node that there cannot be")
	}
	if b, err := onNode(nodeBits-1, 4096); err == nil {
		unmap(t, b)
		t.Error("a node that there is not")
	}
}
