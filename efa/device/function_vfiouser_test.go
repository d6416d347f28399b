package device

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/vfiouser"
	"github.com/peerdirect/peerdirect/efa/wire"
	"golang.org/x/sys/unix"
)

// emulator is the client's side of a function that is served over a socket: what
// QEMU does for a guest. It is safe for concurrent use.
type emulator struct {
	t    testing.TB
	mu   sync.Mutex
	conn *net.UnixConn
	id   uint16
}

// call sends a message with descriptors and gives the reply's payload.
func (e *emulator) call(cmd vfiouser.Command, body []byte, fds ...int) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.id++
	le := binary.LittleEndian
	msg := le.AppendUint16(nil, e.id)
	msg = le.AppendUint16(msg, uint16(cmd))
	msg = le.AppendUint32(msg, uint32(16+len(body)))
	msg = append(le.AppendUint64(msg, 0), body...)
	e.conn.SetDeadline(time.Now().Add(patience))
	if _, _, err := e.conn.WriteMsgUnix(msg, unix.UnixRights(fds...), nil); err != nil {
		return nil, err
	}
	var head [16]byte
	if _, err := io.ReadFull(e.conn, head[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, le.Uint32(head[4:])-16)
	if _, err := io.ReadFull(e.conn, reply); err != nil {
		return nil, err
	}
	if errno := unix.Errno(le.Uint32(head[12:])); errno != 0 {
		return nil, fmt.Errorf("%s: %w", cmd, errno)
	}
	return reply, nil
}

func (e *emulator) must(cmd vfiouser.Command, body []byte, fds ...int) {
	e.t.Helper()
	if _, err := e.call(cmd, body, fds...); err != nil {
		e.t.Fatal(err)
	}
}

func access(index int, offset uint64, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, offset)
	b = binary.LittleEndian.AppendUint32(b, uint32(index))
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}

func (e *emulator) ReadRegion(index int, offset uint64, p []byte) error {
	reply, err := e.call(vfiouser.CmdRegionRead, access(index, offset, len(p)))
	if err == nil {
		copy(p, reply[16:])
	}
	return err
}

func (e *emulator) WriteRegion(index int, offset uint64, p []byte) error {
	_, err := e.call(vfiouser.CmdRegionWrite, append(access(index, offset, len(p)), p...))
	return err
}

// dmaMap shares a part of a file at a DMA address, dmaUnmap takes it back.
func (e *emulator) dmaMap(addr, size, offset uint64, file *os.File) {
	e.t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, 32)
	b = binary.LittleEndian.AppendUint32(b, 3)
	for _, v := range []uint64{offset, addr, size} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	e.must(vfiouser.CmdDMAMap, b, int(file.Fd()))
}

func (e *emulator) dmaUnmap(addr, size uint64) {
	e.t.Helper()
	b := binary.LittleEndian.AppendUint64(nil, 24)
	for _, v := range []uint64{addr, size} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	e.must(vfiouser.CmdDMAUnmap, b)
}

const (
	guestBytes = 4 << 20 // of each of a guest's two ranges
	dataBase   = uint64(1<<32 + guestBytes)
)

