package dmabufprobe

import (
	"context"
	"os"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/verbs"
)

// base and a buffer's offset make the address of its region: at the same place
// in a page, as the kernel demands.
const base = 1 << 40

// A try allocates four pages and registers the second alone: a lost offset
// shows as bytes in the first.
const (
	pagesAllocated = 4
	pageRegistered = 1
)

// try takes one exporter's memory through one device, and everything down
// again. The first failure counts.
func try(ctx context.Context, r row, c *column) (failed stage) {
	at := func(name string, err error) bool {
		if err != nil && failed.err == nil {
			failed = stage{name, err}
		}
		return err == nil
	}
	page := os.Getpagesize()
	host, err := verbs.NewBuffer(page, verbs.BufferOptions{})
	if !at("queue", err) {
		return failed
	}
	defer host.Close()
	q, err := c.queue()
	if !at("queue", err) {
		return failed
	}
	defer func() { at("deregister", q.close()) }()
	mine, err := q.register(host.Bytes())
	if !at("queue", err) {
		return failed
	}
	defer func() { at("deregister", mine.close()) }()

	if r.exporter == nil {
		other, err := verbs.NewBuffer(pagesAllocated*page, verbs.BufferOptions{})
		if !at("allocate", err) {
			return failed
		}
		defer other.Close()
		theirs, err := q.register(other.Bytes()[pageRegistered*page:][:page])
		if !at("register", err) {
			return failed
		}
		defer func() { at("deregister", theirs.close()) }()
		move(ctx, at, q, plain(other.Bytes()), host.Bytes(), mine, theirs)
		return failed
	}

	mem, err := r.exporter.Allocate(uint64(pagesAllocated * page))
	if !at("allocate", err) {
		return failed
	}
	defer func() { at("deregister", mem.Close()) }()
	buf, err := mem.Export(uint64(pageRegistered*page), uint64(page))
	if !at("export", err) {
		return failed
	}
	defer func() { at("deregister", buf.Close()) }()
	release, err := buf.Hold()
	if !at("export", err) {
		return failed
	}
	defer release()
	theirs, err := q.registerDMABuf(buf.FD(), buf.Offset, buf.Length, base+buf.Offset%uint64(page))
	if !at("register", err) {
		return failed
	}
	defer func() { at("deregister", theirs.close()) }()
	if buf.Closing == dmabuf.CloseAnyTime {
		// From here on the region alone holds the buffer.
		if !at("export", buf.Close()) {
			return failed
		}
	}
	move(ctx, at, q, mem, host.Bytes(), mine, theirs)
	return failed
}

// bytesAt is memory as the CPU reaches it.
type bytesAt interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
}

type plain []byte

func (m plain) ReadAt(p []byte, off int64) (int, error)  { return copy(p, m[off:]), nil }
func (m plain) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }

// move has the device read the page into host memory, and write it from there,
// and compares what came.
func move(ctx context.Context, at func(string, error) bool, q queue, mem bytesAt, host []byte, mine, theirs region) {
	if !at("queue", q.ready()) {
		return
	}
	page := len(host)
	whole := make([]byte, pagesAllocated*page)
	fill(whole, 3)
	inner := whole[pageRegistered*page:][:page]
	if _, err := mem.WriteAt(whole, 0); !at("fill", err) {
		return
	}
	clear(host)
	if !at("out", q.move(ctx, mine, theirs, page)) || !at("out", differs("bytes that came out", host, inner)) {
		return
	}
	fill(host, 101)
	if !at("in", q.move(ctx, theirs, mine, page)) {
		return
	}
	got := make([]byte, len(whole))
	if _, err := mem.ReadAt(got, 0); !at("in", err) {
		return
	}
	if !at("in", differs("bytes that went in", got[pageRegistered*page:][:page], host)) {
		return
	}
	// What lies beside the region is as it was.
	copy(inner, host)
	at("in", differs("bytes of four pages around the region", got, whole))
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*13 + byte(i>>8)*7 + seed
	}
}
