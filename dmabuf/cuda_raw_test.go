package dmabuf

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/internal/cuda"
)

// What the driver itself answers, below this package's own checks. Little of it
// is written down anywhere: these tests print it, and fail where an answer that
// the package builds on has changed.

// logPointer prints every attribute of an address.
func logPointer(t *testing.T, what string, p uint64) {
	t.Helper()
	text := fmt.Sprintf("%s %#x:", what, p)
	for _, a := range []cuda.PointerAttribute{cuda.PointerContext, cuda.PointerMemoryType, cuda.PointerBufferID, cuda.PointerIsManaged,
		cuda.PointerDevice, cuda.PointerLegacyIPC, cuda.PointerRangeStart, cuda.PointerRangeSize, cuda.PointerMapped, cuda.PointerHandleTypes,
		cuda.PointerRDMACapable, cuda.PointerPool, cuda.PointerMappingBase, cuda.PointerMappingSize, cuda.PointerMemoryBlockID} {
		v, err := cuda.Context(0).Attribute(a, p)
		if err != nil {
			text += fmt.Sprintf(" %d=(%v)", a, err)
		} else {
			text += fmt.Sprintf(" %d=%#x", a, v)
		}
	}
	t.Log(text)
}

// raw exports, prints and closes.
func raw(t *testing.T, what string, ctx cuda.Context, p, size, flags uint64) error {
	t.Helper()
	fd, err := ctx.Export(p, size, flags)
	if err != nil {
		t.Logf("%s: %d bytes at %#x, flags %d: %v", what, size, p, flags, err)
		return err
	}
	n, _ := unix.Seek(fd, 0, io.SeekEnd)
	inode, _ := inodeOf(fd)
	t.Logf("%s: %d bytes at %#x, flags %d: a buffer of %d, inode %d", what, size, p, flags, n, inode)
	unix.Close(fd)
	return nil
}

func TestCUDARawPlain(t *testing.T) {
	_, d := needCUDA(t)
	ctx := primary(t, d)
	var all []uint64
	for _, size := range []uint64{100, 512, 4096, 100, 4096, 64 << 10, 3 << 20} {
		p, err := ctx.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		logPointer(t, fmt.Sprintf("cuMemAlloc of %d", size), p)
		down := p &^ 4095
		raw(t, "as it is", ctx, p, size, 0)
		raw(t, "aligned down, one page", ctx, down, 4096, 0)
		raw(t, "aligned down, one page, over PCIe", ctx, down, 4096, cuda.MapPCIe)
		raw(t, "an unknown flag", ctx, down, 4096, 2)
		raw(t, "aligned out", ctx, down, (p+size+4095)&^4095-down, 0)
		raw(t, "one page past the end", ctx, down, (p+size+4095)&^4095-down+4096, 0)
		if base, err := ctx.Attribute(cuda.PointerMappingBase, p); err == nil {
			length, _ := ctx.Attribute(cuda.PointerMappingSize, p)
			raw(t, "all of its block", ctx, base, length, 0)
			raw(t, "past the end of its block", ctx, base, length+4096, 0)
		}
		raw(t, "the whole 2 MiB", ctx, p&^(2<<20-1), 2<<20, 0)
		raw(t, "the page before", ctx, down-4096, 4096, 0)
		raw(t, "half a page", ctx, down, 2048, 0)
		raw(t, "nothing", ctx, down, 0, 0)
	}
	for _, p := range all {
		if err := ctx.Free(p); err != nil {
			t.Error(err)
		}
	}
}

func TestCUDARawPools(t *testing.T) {
	x, d := needCUDA(t)
	ctx := primary(t, d)
	standard, err := d.DefaultPool()
	if err != nil {
		t.Fatal(err)
	}
	private, err := d.CreatePool(false)
	if err != nil {
		t.Fatal(err)
	}
	shareable, err := d.CreatePool(true)
	if err != nil {
		t.Fatal(err)
	}
	for name, pool := range map[string]cuda.Pool{"default pool": standard, "private pool": private, "shareable pool": shareable} {
		for _, size := range []uint64{4096, 64 << 10, 32 << 20} {
			p, err := ctx.AllocFromPool(pool, size)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			logPointer(t, fmt.Sprintf("%s, %d", name, size), p)
			raw(t, name, ctx, p, size, 0)
			raw(t, name, ctx, p, size, cuda.MapPCIe)
			raw(t, name+", 2 MiB", ctx, p&^(2<<20-1), 2<<20, 0)
			m, err := x.Adopt(p, size)
			if err != nil {
				t.Logf("%s: adopt: %v", name, err)
			} else {
				b, err := m.Export(0, size)
				t.Logf("%s: export of the adopted: %v", name, err)
				if err == nil {
					b.Close()
				}
				m.Close()
			}
			if err := ctx.FreeAsync(p); err != nil {
				t.Error(err)
			}
		}
	}
	if err := errors.Join(private.Destroy(), shareable.Destroy()); err != nil {
		t.Error(err)
	}
}

