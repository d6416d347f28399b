package vfiouser

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMemory(t *testing.T) {
	s := NewServer(Options{})
	c, _ := serve(t, s, newBoard(t))
	c.hello()
	file := memfd(t, 4*pageSize)
	if _, err := file.WriteAt([]byte("second page"), pageSize); err != nil {
		t.Fatal(err)
	}
	fd := int(file.Fd())
	const base = 1 << 40
	c.want(0, CmdDMAMap, mapBody(3, pageSize, base, 2*pageSize), fd)
	c.want(0, CmdDMAMap, mapBody(3, 0, base+2*pageSize, pageSize), fd)
	c.want(0, CmdDMAMap, mapBody(1, 0, base+4*pageSize, pageSize), fd) // read-only
	c.want(0, CmdDMAMap, mapBody(3, 0, base+5*pageSize, pageSize))     // not shared
	c.want(0, CmdDMAMap, mapBody(3, 0, 1<<64-pageSize, pageSize), fd)  // the last page there is
	for _, at := range []uint64{base, base + pageSize, base + 2*pageSize, base - pageSize, base + 5*pageSize} {
		c.want(syscall.EEXIST, CmdDMAMap, mapBody(3, 0, at, 2*pageSize), fd)
	}

	m := s.Memory()
	for _, test := range []struct {
		name string
		addr uint64
		n    int
		want int // bytes
	}{
		{"whole", base, 2 * pageSize, 2 * pageSize},
		{"to the range's end", base + pageSize, 2 * pageSize, pageSize},
		{"next range", base + 2*pageSize, 10, 10},
		{"last byte", base + 3*pageSize - 1, 10, 1},
		{"after", base + 3*pageSize, 1, 0},
		{"before", base - 1, 1, 0},
		{"nothing", base, 0, 0},
		{"negative", base, -1, 0},
		{"read-only", base + 4*pageSize, 8, 8},
		{"not shared", base + 5*pageSize, 1, 0},
		{"last page", 1<<64 - 1, 100, 1},
		{"zero", 0, 1, 0},
	} {
		m.Lock()
		got := m.Bytes(test.addr, test.n)
		if len(got) != test.want || cap(got) != test.want {
			t.Errorf("%s: %d bytes (room for %d), want %d", test.name, len(got), cap(got), test.want)
		}
		m.Unlock()
	}
	m.Lock()
	if got := m.Bytes(base, 11); !bytes.Equal(got, []byte("second page")) {
		t.Errorf("memory holds %q", got)
	}
	copy(m.Bytes(base+5, 6), "PAGE!!")
	m.Unlock()
	var back [11]byte
	if _, err := file.ReadAt(back[:], pageSize); err != nil || string(back[:]) != "seconPAGE!!" {
		t.Errorf("the client sees %q, %v", back, err)
	}

	// A range to be read only shows what the client has there, also later; what
	// the device writes never gets to the client.
	if _, err := file.WriteAt([]byte("first page"), 0); err != nil {
		t.Fatal(err)
	}
	m.Lock()
	if got := m.Bytes(base+4*pageSize, 10); !bytes.Equal(got, []byte("first page")) {
		t.Errorf("the read-only range holds %q", got)
	}
	copy(m.Bytes(base+4*pageSize, 10), "by device!")
	m.Unlock()
	if _, err := file.ReadAt(back[:10], 0); err != nil || string(back[:10]) != "first page" {
		t.Errorf("the client sees %q, %v", back[:10], err)
	}

	c.want(syscall.EINVAL, CmdDMAUnmap, unmapBody(0, base+pageSize, 2*pageSize)) // would cut the first in two
	c.want(0, CmdDMAUnmap, unmapBody(0, base+64*pageSize, pageSize))             // nothing there
	r := c.want(0, CmdDMAUnmap, unmapBody(0, base, 3*pageSize))                  // two at once
	if !bytes.Equal(r.body, unmapBody(0, base, 3*pageSize)) {
		t.Errorf("unmap's reply is %x", r.body)
	}
	m.Lock()
	if m.Bytes(base, 1) != nil || m.Bytes(base+2*pageSize, 1) != nil {
		t.Error("memory is there after its unmap")
	}
	m.Unlock()
	c.want(0, CmdDMAMap, mapBody(3, 0, base, pageSize), fd) // free again
	c.want(0, CmdDMAUnmap, unmapBody(unmapAll, 0, 0))
	if len(m.maps) != 0 {
		t.Errorf("%d ranges after unmapping all", len(m.maps))
	}
}

