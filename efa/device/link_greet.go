package device

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// greet exchanges what the sides have to know of each other.
func (l *Link) greet(ctx context.Context, devices []*Device) error {
	if len(devices) > maxLinkDevices {
		return fmt.Errorf("%d devices; a link takes %d", len(devices), maxLinkDevices)
	}
	limit := time.Now().Add(greetingTime)
	if t, ok := ctx.Deadline(); ok && t.Before(limit) {
		limit = t
	}
	l.conn.SetDeadline(limit)
	stop := context.AfterFunc(ctx, func() { l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	le := binary.LittleEndian
	own := make([]byte, linkGreeting, linkGreeting+len(devices)*linkMember)
	copy(own, linkMagic)
	le.PutUint16(own[8:], linkVersion)
	le.PutUint16(own[10:], uint16(len(devices)))
	le.PutUint32(own[12:], uint32(l.fabric.opts.MTU))
	for i, d := range devices {
		if d.fabric != l.fabric || l.ports[d] != nil {
			return fmt.Errorf("device %s is of another fabric, or offered twice", d.Name())
		}
		p := newPort(l, d, i)
		l.ports[d], l.order = p, append(l.order, p)
		own = append(own, d.opts.GID[:]...)
		own = le.AppendUint64(own, uint64(d.opts.Latency))
	}
	sent := make(chan error, 1)
	go func() { // both write first, and a stream may have no buffer
		_, err := l.conn.Write(own)
		sent <- err
	}()
	err := l.readGreeting()
	if err != nil {
		l.conn.Close() // so that the write ends too
	}
	if e := <-sent; err == nil {
		err = e
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err == nil {
		err = l.conn.SetDeadline(time.Time{})
	}
	return err
}

func (l *Link) readGreeting() error {
	var b [linkGreeting]byte
	le := binary.LittleEndian
	if _, err := io.ReadFull(l.conn, b[:]); err != nil {
		return fmt.Errorf("the peer's greeting: %w", err)
	}
	n := int(le.Uint16(b[10:]))
	switch mtu := le.Uint32(b[12:]); {
	case string(b[:8]) != linkMagic:
		return fmt.Errorf("%w: it begins with %q", ErrLinkProtocol, b[:8])
	case le.Uint16(b[8:]) != linkVersion:
		return fmt.Errorf("%w: the peer's version is %d, this side's %d", ErrLinkProtocol, le.Uint16(b[8:]), linkVersion)
	case n > maxLinkDevices:
		return fmt.Errorf("%w: %d devices, the most is %d", ErrLinkProtocol, n, maxLinkDevices)
	case mtu != uint32(l.fabric.opts.MTU):
		return fmt.Errorf("the peer's MTU is %d bytes, this side's %d; make both fabrics with the same", mtu, l.fabric.opts.MTU)
	}
	for i := range n {
		var m [linkMember]byte
		if _, err := io.ReadFull(l.conn, m[:]); err != nil {
			return fmt.Errorf("the peer's devices: %w", err)
		}
		latency := int64(le.Uint64(m[16:]))
		if latency < 0 || latency > maxLinkLatent {
			return fmt.Errorf("%w: a latency of %d ns", ErrLinkProtocol, latency)
		}
		l.fars = append(l.fars, newFar(l, i, wire.GID(m[:16]), time.Duration(latency)))
	}
	return nil
}
