package dmabuf

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// TestCUDAOwners: who gave the pointer decides whether it can be adopted.
func TestCUDAOwners(t *testing.T) {
	x, d := needCUDA(t)
	ctx := primary(t, d)
	plain, err := ctx.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	host, err := ctx.AllocHost(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	managed, err := ctx.AllocManaged(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	logPointer(t, "host", host)
	logPointer(t, "managed", managed)
	var local [4096]byte
	var pinned runtime.Pinner
	pinned.Pin(&local)
	defer pinned.Unpin()
	refused := func(what string, class error, p, size uint64, says string) {
		t.Helper()
		m, err := x.Adopt(p, size)
		if !errors.Is(err, class) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v", what, m, err)
			return
		}
		t.Logf("%s: %v", what, err)
	}
	refused("memory of Go", syscall.EFAULT, uint64(uintptr(unsafe.Pointer(&local))), 4096, "does not know")
	refused("page-locked memory", ErrUnsupported, host, 1<<20, "page-locked")
	refused("managed memory", ErrUnsupported, managed, 1<<20, "managed")
	refused("past the end", ErrRange, plain+100, 1<<20, "bytes")
	refused("nothing", syscall.EINVAL, plain, 0, "0 bytes")

	m, err := x.Adopt(plain+100, 1000)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Export(0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if b.Offset != (plain+100)%uint64(os.Getpagesize()) {
		t.Errorf("offset %d of a pointer %#x", b.Offset, plain+100)
	}
	id, err := m.Identity()
	t.Logf("adopted: identity %v, %v; offset %d", id, err, b.Offset)
	b.Close()
	if err := errors.Join(ctx.Free(plain), ctx.Free(managed), ctx.FreeHost(host)); err != nil {
		t.Error(err)
	}
	if _, err := m.Identity(); !errors.Is(err, ErrClosed) {
		t.Errorf("identity of freed memory: %v", err)
	} else {
		t.Log(err)
	}
	again, err := ctx.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	after, err := m.Identity()
	t.Logf("the next allocation is at %#x after %#x, identity there %v, %v", again, plain, after, err)
	if again == plain && after == id {
		t.Error("two allocations at one address have one identity")
	}
	if err := errors.Join(m.Close(), ctx.Free(again)); err != nil {
		t.Error(err)
	}
}