// boot serves a function over a socket and gives the driver of a guest that has
// it, with memory of two ranges: the first is for queues, the second for data.
func boot(t *testing.T, f *Fabric) (*driver, *emulator, *os.File) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "guest")
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(2 * guestBytes); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Mmap(fd, 0, 2*guestBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(own) })

	server := vfiouser.NewServer(vfiouser.Options{Report: func(err error) { t.Error(err) }})
	fn, err := NewFunction(f, FunctionOptions{
		Options:   Options{Memory: server.Memory(), Interrupt: server.MSIX},
		KeepAlive: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fn.Close() })
	path := filepath.Join(t.TempDir(), "s")
	l, err := vfiouser.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(ctx, l, fn) })
	t.Cleanup(func() { cancel(); serving.Wait() })

	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	e := &emulator{t: t, conn: conn}
	d := &driver{t: t, fn: fn, bus: e, mem: &guestMemory{base: 1 << 32, next: 1 << 32, bytes: own}}
	e.must(vfiouser.CmdVersion, []byte{0, 0, 0, 0})
	e.dmaMap(1<<32, guestBytes, 0, file)
	e.dmaMap(dataBase, guestBytes, guestBytes, file)

	// Two vectors, each counted by a goroutine as a guest's kernel would.
	set := binary.LittleEndian.AppendUint32(nil, 20)
	for _, v := range []uint32{1<<2 | 1<<5, interruptMSIX, 0, 2} {
		set = binary.LittleEndian.AppendUint32(set, v)
	}
	var events []int
	var counting sync.WaitGroup
	t.Cleanup(counting.Wait) // last: when both are closed
	for v := range 2 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, fd)
		event := os.NewFile(uintptr(fd), "eventfd")
		counting.Go(func() {
			var b [8]byte
			for {
				if _, err := event.Read(b[:]); err != nil {
					return
				}
				d.irqs[v].Add(int64(binary.NativeEndian.Uint64(b[:])))
			}
		})
		t.Cleanup(func() { event.Close() })
	}
	e.must(vfiouser.CmdSetIRQs, set, events...)
	t.Cleanup(func() { conn.Close() })
	return d, e, file
}

// TestServedFunction drives two functions over their sockets and writes from one
// to the other, while the target's memory comes and goes under the device. Every
// request completes once: done, or refused because the memory was not there.
func TestServedFunction(t *testing.T) {
	f := newTestFabric(t)
	da, _, _ := boot(t, f)
	db, eb, file := boot(t, f)
	a, b := connect(da), connect(db)
	a.meet(b.fn.Device().GID())
	b.meet(a.fn.Device().GID())
	const n = 64 << 10
	a.mem.next, b.mem.next = dataBase, dataBase
	src, from := a.region(a.pd, 0x10000, n, "direct")
	dst, to := b.region(b.pd, 0x20000, n, "indirect")
	for i, p := range from {
		copy(p, bytes.Repeat([]byte{byte(i + 1)}, len(p)))
	}
	write := func() wire.CompStatus {
		t.Helper()
		var e wire.TxEntry
		e.Set(uint16(a.posts), wire.TxAlways|wire.TxControl(wire.IORDMAWrite), b.qp.QPNum, 1)
		e.SetPeer(0, a.ah, 0)
		e.SetQKey(0x1234)
		e.SetRemote(0x20000, n, dst.RKey)
		e.SetLocal(0x10000, n, src.LKey)
		id := uint16(a.posts)
		a.post(&e)
		c := a.poll()
		if c.ReqID() != id {
			t.Fatalf("request %d completed, want %d", c.ReqID(), id)
		}
		return c.Status()
	}
	if s := write(); s != wire.CompOK {
		t.Fatalf("a write ended with %s", s)
	}
	if !bytes.Equal(bytes.Join(to, nil), bytes.Join(from, nil)) {
		t.Fatal("other bytes arrived than were written")
	}

	eb.dmaUnmap(dataBase, guestBytes)
	if s := write(); s != wire.CompRemoteBadAddress {
		t.Errorf("a write to memory that is gone ended with %s", s)
	}
	eb.dmaMap(dataBase, guestBytes, guestBytes, file)

	stop := make(chan struct{})
	var churn sync.WaitGroup
	maps := 0
	churn.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				eb.dmaUnmap(dataBase, guestBytes)
				eb.dmaMap(dataBase, guestBytes, guestBytes, file)
				maps++
			}
		}
	})
	ended := map[wire.CompStatus]int{}
	for limit := time.Now().Add(patience); ended[wire.CompOK] < 20 || ended[wire.CompRemoteBadAddress] < 5; {
		if time.Now().After(limit) {
			t.Fatalf("writes ended with %v", ended)
		}
		ended[write()]++
	}
	close(stop)
	churn.Wait()
	if len(ended) != 2 {
		t.Errorf("writes ended with %v, want two ways", ended)
	}
	if s := write(); s != wire.CompOK {
		t.Errorf("the last write ended with %s", s)
	}
	if !bytes.Equal(bytes.Join(to, nil), bytes.Join(from, nil)) {
		t.Error("other bytes arrived than were written last")
	}
}
