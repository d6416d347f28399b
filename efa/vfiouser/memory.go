package vfiouser

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Memory is the client's memory as the device sees it, by DMA address: the
// ranges that the client has mapped (DMA_MAP) and shares by descriptor. It is
// empty before a client has come and after it has gone.
//
// A device takes the hold (Lock, Unlock), asks for bytes and works on them; an
// unmap waits until no hold is left, and only then is answered, so that what a
// client has unmapped is touched no more. The hold is shared: any number of
// goroutines have it at once. Keep it for the length of one message or batch of
// entries, do not take it twice in one goroutine, and do not wait for the client
// under it.
type Memory struct {
	known func(dev, ino uint64) bool // Options.Marked

	mu   sync.RWMutex
	maps []dmaMap // by address, disjoint
}

// dmaMap is one mapped range.
type dmaMap struct {
	addr uint64
	size uint64 // never 0; addr+size-1 does not overflow
	// bytes is the range in this process, nil if the client gave no
	// descriptor. Of a range that it may not write, a device has the client's
	// pages until it writes there, and from then on copies of its own: what it
	// writes never reaches the client, and does not end this process either.
	bytes  []byte
	marked bool // what Options.Marked said of its file
}

func (m *dmaMap) last() uint64 { return m.addr + (m.size - 1) }

// Lock takes the shared hold.
func (m *Memory) Lock() { m.mu.RLock() }

// Unlock gives it back. What Bytes gave must not be used after it.
func (m *Memory) Unlock() { m.mu.RUnlock() }

// Bytes gives up to n contiguous bytes at a DMA address, fewer if the range that
// holds it ends sooner, and nil if the address is not mapped. What is written to a
// range that the client lets only be read is lost. The caller has the hold.
func (m *Memory) Bytes(addr uint64, n int) []byte {
	i := m.find(addr)
	if i == len(m.maps) || n <= 0 {
		return nil
	}
	r := &m.maps[i]
	if addr < r.addr || r.bytes == nil {
		return nil
	}
	off := addr - r.addr
	end := r.size
	if uint64(n) < end-off {
		end = off + uint64(n)
	}
	return r.bytes[off:end:end]
}

// Marked tells whether the byte at a DMA address lies in a file that
// Options.Marked knows, and that what is written there gets to. It goes by the
// file itself, whatever address the client has it at. The caller has the hold.
func (m *Memory) Marked(addr uint64) bool {
	i := m.find(addr)
	return i < len(m.maps) && addr >= m.maps[i].addr && m.maps[i].marked
}

// find gives the index of the first range that ends at addr or after it.
func (m *Memory) find(addr uint64) int {
	lo, hi := 0, len(m.maps)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if m.maps[mid].last() < addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// add maps a range. fd is borrowed, or -1 if the client shares no memory for
// it; offset is where the range begins in it.
func (m *Memory) add(addr, size, offset uint64, writable bool, fd int) error {
	if size == 0 || addr+(size-1) < addr || (addr|size|offset)%pageSize != 0 {
		return fmt.Errorf("range of %#x bytes at %#x, offset %#x: %w", size, addr, offset, syscall.EINVAL)
	}
	// Only the goroutine that serves the client changes the table, so it may
	// read it without the lock.
	i := m.find(addr)
	if i < len(m.maps) && m.maps[i].addr <= addr+(size-1) {
		return syscall.EEXIST
	}
	if len(m.maps) >= maxMaps {
		return syscall.ENOSPC
	}
	r := dmaMap{addr: addr, size: size}
	if fd >= 0 {
		var err error
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		if r.bytes, err = mapFile(fd, &st, offset, size, writable); err != nil {
			return err
		}
		r.marked = writable && m.known != nil && m.known(st.Dev, st.Ino)
	}
	m.mu.Lock()
	m.maps = slices.Insert(m.maps, i, r)
	m.mu.Unlock()
	return nil
}

// mapFile maps a range of a file that another process gave.
func mapFile(fd int, st *unix.Stat_t, offset, size uint64, writable bool) ([]byte, error) {
	end := offset + size
	// A page past the end of a file can be mapped, and kills who touches it.
	// What is not a file, such as the BAR of another function, has no size.
	if st.Mode&unix.S_IFMT == unix.S_IFREG && (end < offset || end > uint64(st.Size)) {
		return nil, fmt.Errorf("range to %#x of a file of %#x bytes: %w", end, st.Size, syscall.EINVAL)
	}
	if end < offset || end > 1<<62 {
		return nil, syscall.EOVERFLOW
	}
	kind := unix.MAP_SHARED
	if !writable {
		kind = unix.MAP_PRIVATE
	}
	b, err := unix.Mmap(fd, int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, kind|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return b, nil
}

// remove unmaps every range inside [addr, addr+size), and waits until no device
// works there. As with the kernel's own VFIO, a range must not be cut in two, and
// to unmap what is not mapped is no error.
func (m *Memory) remove(addr, size uint64) error {
	if size == 0 || addr+(size-1) < addr {
		return syscall.EINVAL
	}
	last := addr + (size - 1)
	from := m.find(addr)
	to := from
	for to < len(m.maps) && m.maps[to].addr <= last {
		if r := &m.maps[to]; r.addr < addr || r.last() > last {
			return fmt.Errorf("%#x bytes at %#x cut the range of %#x at %#x: %w", size, addr, r.size, r.addr, syscall.EINVAL)
		}
		to++
	}
	m.delete(from, to)
	return nil
}

// clear unmaps everything.
func (m *Memory) clear() { m.delete(0, len(m.maps)) }

func (m *Memory) delete(from, to int) {
	if from == to {
		return
	}
	m.mu.Lock()
	gone := slices.Clone(m.maps[from:to])
	m.maps = slices.Delete(m.maps, from, to)
	m.mu.Unlock()
	for _, r := range gone {
		if r.bytes != nil {
			unix.Munmap(r.bytes) // fails only for what was never mapped
		}
	}
}
