package dmabuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/cuda"
	"github.com/peerdirect/peerdirect/internal/errname"
	"golang.org/x/sys/unix"
)

// needCUDA gives the first GPU, or skips and names what is missing.
func needCUDA(t *testing.T) (*cudaExporter, cuda.Device) {
	t.Helper()
	if _, err := cuda.Library(); err != nil {
		t.Skipf("needs %s: %v", cuda.LibraryName, err)
	}
	x := &cudaExporter{}
	d, err := x.device()
	if err != nil {
		t.Skipf("needs a GPU that %s finds: %v", cuda.LibraryName, err)
	}
	return x, d
}

// primary keeps the primary context for the time of a test.
func primary(t *testing.T, d cuda.Device) cuda.Context {
	t.Helper()
	ctx, err := d.RetainPrimary()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.ReleasePrimary(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

// TestCUDAMachine prints what the machine is, for the record of a run.
func TestCUDAMachine(t *testing.T) {
	x, d := needCUDA(t)
	lib, _ := cuda.Library()
	t.Logf("%s, CUDA %s, kernel module %q, pages of %d bytes", lib.Path(), driverVersion(), kernelModule(), os.Getpagesize())
	for _, a := range []cuda.DeviceAttribute{cuda.IntegratedWithHost, cuda.HostPageTablesInUse, cuda.VMMSupported, cuda.RDMAWithVMM,
		cuda.PoolsSupported, cuda.RDMASupported, cuda.RDMAFlushOptions, cuda.RDMAWritesOrdering, cuda.PoolHandleTypes, cuda.DMABufSupported} {
		v, err := d.Attribute(a)
		t.Logf("device attribute %d: %d, %v", a, v, err)
	}
	granule, err := d.Granularity()
	t.Logf("granularity of cuMemCreate: %d, %v", granule, err)
	for _, e := range listCUDA("/") {
		begin := time.Now()
		t.Logf("%s: %s; available: %v (%v)", e.Name(), e.Describe(), e.Available(), time.Since(begin))
	}
	beyond := &cudaExporter{ordinal: 99}
	if err := beyond.Available(); !errors.Is(err, ErrNoDevice) {
		t.Errorf("GPU 99: %v", err)
	} else {
		t.Log(err)
	}
	if err := x.Available(); err != nil {
		t.Logf("not available here: %v", err)
	}
}

func TestCUDAAllocateExport(t *testing.T) {
	x, d := needCUDA(t)
	if err := x.Available(); err != nil {
		t.Skip("needs a GPU whose driver exports dma-bufs: ", err)
	}
	primary(t, d) // so that contexts do not come and go
	for _, kind := range cudaKinds {
		for _, size := range []uint64{4 << 10, 64 << 10, 64 << 20} {
			t.Run(fmt.Sprintf("%s-%d", (&cudaExporter{kind: kind}).Name(), size), func(t *testing.T) {
				exportedWhole(t, &cudaExporter{kind: kind}, size)
			})
		}
	}
}

// exportedWhole goes through the life of one allocation.
func exportedWhole(t *testing.T, x *cudaExporter, size uint64) {
	fds, objects := descriptors(t), fmt.Sprint(Live())
	m, err := x.Allocate(size)
	if err != nil {
		t.Fatal(err)
	}
	logPointer(t, "allocated", m.Address())
	id, err := m.Identity()
	t.Logf("%#x, %d bytes, identity %v, %v", m.Address(), m.Size(), id, err)
	copies(t, m)
	b, err := m.Export(0, m.Size())
	if err != nil {
		t.Fatal(err)
	}
	info, err := b.Info()
	t.Logf("exported: offset %d, %+v, %v", b.Offset, info, err)
	if info.Size != m.Size() || info.Exporter != "nv_dmabuf" {
		t.Errorf("a buffer of %d bytes of %q, for %d", info.Size, info.Exporter, m.Size())
	}
	flags, _ := unix.FcntlInt(uintptr(b.FD()), unix.F_GETFD, 0)
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", b.FD()))
	t.Logf("close on exec %v; fdinfo %q", flags&unix.FD_CLOEXEC != 0, text)
	if _, err := unix.Mmap(b.FD(), 0, 4096, unix.PROT_READ, unix.MAP_SHARED); !errors.Is(err, errname.NotSupported) {
		t.Errorf("mmap of the buffer: %v, not 524", err)
	}
	t.Logf("begin CPU access: %v, end: %v, name: %v", b.BeginCPU(CPURead), b.EndCPU(CPURead), b.SetName("peerdirect"))

	second, err := m.Export(0, m.Size())
	if err != nil {
		t.Fatal(err)
	}
	info2, _ := second.Info()
	t.Logf("inode of a second export: %d after %d", info2.Inode, info.Inode)
	second.Close()
	subRanges(t, m, x.kind)

	if err := m.Close(); err != nil {
		t.Error(err)
	}
	after, err := b.Info()
	t.Logf("the buffer after its memory was freed: %+v, %v", after, err)
	if err != nil || after.Size != info.Size {
		t.Error("the buffer did not outlive its memory")
	}
	if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read of closed memory: %v", err)
	}
	if err := errors.Join(b.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if n := descriptors(t); n != fds {
		t.Logf("descriptors: %d before, %d after; the driver keeps its own", fds, n)
	}
	if now := fmt.Sprint(Live()); now != objects {
		t.Errorf("open objects: %s before, %s after", objects, now)
	}
}

// copies writes all of the memory, and reads it and parts of it back.
func copies(t *testing.T, m Memory) {
	t.Helper()
	want := make([]byte, m.Size())
	r := rand.NewChaCha8([32]byte{1})
	r.Read(want)
	if n, err := m.WriteAt(want, 0); n != len(want) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	got := make([]byte, len(want))
	if n, err := m.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read back: %d, %v, the same: %v", n, err, bytes.Equal(got, want))
	}
	if n, err := m.WriteAt([]byte("across"), 4093); err != nil && err != io.EOF || n == 0 {
		t.Errorf("write across a page: %d, %v", n, err)
	}
	copy(want[4093:], "across")
	if n, err := m.ReadAt(got[:100], int64(len(want)-50)); n != 50 || err != io.EOF || !bytes.Equal(got[:50], want[len(want)-50:]) {
		t.Errorf("read across the end: %d, %v", n, err)
	}
	if _, err := m.ReadAt(got[:1], int64(len(want)+1)); !errors.Is(err, ErrRange) {
		t.Errorf("read past the end: %v", err)
	}
}

// subRanges exports parts that begin and end anywhere.
func subRanges(t *testing.T, m Memory, x cudaKind) {
	t.Helper()
	page := uint64(os.Getpagesize())
	for _, r := range [][2]uint64{{1, 1}, {4095, 1}, {100, m.Size() - 100}, {m.Size() / 2, 1000}, {m.Size()/2 + 4000, 90}, {m.Size() - 1, 1}} {
		if r[0]+r[1] > m.Size() {
			continue
		}
		b, err := m.Export(r[0], r[1])
		if err != nil {
			t.Errorf("%d bytes from %d on: %v", r[1], r[0], err)
			continue
		}
		info, _ := b.Info()
		// Of a pool, a buffer may begin anywhere before.
		if (b.Offset-m.Address()-r[0])%page != 0 || x != cudaPool && b.Offset >= page || b.Length != r[1] || b.Offset+b.Length > info.Size {
			t.Errorf("%d bytes from %d on: offset %d, length %d in a buffer of %d", r[1], r[0], b.Offset, b.Length, info.Size)
		}
		t.Logf("%d bytes from %d on: offset %d in a buffer of %d", r[1], r[0], b.Offset, info.Size)
		b.Close()
	}
	for _, r := range [][2]uint64{{0, m.Size() + 1}, {m.Size(), 1}, {1, m.Size()}, {0, 0}, {^uint64(0), 2}} {
		if _, err := m.Export(r[0], r[1]); !errors.Is(err, ErrRange) {
			t.Errorf("%d bytes from %d on: %v", r[1], r[0], err)
		}
	}
}

func TestCUDAThousandExports(t *testing.T) {
	x, d := needCUDA(t)
	if err := x.Available(); err != nil {
		t.Skip("needs a GPU whose driver exports dma-bufs: ", err)
	}
	primary(t, d)
	for _, size := range []uint64{4 << 10, 2 << 20, 64 << 20, 1 << 30, 16 << 30} {
		m, err := x.Allocate(size)
		if err != nil {
			t.Logf("%d bytes: %v", size, err)
			continue
		}
		fds, begin := descriptors(t), time.Now()
		for range 1000 {
			b, err := m.Export(0, size)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d bytes: %v for an export and its close", size, time.Since(begin)/1000)
		if n := descriptors(t); n != fds {
			t.Errorf("descriptors: %d before 1000 exports, %d after", fds, n)
		}
		begin = time.Now()
		for range 1000 {
			if _, err := m.Identity(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%v for an identity", time.Since(begin)/1000)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
