package dmabuf

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMemfdBehindAnAddress(t *testing.T) {
	const text = `1000-3000 rw-s 00001000 00:01 5 /memfd:a (deleted)
3000-4000 rw-s 00003000 00:01 5 /memfd:a (deleted)
4000-5000 rw-s 00009000 00:01 5 /memfd:a (deleted)
5000-6000 rw-s 00000000 00:01 6 /memfd:b (deleted)
7000-8000 rw-p 00000000 00:01 6 /memfd:b (deleted)
8000-9000 r--s 00000000 00:01 6 /memfd:b (deleted)
9000-a000 rw-p 00000000 00:00 0
a000-b000 rw-p 00000000 00:00 0 [heap]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
`
	for name, c := range map[string]struct {
		address, size uint64
		problem       string
	}{
		"within one":          {0x1800, 0x100, ""},
		"over two pieces":     {0x1800, 0x2000, ""},
		"to the last byte":    {0x1000, 0x3000, ""},
		"another part":        {0x3800, 0x1000, "not in one piece"},
		"another memfd":       {0x4800, 0x1000, "not in one piece"},
		"over a hole":         {0x5800, 0x1900, "nothing is mapped"},
		"into a hole":         {0x5000, 0x1800, "nothing is mapped"},
		"in a hole":           {0x6800, 0x10, "nothing is mapped"},
		"before all":          {0x10, 0x10, "nothing is mapped"},
		"begins in a hole":    {0x800, 0x1000, "nothing is mapped"},
		"private":             {0x7000, 0x1000, "MAP_SHARED"},
		"read-only":           {0x8000, 0x1000, "mapped r--s"},
		"anonymous":           {0x9000, 0x1000, "anonymous memory"},
		"heap":                {0xa800, 0x10, "[heap]"},
		"behind all":          {1<<64 - 2, 1, "nothing is mapped"},
		"one byte at the end": {0x3fff, 1, ""},
	} {
		_, err := findMapping(text, c.address, c.size)
		if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %v, want %q", name, err, c.problem)
		}
	}
	l, err := findMapping(text, 0x3800, 0x100)
	if err != nil || l.Start != 0x3000 || l.Offset != 0x3000 || l.inode != 5 {
		t.Errorf("%+v, %v", l, err)
	}
}

// Sealing and finding need no udmabuf, so they run everywhere.
func TestAdoptingSharedMemoryByItsAddress(t *testing.T) {
	leavesNothing(t)
	m := &memfd{"/"}
	fd, data, err := newMemfd("test", 4*page)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer unix.Munmap(data)
	address := addressOf(data)
	mem, err := m.Adopt(address+page+8, page)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if n, err := mem.WriteAt([]byte("here"), 2); n != 4 || err != nil || string(data[page+10:page+14]) != "here" {
		t.Errorf("wrote %d, %v", n, err)
	}
	if mem.Address() != address+page+8 || mem.Size() != page {
		t.Errorf("%d bytes at %#x", mem.Size(), mem.Address())
	}
	whole, err := AdoptMemfd(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	a, _ := mem.Identity()
	b, err := whole.Identity()
	if err != nil || a != b || a.Kind != "memfd" || a.ID == 0 {
		t.Errorf("one memfd is %+v and %+v, %v", a, b, err)
	}
	got := make([]byte, 4)
	if _, err := whole.ReadAt(got, page+10); err != nil || string(got) != "here" {
		t.Errorf("the whole has %q, %v", got, err)
	}
	// Closing forgets what was adopted, and leaves it to its owner.
	mem.Close()
	whole.Close()
	data[0] = 1
}

func TestGoroutinesShareMemory(t *testing.T) {
	leavesNothing(t)
	const workers = 8
	fd, data, err := newMemfd("test", workers*page)
	if err != nil {
		t.Fatal(err)
	}
	m := newMemfdMemory("/", fd, 0, data, true)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			for round := range 50 {
				want := pattern(page, byte(w*50+round))
				got := make([]byte, page)
				m.WriteAt(want, int64(w)*page)
				if _, err := m.ReadAt(got, int64(w)*page); err != nil || !bytes.Equal(got, want) {
					t.Errorf("goroutine %d, round %d: %v", w, round, err)
				}
				if id, err := m.Identity(); err != nil || id.ID == 0 || m.Address() == 0 {
					t.Errorf("%+v, %v", id, err)
				}
			}
		})
	}
	done.Wait()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = m.ReadAt(make([]byte, 1), 0)
	refused(t, err, ErrClosed)
}

func TestMemoryThatNoDMABufCanHoldIsNotAdopted(t *testing.T) {
	leavesNothing(t)
	m := &memfd{"/"}
	var local [64]byte
	_, err := m.Adopt(uint64(uintptr(unsafe.Pointer(&local[0]))), 64)
	refused(t, err, ErrUnsupported, "memfd")
	for name, c := range map[string]struct {
		flags, seals int
		problem      string
	}{
		"sealed shut":            {0, 0, "MFD_ALLOW_SEALING"},
		"sealed against writing": {unix.MFD_ALLOW_SEALING, unix.F_SEAL_FUTURE_WRITE, "against writing"},
	} {
		fd, err := unix.MemfdCreate("t", unix.MFD_CLOEXEC|c.flags)
		if err != nil {
			t.Fatal(err)
		}
		unix.Ftruncate(fd, page)
		if c.seals != 0 {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, c.seals); err != nil {
				t.Fatal(err)
			}
		}
		_, err = AdoptMemfd(fd)
		t.Log(name)
		refused(t, err, ErrUnsupported, c.problem)
		unix.Close(fd)
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = AdoptMemfd(int(f.Fd()))
	refused(t, err, ErrUnsupported, "no memfd")
	_, err = AdoptMemfd(-1)
	refused(t, err, unix.EBADF)
}

func TestAdoptingSaysWhatTheDescriptorLacks(t *testing.T) {
	leavesNothing(t)
	fd, data, err := newMemfd("test", page)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer unix.Munmap(data)
	undo := exhaust(t, 0)
	_, err = (&memfd{"/"}).Adopt(addressOf(data), page)
	undo()
	refused(t, err, unix.EMFILE, "ulimit -n")

	unsealed, err := unix.MemfdCreate("t", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(unsealed)
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", unsealed))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = AdoptMemfd(int(f.Fd()))
	refused(t, err, ErrPermission, "reading only")
}
