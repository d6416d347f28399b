package mrcache_test

import (
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/transfer/mrcache"
)

// arena is a piece of address space with pages of a memfd behind it, others each
// time that memory is allocated. As with memory that a driver has pinned, what is
// registered are the pages that were behind an address at the time, whatever is
// mapped there later.
type arena struct {
	t    testing.TB
	fd   int
	base uint64

	mu    sync.Mutex
	pages []int // behind each page of address space, its page of the memfd, or -1
	next  int   // page of the memfd that was never used
}

func newArena(t testing.TB, size int) *arena {
	t.Helper()
	a := &arena{t: t, pages: make([]int, size/page)}
	var err error
	if a.fd, err = unix.MemfdCreate("arena", unix.MFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(a.fd, 1<<40); err != nil { // it has no pages yet
		t.Fatal(err)
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	a.base = uint64(uintptr(p))
	for i := range a.pages {
		a.pages[i] = -1
	}
	t.Cleanup(func() {
		unix.MunmapPtr(p, uintptr(size))
		unix.Close(a.fd)
	})
	return a
}

// at is the memory at an address of the arena.
func at(addr uint64, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

func pointer(addr uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// alloc maps new pages at an offset.
func (a *arena) alloc(offset, n int) uint64 {
	a.t.Helper()
	a.mu.Lock()
	first := a.next
	a.next += n / page
	for i := range n / page {
		a.pages[offset/page+i] = first + i
	}
	a.mu.Unlock()
	addr := a.base + uint64(offset)
	if _, err := unix.MmapPtr(a.fd, int64(first*page), pointer(addr), uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		a.t.Error(err)
	}
	return addr
}

// unmap takes memory away.
func (a *arena) unmap(addr uint64, n int) {
	a.t.Helper()
	if _, err := unix.MmapPtr(-1, 0, pointer(addr), uintptr(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED); err != nil {
		a.t.Error(err)
	}
	a.forget(addr, n)
}

// forget frees the pages that were behind an address.
func (a *arena) forget(addr uint64, n int) {
	a.mu.Lock()
	first := int(addr-a.base) / page
	offset := int64(a.pages[first]) * page
	for i := range n / page {
		a.pages[first+i] = -1
	}
	a.mu.Unlock()
	if err := unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, int64(n)); err != nil {
		a.t.Error(err)
	}
}

// pinned maps the pages that are behind a range now, elsewhere: what a driver
// gets when it pins them.
func (a *arena) pinned(r mrcache.Range) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock() // the pages stay what they are meanwhile
	first, n := int(r.Addr-a.base)/page, int(r.Length)/page
	if r.Addr%page != 0 || r.Length%page != 0 || first+n > len(a.pages) {
		return nil, unix.EFAULT
	}
	for i := range n {
		if a.pages[first+i] < 0 {
			return nil, unix.EFAULT
		}
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(r.Length), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	for i := 0; i < n; {
		k := 1
		for i+k < n && a.pages[first+i+k] == a.pages[first+i]+k {
			k++
		}
		if _, err := unix.MmapPtr(a.fd, int64(a.pages[first+i]*page), unsafe.Add(p, i*page), uintptr(k*page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			unix.MunmapPtr(p, uintptr(r.Length))
			return nil, err
		}
		i += k
	}
	return unsafe.Slice((*byte)(p), r.Length), nil
}

// reserved is anonymous memory; pages that nobody touches take none.
func reserved(t testing.TB, n int) uint64 {
	t.Helper()
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.MunmapPtr(p, uintptr(n)) })
	return uint64(uintptr(p))
}