// An address is marked by the file behind it, wherever the client has it, and
// however it came by a descriptor of it.
func TestMarked(t *testing.T) {
	known, other := memfd(t, 4*pageSize), memfd(t, 4*pageSize)
	var st unix.Stat_t
	if err := unix.Fstat(int(known.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	s := NewServer(Options{Marked: func(dev, ino uint64) bool { return dev == st.Dev && ino == st.Ino }})
	c, _ := serve(t, s, newBoard(t))
	c.hello()
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", known.Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	const base = 1 << 32
	c.want(0, CmdDMAMap, mapBody(3, 0, base, pageSize), int(other.Fd()))
	c.want(0, CmdDMAMap, mapBody(3, 2*pageSize, base+pageSize, pageSize), int(known.Fd()))
	c.want(0, CmdDMAMap, mapBody(3, 0, base+2*pageSize, pageSize), int(again.Fd()))
	c.want(0, CmdDMAMap, mapBody(3, 0, base+3*pageSize, pageSize))                  // no file
	c.want(0, CmdDMAMap, mapBody(1, 0, base+4*pageSize, pageSize), int(known.Fd())) // the device would write to a copy
	m := s.Memory()
	for addr, want := range map[uint64]bool{
		base: false, base + pageSize - 1: false, base + pageSize: true, base + 3*pageSize - 1: true,
		base + 3*pageSize: false, base - 1: false, base + 4*pageSize: false, base + 5*pageSize: false,
	} {
		m.Lock()
		if got := m.Marked(addr); got != want {
			t.Errorf("%#x: marked %v", addr, got)
		}
		m.Unlock()
	}
	// Another file at the same address is another matter.
	c.want(0, CmdDMAUnmap, unmapBody(0, base+pageSize, pageSize))
	c.want(0, CmdDMAMap, mapBody(3, 0, base+pageSize, pageSize), int(other.Fd()))
	m.Lock()
	if m.Marked(base + pageSize) {
		t.Error("the mark stayed with the address")
	}
	m.Unlock()
}

// TestUnmapWaitsForTheDevice has holders that write into memory all the time, and
// a client that maps and unmaps it: were a range gone under a hold, this process
// would die by a signal.
func TestUnmapWaitsForTheDevice(t *testing.T) {
	s := NewServer(Options{})
	c, _ := serve(t, s, newBoard(t))
	c.hello()
	fd := int(memfd(t, 16*pageSize).Fd())
	var stop atomic.Bool
	var hits atomic.Int64
	var devices sync.WaitGroup
	for range 3 {
		devices.Go(func() {
			for !stop.Load() {
				s.Memory().Lock()
				if b := s.Memory().Bytes(pageSize, 8*pageSize); b != nil {
					for i := 0; i < len(b); i += 512 {
						b[i]++
					}
					hits.Add(1)
				}
				s.Memory().Unlock()
				runtime.Gosched()
			}
		})
	}
	for range 30 {
		c.want(0, CmdDMAMap, mapBody(3, 0, pageSize, 8*pageSize), fd)
		before := hits.Load()
		for end := time.Now().Add(patience); hits.Load() == before; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("the device never met the memory")
			}
		}
		c.want(0, CmdDMAUnmap, unmapBody(0, pageSize, 8*pageSize)) // in the middle of it
	}
	stop.Store(true)
	devices.Wait()

	// And the reply really waits: while a hold lasts there is none.
	c.want(0, CmdDMAMap, mapBody(3, 0, pageSize, pageSize), fd)
	s.Memory().Lock()
	held := s.Memory().Bytes(pageSize, pageSize)
	c.send(CmdDMAUnmap, 0, unmapBody(0, pageSize, pageSize))
	c.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes of a reply while the device works", n)
	}
	held[0] = 1 // still there
	s.Memory().Unlock()
	if r := c.receive(CmdDMAUnmap); r.errno != 0 {
		t.Error(r.errno)
	}
}

func BenchmarkBytes(b *testing.B) {
	s := NewServer(Options{})
	c, _ := serve(b, s, newBoard(b))
	c.hello()
	fd := int(memfd(b, 64*pageSize).Fd())
	for i := range uint64(32) {
		c.want(0, CmdDMAMap, mapBody(3, 0, 2*i*pageSize, pageSize), fd)
	}
	m := s.Memory()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Lock()
		if m.Bytes(uint64(2*(i%32)*pageSize), 64) == nil {
			b.Fatal("not mapped")
		}
		m.Unlock()
	}
}

// BenchmarkPostedWrite is a guest's store to a region that is not mapped: the
// cost of one message that nobody waits for.
func BenchmarkPostedWrite(b *testing.B) {
	c, _ := serve(b, NewServer(Options{}), newBoard(b))
	c.hello()
	body := accessBody(2, 0, 8, make([]byte, 8)...)
	b.ReportAllocs()
	for b.Loop() {
		c.send(CmdRegionWrite, flagNoReply, body)
	}
	c.want(0, CmdRegionRead, accessBody(2, 0, 8))
}
