package vfiouser

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait of the tests.
const patience = 10 * time.Second

// client is the other side of the protocol, written from vfio-user.rst.
type client struct {
	t    testing.TB
	conn *net.UnixConn
	id   uint16
}

// reply is what came back: the error number, the payload and the descriptors.
type reply struct {
	errno syscall.Errno
	body  []byte
	files []*os.File
}

func (c *client) send(cmd Command, flags uint32, body []byte, fds ...int) {
	c.t.Helper()
	c.id++
	h := header{id: c.id, command: cmd, size: uint32(headerSize + len(body)), flags: flags}
	msg := make([]byte, headerSize, h.size)
	h.encode(msg)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := c.conn.WriteMsgUnix(append(msg, body...), rights, nil); err != nil {
		c.t.Fatalf("%s: %v", cmd, err)
	}
}

func (c *client) receive(cmd Command) reply {
	c.t.Helper()
	var head [headerSize]byte
	oob := make([]byte, unix.CmsgSpace(4*16))
	c.conn.SetDeadline(time.Now().Add(patience))
	n, oobn, _, _, err := c.conn.ReadMsgUnix(head[:], oob)
	if err == nil && n < headerSize {
		_, err = io.ReadFull(c.conn, head[n:])
	}
	if err != nil {
		c.t.Fatalf("%s: reading the reply: %v", cmd, err)
	}
	var r reply
	messages, _ := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			r.files = append(r.files, os.NewFile(uintptr(fd), "received"))
		}
	}
	var h header
	h.decode(head[:])
	if h.id != c.id || h.command != cmd || h.flags&flagType != flagReply {
		c.t.Fatalf("%s: the reply's header is %+v, want id %d", cmd, h, c.id)
	}
	if h.flags&flagError != 0 {
		r.errno = syscall.Errno(h.errno)
		if h.size != headerSize {
			c.t.Errorf("%s: an error of %d bytes: it has a header only", cmd, h.size)
		}
	}
	r.body = make([]byte, h.size-headerSize)
	if _, err := io.ReadFull(c.conn, r.body); err != nil {
		c.t.Fatalf("%s: reading the reply: %v", cmd, err)
	}
	return r
}

func (c *client) call(cmd Command, body []byte, fds ...int) reply {
	c.t.Helper()
	c.send(cmd, 0, body, fds...)
	return c.receive(cmd)
}

// want is a call that must end with an error number, or 0.
func (c *client) want(errno syscall.Errno, cmd Command, body []byte, fds ...int) reply {
	c.t.Helper()
	r := c.call(cmd, body, fds...)
	if r.errno != errno {
		c.t.Fatalf("%s: %v, want %v", cmd, r.errno, errno)
	}
	return r
}

func (c *client) hello() {
	c.t.Helper()
	c.want(0, CmdVersion, versionBody(0, 0, `{"capabilities":{"max_msg_fds":8,"write_multiple":true}}`))
}

func versionBody(major, minor uint16, text string) []byte {
	b := binary.LittleEndian.AppendUint16(nil, major)
	b = binary.LittleEndian.AppendUint16(b, minor)
	return append(append(b, text...), 0)
}

// words makes a payload of 32-bit values and, of type uint64, 64-bit ones.
func words(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, v)
		case []byte:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("words: %T", v))
		}
	}
	return b
}

func mapBody(flags int, offset, addr, size uint64) []byte {
	return words(dmaMapSize, flags, offset, addr, size)
}

func unmapBody(flags int, addr, size uint64) []byte {
	return words(dmaUnmapSize, flags, addr, size)
}

func accessBody(region int, offset uint64, count int, data ...byte) []byte {
	return words(offset, region, count, data)
}

// board is a device for tests: a config space, a region that the client may map
// a part of, a few vectors, and a count of its resets.
type board struct {
	mu     sync.Mutex
	config [256]byte
	bar    []byte
	file   *os.File
	resets int
}

const boardBAR = 4 * pageSize

func newBoard(t testing.TB) *board {
	file := memfd(t, boardBAR)
	bar, err := unix.Mmap(int(file.Fd()), 0, boardBAR, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(bar) })
	return &board{bar: bar, file: file}
}

func (b *board) Region(index int) uint64 {
	switch index {
	case 2:
		return boardBAR
	case RegionConfig:
		return uint64(len(b.config))
	}
	return 0
}

func (b *board) Interrupts(index int) int {
	if index == InterruptMSIX {
		return 4
	}
	return 0
}

func (b *board) MapRegion(index int) (*os.File, []Area) {
	if index == 2 {
		return b.file, []Area{{pageSize, pageSize}, {3 * pageSize, pageSize}}
	}
	return nil, nil
}

func (b *board) memory(index int) []byte {
	if index == RegionConfig {
		return b.config[:]
	}
	return b.bar
}

func (b *board) ReadRegion(index int, offset uint64, p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := copy(p, b.memory(index)[offset:]); n != len(p) {
		return fmt.Errorf("%d bytes at %d: %w", len(p), offset, syscall.ERANGE)
	}
	return nil
}

func (b *board) WriteRegion(index int, offset uint64, p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if index == RegionConfig && offset == 0 {
		return syscall.EPERM // the vendor's id is not to be written
	}
	if n := copy(b.memory(index)[offset:], p); n != len(p) {
		return fmt.Errorf("%d bytes at %d: %w", len(p), offset, syscall.ERANGE)
	}
	return nil
}

func (b *board) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resets++
}

func (b *board) resetCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.resets
}

func memfd(t testing.TB, size int64) *os.File {
	fd, err := unix.MemfdCreate("vfiouser-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func eventfd(t testing.TB) *os.File {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "eventfd")
	t.Cleanup(func() { f.Close() })
	return f
}

// count gives how often an eventfd was written since the last count.
func count(t testing.TB, f *os.File) uint64 {
	var b [8]byte
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), b[:]) })
	if err == unix.EAGAIN {
		return 0
	}
	if err != nil || n != 8 {
		t.Fatalf("reading an eventfd: %d bytes, %v", n, err)
	}
	return binary.NativeEndian.Uint64(b[:])
}

// pair gives the two ends of a connection.
func pair(t testing.TB) (ours, theirs *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*net.UnixConn)
	}
	return conns[0], conns[1]
}

// serve starts a server for one client on a board; wait gives how the client's
// connection ended.
func serve(t testing.TB, s *Server, d Device) (c *client, wait func() error) {
	ours, theirs := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(ctx, theirs, d) }()
	var once sync.Once
	var result error
	wait = func() error {
		once.Do(func() {
			select {
			case result = <-done:
			case <-time.After(patience):
				t.Error("the server does not end")
			}
		})
		return result
	}
	t.Cleanup(func() {
		ours.Close()
		cancel()
		wait()
	})
	return &client{t: t, conn: ours}, wait
}

// descriptors counts what this process has open.
func descriptors(t testing.TB) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
