package transfer

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// DefaultAddr is where a listener is and a sender looks unless told otherwise.
const DefaultAddr = "127.0.0.1:" + DefaultPort

// DefaultPort is the TCP port of the control connection.
const DefaultPort = "18630"

// DefaultMaxBytes is the memory that a listener gives to one transfer.
const DefaultMaxBytes = 1 << 30

// ListenOptions are a listener's. Zero fields take the default in the comment.
type ListenOptions struct {
	Options
	MaxBytes uint64 // memory that a transfer may have; default DefaultMaxBytes

	// Warn is told of those who connected and did not speak this protocol,
	// once for each address. It is called from other goroutines.
	Warn func(err error)

	corrupt func(mem []byte)
}

// Listener receives transfers, one after the other.
type Listener struct {
	options ListenOptions
	listen  *exchange.Listener
	greeted chan greeted
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	warned map[string]bool
}

type greeted struct {
	conn   *exchange.Conn
	want   Want
	theirs hello
}

const (
	greetTime  = 5 * time.Second // for a client to say hello
	maxPending = 16              // clients that are greeted at once, or wait
	maxWarned  = 1024
	maxPairs   = 16 // queue pairs that a sender can ask for
)

// Listen waits for senders on HOST:PORT; without a host only this machine can
// connect. It opens the device once, so that a wrong one is told at once.
func Listen(ctx context.Context, addr string, o ListenOptions) (*Listener, error) {
	o.defaults()
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	probe, err := o.Rail.Open(Want{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(tryMemory(probe, o.Memory), probe.Close()); err != nil {
		return nil, err
	}
	listen, err := exchange.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	l := &Listener{options: o, listen: listen, greeted: make(chan greeted), warned: make(map[string]bool)}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() { l.accept(ctx) })
	return l, nil
}

// Addr is the address that a sender dials.
func (l *Listener) Addr() net.Addr { return l.listen.Addr() }

// accept greets whoever connects, each in a goroutine: one who says nothing
// keeps nobody waiting.
func (l *Listener) accept(ctx context.Context) {
	places := make(chan struct{}, maxPending)
	for {
		conn, err := l.listen.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, exchange.ErrClosed) {
				return
			}
			l.options.Warn(err)
			select {
			case <-time.After(100 * time.Millisecond): // as when descriptors run out
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case places <- struct{}{}:
		default:
			conn.Close()
			l.warn(conn, errors.New("too many connections wait; this one is closed"))
			continue
		}
		l.running.Go(func() {
			defer func() { <-places }()
			l.greet(ctx, conn)
		})
	}
}

func (l *Listener) greet(ctx context.Context, conn *exchange.Conn) {
	within, cancel := context.WithTimeout(ctx, greetTime)
	rail := l.options.Rail
	want, theirs, err := greet(within, conn, l.options.Program, hello{Kind: rail.Kind(), NICs: rail.NICs(), Memory: memoryName(l.options.Memory)})
	cancel()
	if err != nil {
		conn.Close()
		if ctx.Err() == nil {
			l.warn(conn, err)
		}
		return
	}
	watched, unwatch := conn.Watch(ctx)
	defer unwatch()
	select {
	case l.greeted <- greeted{conn, want, theirs}:
	case <-watched.Done():
		conn.Close() // it went while others were served
	}
}

// warn tells of an offender, once.
func (l *Listener) warn(conn *exchange.Conn, err error) {
	host, _, _ := net.SplitHostPort(conn.Peer())
	l.mu.Lock()
	known := l.warned[host] || len(l.warned) >= maxWarned
	l.warned[host] = true
	l.mu.Unlock()
	if !known {
		l.options.Warn(err)
	}
}

// Receive waits for a sender and receives its transfer. The result is nil if
// nobody came before the context ended; else it is there even if the error,
// which then is the transfer's, is not nil.
func (l *Listener) Receive(ctx context.Context) (*Result, error) {
	var g greeted
	select {
	case g = <-l.greeted:
	case <-ctx.Done():
		return nil, ErrCancelled
	}
	o := l.options
	r := newReceiver(newSession(ctx, o.Options, g.conn, RoleReceiver), o.MaxBytes)
	r.corrupt = o.corrupt
	r.result.Conditions.PeerMemory = g.theirs.Memory
	err := r.connect(g.want)
	if err == nil {
		err = r.run()
	}
	err = r.close(err, r.memory)
	return r.result, err
}

// Close stops listening and sends those away who wait.
func (l *Listener) Close() error {
	l.stop()
	err := l.listen.Close()
	l.running.Wait()
	return err
}
