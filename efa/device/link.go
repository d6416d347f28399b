package device

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// ErrLinkProtocol says that what came through a link is not this package's format,
// or not what was agreed. Both sides must run the same version.
var ErrLinkProtocol = errors.New("not the protocol of linked fabrics")

const (
	greetingTime = 10 * time.Second       // unless the context ends before
	partingTime  = 500 * time.Millisecond // for the last answers to leave
)

// Link joins two fabrics, as a rule of two processes, through a stream: the devices
// that each side offers reach those of the other by GID, as if they were on one
// fabric. The stream must be reliable and ordered (TCP, a socket pair). Nothing in
// it is authenticated or encrypted.
//
// Each side checks what comes against its own queue pairs, handles and regions, with
// the code that serves local peers, and a request is carried out once however often
// it comes. Requests to a link that ended fail as to any peer that is silent.
type Link struct {
	fabric *Fabric
	conn   *meteredConn
	ports  map[*Device]*port // of the devices offered here
	order  []*port           // by their index in the greeting
	fars   []*far            // the other side's devices, by index

	out     chan *linkSlot  // requests to be written
	back    chan *linkReply // replies to be written
	replies []linkReply     // by the slot of their request
	parting chan struct{}   // Close was called
	done    chan struct{}   // the stream is not used any more
	ended   sync.WaitGroup
	serving sync.Mutex // held while a request is carried out and its reply queued

	once sync.Once
	down atomic.Bool
	mu   sync.Mutex
	err  error
}

// far is a device of the other side.
type far struct {
	link  *Link
	index uint16
	// stub stands for the device where the data path wants one: as the target, and
	// as who sends. It has no goroutine and no objects.
	stub *Device
	// As a sender: what is carried out for it, and what is known of it there.
	message message
	qp      queuePair
	flows   []flow // by the index of the target
}

// meteredConn counts a stream's bytes and notes when some last moved.
type meteredConn struct {
	net.Conn
	in, out atomic.Uint64
	moved   atomic.Int64 // since()
}

func (c *meteredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.Add(uint64(n))
	c.moved.Store(since())
	return n, err
}

// Write writes in steps, so that a slow peer is not taken for a silent one.
func (c *meteredConn) Write(b []byte) (int, error) {
	const step = 64 << 10
	done := 0
	for {
		n, err := c.Conn.Write(b[done:min(len(b), done+step)])
		done += n
		c.out.Add(uint64(n))
		c.moved.Store(since())
		if err != nil || done == len(b) {
			return done, err
		}
	}
}

// Link joins the fabric to the one at the other end of a stream, where Link must be
// called too, and offers it the devices given, or all that the fabric has now. It
// takes the stream over and closes it, also if it fails. The link lives until either
// side closes it or the stream breaks.
func (f *Fabric) Link(ctx context.Context, conn net.Conn, devices ...*Device) (*Link, error) {
	if len(devices) == 0 {
		devices = f.Devices()
	}
	l := &Link{
		fabric: f, conn: &meteredConn{Conn: conn}, ports: map[*Device]*port{},
		parting: make(chan struct{}), done: make(chan struct{}),
	}
	err := l.greet(ctx, devices)
	if err == nil {
		err = f.join(l)
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("efa device: link two fabrics: %w", err)
	}
	return l, nil
}

// join makes the far devices reachable and starts the link.
func (f *Fabric) join(l *Link) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	old := *f.fars.Load()
	m := make(map[wire.GID]*far, len(old)+len(l.fars))
	for gid, x := range old {
		m[gid] = x
	}
	for _, x := range l.fars {
		gid := x.stub.opts.GID
		if f.find(gid) != nil || m[gid] != nil {
			return fmt.Errorf("both sides have a device of GID %x, or the peer names it twice; give the fabrics different seeds", gid)
		}
		m[gid] = x
	}
	l.out = make(chan *linkSlot, len(l.order)*linkSlots)
	l.replies = make([]linkReply, len(l.fars)*linkSlots)
	l.back = make(chan *linkReply, len(l.replies))
	for i := range l.replies {
		l.replies[i].free = make(chan struct{}, 1)
		l.replies[i].free <- struct{}{}
	}
	f.fars.Store(&m)
	f.links[l] = true
	f.changes.Add(1)
	l.ended.Go(l.read)
	l.ended.Go(l.write)
	return nil
}

// fail ends the link. Requests under way time out like those to any silent peer.
func (l *Link) fail(err error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
		l.down.Store(true)
		close(l.done)
		l.conn.Close()
		f := l.fabric
		f.mu.Lock()
		defer f.mu.Unlock()
		m := map[wire.GID]*far{}
		for gid, x := range *f.fars.Load() {
			if x.link != l {
				m[gid] = x
			}
		}
		f.fars.Store(&m)
		delete(f.links, l)
		f.changes.Add(1)
	})
}

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err tells why the link ended: io.EOF if the other side closed it, ErrClosed if
// this one did, nil while it lives.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Traffic is how many bytes the stream carried, headers included.
func (l *Link) Traffic() (sent, received uint64) { return l.conn.out.Load(), l.conn.in.Load() }

// Close ends the link, once what is queued has left, but within half a second.
// Nothing is carried out any more when it returns. It may be called again, but not
// from Options.Interrupt or Options.Event.
func (l *Link) Close() error {
	l.serving.Lock() // what was carried out has its reply queued
	select {
	case <-l.parting:
	default:
		close(l.parting)
	}
	l.serving.Unlock()
	l.conn.SetDeadline(time.Now().Add(partingTime))
	l.ended.Wait()
	l.fail(ErrClosed)
	return nil
}

// write writes requests and replies, those that are there together, until the link
// ends.
func (l *Link) write() {
	b := bufio.NewWriterSize(l.conn, 64<<10)
	var seq uint64
	put := func(frame []byte) error {
		binary.LittleEndian.PutUint64(frame[8:], seq)
		_, err := b.Write(frame)
		return err
	}
	request := func(s *linkSlot) error {
		seq++
		err := put(s.frame)
		if err == nil && s.twice {
			err = put(s.frame)
		}
		s.step(slotWritten)
		return err
	}
	reply := func(r *linkReply) error {
		seq++
		err := put(r.frame)
		r.free <- struct{}{}
		return err
	}
	for {
		var err error
		select {
		case s := <-l.out:
			err = request(s)
		case r := <-l.back:
			err = reply(r)
		case <-l.done:
			return
		case <-l.parting:
			for err == nil && len(l.back) > 0 {
				err = reply(<-l.back)
			}
			if err == nil {
				err = b.Flush()
			}
			c, ok := l.conn.Conn.(interface{ CloseWrite() error })
			if err != nil || !ok || c.CloseWrite() != nil {
				l.fail(ErrClosed)
			}
			return // the reader ends with the peer's end, or its deadline
		}
		if err == nil && len(l.out) == 0 && len(l.back) == 0 {
			err = b.Flush()
		}
		if err != nil {
			l.fail(fmt.Errorf("efa device: link: write: %w", err))
			return
		}
	}
}
