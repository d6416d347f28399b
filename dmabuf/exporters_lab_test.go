//go:build lab

package dmabuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// labExporters are those that a stock kernel has without a device.
var labExporters = []string{"udmabuf", "heap:system", "memfd", "vgem"}

var loadVGEM = sync.OnceValue(func() error {
	out, err := exec.Command("modprobe", "vgem").CombinedOutput()
	if err != nil {
		return fmt.Errorf("modprobe vgem: %w\n%s", err, out)
	}
	return nil
})

// exporter opens an exporter, and skips the test where the kernel lacks it.
func exporter(t testing.TB, name string) Exporter {
	t.Helper()
	if os.Getenv("PEERDIRECT_NODE") == "" {
		t.Skip("needs a lab guest: run make test-lab")
	}
	if name == "vgem" {
		if err := loadVGEM(); err != nil {
			t.Fatal(err)
		}
	}
	e, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Available(); err != nil {
		t.Skipf("needs the exporter, which this kernel lacks: %v", err)
	}
	return e
}

// eachExporter runs a test on every exporter, and checks that it leaves
// neither objects nor descriptors.
func eachExporter(t *testing.T, f func(t *testing.T, e Exporter)) {
	for _, name := range labExporters {
		t.Run(name, func(t *testing.T) {
			e := exporter(t, name)
			leavesNothing(t)
			f(t, e)
		})
	}
}

// made is memory or a buffer that the test's end closes.
func made[T io.Closer](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return v
	}
}

// view maps the whole dma-buf of a buffer, as any holder of the descriptor can.
func view(t testing.TB, b *Buffer) []byte {
	t.Helper()
	info, err := b.Info()
	if err != nil {
		t.Fatal(err)
	}
	data, err := mapShared(b.FD(), 0, info.Size)
	if err != nil {
		t.Fatalf("mmap of the dma-buf: %v", err)
	}
	t.Cleanup(func() { unix.Munmap(data) })
	return data
}

// cpu stands between a begin and an end.
func cpu(t testing.TB, b *Buffer, access CPUAccess, f func()) {
	t.Helper()
	if err := b.BeginCPU(access); err != nil {
		t.Fatal(err)
	}
	f()
	if err := b.EndCPU(access); err != nil {
		t.Fatal(err)
	}
}

func TestExportedBytesAreThoseOfTheMemory(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		m := made[Memory](t)(e.Allocate(3*page + 1))
		if m.Size() != 4*page || m.Exporter() != e.Name() {
			t.Errorf("%s gave %d bytes", m.Exporter(), m.Size())
		}
		want := pattern(4*page, 1)
		if n, err := m.WriteAt(want, 0); n != len(want) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
		// Neither end of the range is a page's.
		const offset, length = page + 100, page + 904
		b := made[*Buffer](t)(m.Export(offset, length))
		if b.Length != length || b.Offset%page != offset%page || b.Exporter != e.Name() {
			t.Fatalf("buffer %+v", b)
		}
		info, err := b.Info()
		if err != nil || info.Size < b.Offset+length || info.Size%page != 0 || info.Inode == 0 || info.Exporter == "" || info.Count < 1 {
			t.Errorf("the kernel tells %+v, %v", info, err)
		}
		data := view(t, b)
		cpu(t, b, CPURead, func() {
			if !bytes.Equal(data[b.Offset:b.Offset+length], want[offset:offset+length]) {
				t.Error("the buffer has not what the memory has")
			}
		})
		news := pattern(length, 99)
		cpu(t, b, CPURead|CPUWrite, func() { copy(data[b.Offset:], news) })
		copy(want[offset:], news)
		got := make([]byte, len(want))
		if n, err := m.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, %v, right: %v", n, err, bytes.Equal(got, want))
		}
		if !bytes.Equal(m.Bytes(), want) || m.Address() == 0 {
			t.Error("what the process sees differs")
		}
	})
}

func TestMemoryGoesOnlyWithItsLastHolder(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		m, err := e.Allocate(2 * page)
		if err != nil {
			t.Fatal(err)
		}
		want := pattern(2*page, 7)
		m.WriteAt(want, 0)
		b := made[*Buffer](t)(m.Export(page, page))
		for range 2 {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		data := view(t, b)
		cpu(t, b, CPURead, func() {
			if !bytes.Equal(data[b.Offset:b.Offset+page], want[page:]) {
				t.Error("the bytes went with the memory")
			}
		})
		_, err = m.Identity()
		refused(t, err, ErrClosed)
		_, err = m.Export(0, page)
		refused(t, err, ErrClosed)
		_, err = m.ReadAt(want, 0)
		refused(t, err, ErrClosed)
		if m.Bytes() != nil || m.Address() != 0 {
			t.Error("closed memory has an address")
		}
		for range 2 {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, b.BeginCPU(CPURead), ErrClosed)
		_, err = b.Info()
		refused(t, err, ErrClosed)
		_, err = b.Hold()
		refused(t, err, ErrClosed)
		if b.FD() != -1 {
			t.Error("a closed buffer has a descriptor")
		}
	})
}

func TestNoTwoAllocationsAreTakenForOne(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		seen := make(map[Identity]bool)
		var address uint64
		again := 0
		for range 50 {
			m, err := e.Allocate(page)
			if err != nil {
				t.Fatal(err)
			}
			id, err := m.Identity()
			if err != nil || seen[id] || id.ID == 0 {
				t.Fatalf("identity %+v, %v, seen before: %v", id, err, seen[id])
			}
			seen[id] = true
			if m.Address() == address {
				again++
			}
			address = m.Address()
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if again == 0 {
			t.Log("no address came twice, so the test shows little")
		}
	})
}

func TestRangesOutsideTheMemoryAreRefused(t *testing.T) {
	eachExporter(t, func(t *testing.T, e Exporter) {
		m := made[Memory](t)(e.Allocate(page))
		for _, r := range [][2]uint64{{0, 0}, {page, 1}, {page - 1, 2}, {0, page + 1}, {1, 1<<64 - 1}, {1<<64 - 1, 2}} {
			_, err := m.Export(r[0], r[1])
			refused(t, err, ErrRange, e.Name())
		}
		p := make([]byte, 20)
		if n, err := m.ReadAt(p, page-10); n != 10 || err != io.EOF {
			t.Errorf("read %d, %v at the end", n, err)
		}
		for _, off := range []int64{-1, page + 1} {
			_, err := m.WriteAt(p, off)
			refused(t, err, ErrRange)
		}
		for _, size := range []uint64{0, 1<<64 - 1} {
			_, err := e.Allocate(size)
			refused(t, err, syscall.EINVAL, e.Name())
		}
		_, err := e.Allocate(1 << 50)
		var named *Error
		if !errors.As(err, &named) || named.Exporter != e.Name() {
			t.Errorf("a petabyte: %v", err)
		}
	})
}
