package pages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// DefaultPort is the TCP port of the control connection.
const DefaultPort = "18630"

// DefaultAddr is where a listener is unless told otherwise.
const DefaultAddr = "127.0.0.1:" + DefaultPort

// DefaultMaxBytes is the memory that a listener gives to one transfer.
const DefaultMaxBytes = 1 << 30

// ListenOptions are a listener's. Zero fields take the default in the comment.
type ListenOptions struct {
	MaxBytes uint64 // memory that a transfer may have; default DefaultMaxBytes

	// Warn is told of those who came and were not let in, now and then. It is
	// called from other goroutines.
	Warn func(err error)

	// unmet is told of a sender that proved itself and was not handed to who receives.
	unmet func(err error)

	// What a test does: fail has a meeting fail at its end.
	corrupt func(mem []byte)
	fail    error
}

// Listener receives transfers, as many at once as the node was opened for.
type Listener struct {
	n       *Node
	o       ListenOptions
	control *control.Listener
	came    chan *incoming
	places  chan struct{} // one for each transfer that goes on, or waits
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Listen waits for senders on HOST:PORT; without a host only this machine can
// connect. Who does not prove itself is not talked to.
func (n *Node) Listen(ctx context.Context, addr string, o ListenOptions) (*Listener, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if o.unmet == nil {
		o.unmet = func(error) {}
	}
	c, err := control.Listen(ctx, addr, n.o.Credentials, n.o.Control)
	if err != nil {
		return nil, err
	}
	l := &Listener{n: n, o: o, control: c, came: make(chan *incoming), places: make(chan struct{}, n.o.Peers)}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() { l.accept(ctx) })
	l.running.Go(func() { c.Watch(ctx, l.o.Warn) })
	return l, nil
}

// Addr is the address that a sender dials.
func (l *Listener) Addr() net.Addr { return l.control.Addr() }

// accept meets whoever has proved itself, each in a goroutine: one who says nothing
// keeps nobody waiting.
func (l *Listener) accept(ctx context.Context) {
	for {
		c, err := l.control.Accept(ctx)
		if err != nil {
			return // closed
		}
		l.running.Go(func() { l.meet(ctx, c, l.place(ctx)) })
	}
}

// place takes a place for a transfer, or tells that there is none. It waits for a
// moment: a sender has its result before what it was given is freed here.
func (l *Listener) place(ctx context.Context) (refused error) {
	soon := time.NewTimer(time.Second)
	defer soon.Stop()
	select {
	case l.places <- struct{}{}:
		return nil
	case <-soon.C:
	case <-ctx.Done():
	}
	return fmt.Errorf("%d transfers go on already, as many as it takes at once: come again", cap(l.places))
}

// meet connects a sender and hands it to whoever receives. It ends with the
// listener, or with the sender, unless it was handed on.
func (l *Listener) meet(ctx context.Context, c *control.Conn, refused error) {
	s, err := l.n.connect(ctx, c, false, refused)
	s.result.Role = RoleReceiver
	leave := func() {
		if refused == nil {
			<-l.places
		}
	}
	if err == nil {
		err = l.o.fail
	}
	if err != nil {
		if err = s.close(err); ctx.Err() == nil {
			l.o.Warn(err)
		}
		leave()
		l.o.unmet(err)
		return
	}
	r := &incoming{session: s, maxBytes: l.o.MaxBytes, corrupt: l.o.corrupt, leave: leave}
	select {
	case l.came <- r:
	case <-s.ctx.Done():
		err := s.close(context.Cause(s.ctx)) // it went while others were served, or the listener did
		leave()
		l.o.unmet(err)
	}
}

// Receive waits for a sender and receives its transfer. Several goroutines may do so
// at once. The result is nil if nobody came before the context ended; else it is
// there even if the error, which then is the transfer's, is not nil.
func (l *Listener) Receive(ctx context.Context) (*Result, error) {
	select {
	case r := <-l.came:
		return r.receive(ctx)
	case <-ctx.Done():
		return nil, ErrCancelled
	}
}

// Serve receives transfers until the context ends, all that come at the same time,
// and calls ended for each, one at a time.
func (l *Listener) Serve(ctx context.Context, ended func(*Result, error)) {
	var all sync.WaitGroup
	var one sync.Mutex
	defer all.Wait()
	for {
		select {
		case r := <-l.came:
			all.Go(func() {
				result, err := r.receive(ctx)
				one.Lock()
				defer one.Unlock()
				ended(result, err)
			})
		case <-ctx.Done():
			return
		}
	}
}

// receive runs a transfer that was met. Its user is the caller from now on.
func (r *incoming) receive(ctx context.Context) (*Result, error) {
	defer r.leave()
	r.follow(ctx)
	err := r.close(r.run())
	return r.result, errors.Join(err, r.memory.close())
}

// Close stops listening and sends those away who wait. Transfers that go on do so.
func (l *Listener) Close() error {
	l.stop()
	err := l.control.Close()
	l.running.Wait()
	return err
}