// TestCUDARawVMM maps two pieces to one range, exports across them, and takes
// one away.
func TestCUDARawVMM(t *testing.T) {
	x, d := needCUDA(t)
	ctx := primary(t, d)
	granule, err := d.Granularity()
	if err != nil {
		t.Fatal(err)
	}
	at, err := ctx.Reserve(3 * granule)
	if err != nil {
		t.Fatal(err)
	}
	raw(t, "nothing mapped", ctx, at, granule, 0)
	for i := range uint64(2) {
		if err := ctx.Map(d, at+i*granule, granule, true); err != nil {
			t.Fatal(err)
		}
		logPointer(t, fmt.Sprintf("piece %d", i), at+i*granule+100)
	}
	if err := raw(t, "across two pieces", ctx, at, 2*granule, 0); err != nil {
		t.Error("a range of two pieces cannot be exported")
	}
	raw(t, "across two pieces, over PCIe", ctx, at, 2*granule, cuda.MapPCIe)
	raw(t, "two pages across the border", ctx, at+granule-4096, 8192, 0)
	raw(t, "into what is not mapped", ctx, at+granule, 2*granule, 0)
	m, err := x.Adopt(at+100, 2*granule-100)
	if err != nil {
		t.Fatalf("adopt across two pieces: %v", err)
	}
	logPointer(t, "reserved, not mapped", at+2*granule)
	if _, err := x.Adopt(at, 2*granule+1); !errors.Is(err, ErrRange) {
		t.Errorf("adopt into what is not mapped: %v", err)
	} else {
		t.Log(err)
	}
	copies(t, m)
	b, err := m.Export(0, m.Size())
	if err != nil {
		t.Fatal(err)
	}
	before, _ := m.Identity()
	// Another piece in the place of the second.
	if err := ctx.Unmap(at+granule, granule); err != nil {
		t.Fatal(err)
	}
	raw(t, "half unmapped", ctx, at, 2*granule, 0)
	info, err := b.Info()
	t.Logf("the buffer after a piece was unmapped: %+v, %v", info, err)
	holed, err := m.Identity()
	t.Logf("identity %v before, %v with a hole, %v", before, holed, err)
	if !errors.Is(err, ErrClosed) {
		t.Errorf("memory with a hole has an identity: %v", err)
	}
	_, err = m.Export(0, m.Size())
	t.Logf("export with a hole: %v", err)
	if err := ctx.Map(d, at+granule, granule, true); err != nil {
		t.Fatal(err)
	}
	logPointer(t, "the new piece", at+granule)
	after, err := m.Identity()
	t.Logf("identity with another piece: %v, %v", after, err)
	if after == before {
		t.Error("memory with another piece behind it has the identity it had")
	}
	if err := errors.Join(b.Close(), m.Close(), ctx.Unmap(at, granule), ctx.Unmap(at+granule, granule)); err != nil {
		t.Error(err)
	}
	if err := ctx.Map(d, at, granule, false); err != nil {
		t.Fatal(err)
	}
	logPointer(t, "a piece not made for RDMA", at)
	raw(t, "a piece not made for RDMA", ctx, at, granule, 0)
	if err := ctx.Map(d, at+granule, granule, true); err != nil {
		t.Fatal(err)
	}
	raw(t, "a piece not made for RDMA and one that is", ctx, at, 2*granule, 0)
	if err := errors.Join(ctx.Unmap(at, granule), ctx.Unmap(at+granule, granule), ctx.Unreserve(at, 3*granule)); err != nil {
		t.Error(err)
	}
}

// TestCUDARawPoolParts: where an export of pool memory may begin.
func TestCUDARawPoolParts(t *testing.T) {
	x, d := needCUDA(t)
	ctx := primary(t, d)
	pool, err := d.DefaultPool()
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for _, size := range []uint64{100, 4096, 64 << 10, 3 << 20, 40 << 20} {
		p, err := ctx.AllocFromPool(pool, size)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		logPointer(t, fmt.Sprintf("pool, %d", size), p)
		down, out := p&^4095, (p+size+4095)&^4095
		piece, _ := ctx.Attribute(cuda.PointerMappingBase, p)
		raw(t, "aligned out", ctx, down, out-down, 0)
		raw(t, "its first page", ctx, down, 4096, 0)
		raw(t, "its second page", ctx, down+4096, 4096, 0)
		raw(t, "its last page", ctx, out-4096, 4096, 0)
		raw(t, "the middle 64 KiB", ctx, (p+size/2)&^65535, 64<<10, 0)
		raw(t, "the middle 2 MiB", ctx, (p+size/2)&^(2<<20-1), 2<<20, 0)
		raw(t, "from the piece's start to its end", ctx, piece, out-piece, 0)
		logPointer(t, "its last byte", p+size-1)
		m, err := x.Adopt(p, size)
		if err != nil {
			t.Errorf("adopt: %v", err)
			continue
		}
		for _, off := range []uint64{0, size / 2, size - 1} {
			b, err := m.Export(off, 1)
			if err != nil {
				t.Errorf("one byte at %d: %v", off, err)
				continue
			}
			info, _ := b.Info()
			t.Logf("one byte at %d: offset %d in a buffer of %d", off, b.Offset, info.Size)
			b.Close()
		}
		m.Close()
	}
	for _, p := range all {
		if err := ctx.FreeAsync(p); err != nil {
			t.Error(err)
		}
	}
}
