package collective

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/peerdirect/peerdirect/internal/admit"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// tcpRing is a node's place in a ring of plain TCP connections. Nothing on them is
// encrypted: they carry made-up numbers. Who may connect is who has the secret that
// the node gave to the node before, over the engine's authenticated peer.
type tcpRing struct {
	rank, size      int
	prev, next      net.Conn
	timeout         time.Duration
	mem             *memory
	came, own, sent []float32 // chunks
}

// tcpChunk is how much is passed on at once, elements.
const tcpChunk = 64 << 10

const secretSize = 32

func newTCP(rank, size int, m *memory, timeout time.Duration) *tcpRing {
	return &tcpRing{rank: rank, size: size, timeout: timeout, mem: m,
		came: make([]float32, tcpChunk), own: make([]float32, tcpChunk), sent: make([]float32, tcpChunk)}
}

// joinTCP makes the ring among nodes whose engines have joined.
func joinTCP(ctx context.Context, host string, prev, next *engine.Peer, rank, size int, m *memory, timeout time.Duration) (t *tcpRing, err error) {
	t = newTCP(rank, size, m, timeout)
	defer func() {
		if err != nil {
			t.close()
			err = fmt.Errorf("TCP ring: %w", err)
		}
	}()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return t, err
	}
	defer l.Close()
	secret := make([]byte, secretSize)
	rand.Read(secret)
	if err := prev.Send(ctx, append(secret[:secretSize:secretSize], l.Addr().String()...)); err != nil {
		return t, err
	}
	accepted := make(chan error, 1)
	go func() {
		var err error
		t.prev, err = admit.One(ctx, l, secret)
		accepted <- err
	}()
	dial := func() error {
		theirs, err := next.Receive(ctx)
		if err != nil {
			return err
		}
		if len(theirs) < secretSize {
			return fmt.Errorf("the next node's address has %d bytes", len(theirs))
		}
		if t.next, err = new(net.Dialer).DialContext(ctx, "tcp", string(theirs[secretSize:])); err != nil {
			return err
		}
		t.next.SetDeadline(time.Now().Add(timeout))
		_, err = t.next.Write(theirs[:secretSize])
		return err
	}
	if err = dial(); err != nil {
		l.Close()
	}
	return t, errors.Join(err, <-accepted)
}

// close closes the connections: what they could tell of was told by the operations.
func (t *tcpRing) close() {
	if t == nil {
		return
	}
	for _, c := range []net.Conn{t.prev, t.next} {
		if c != nil {
			c.Close()
		}
	}
}

// span is a run of elements.
type span struct{ from, to int }

// do does an operation on the first elements of the vector. As in package ring, but
// each chunk is passed on by a second goroutine while the next one comes.
func (t *tcpRing) do(ctx context.Context, v run) error {
	steps, first, sums := t.size-1, t.rank, 0
	if v.op == AllReduce {
		steps, first, sums = 2*steps, t.rank-1, steps
	}
	stop := context.AfterFunc(ctx, t.close) // a ring that fails is of no more use
	defer stop()
	part := func(p int) span {
		from, to := v.part((p%t.size + t.size) % t.size)
		return span{from, to}
	}
	pass := make(chan span, steps*(v.n/t.size/tcpChunk+2))
	passed := make(chan error, 1)
	go func() {
		err := t.send(v, part(first))
		for s := range pass {
			if err == nil {
				err = t.send(v, s)
			}
		}
		if err != nil {
			t.close()
		}
		passed <- err
	}()
	var err error
	for step := 0; step < steps && err == nil; step++ {
		all := part(first - step - 1)
		for at := all.from; at < all.to && err == nil; at += tcpChunk {
			s := span{at, min(at+tcpChunk, all.to)}
			if err = t.take(v, s, step < sums); err == nil && step < steps-1 {
				pass <- s
			}
		}
	}
	close(pass)
	if err != nil {
		t.close()
	}
	if other := <-passed; err == nil {
		err = other
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = errors.Join(errNeighbour, err)
	}
	return fmt.Errorf("TCP: %s of %d elements: %w", v.op, v.n, err)
}

// errNeighbour: a socket to a neighbour failed; it may be the neighbour that did.
var errNeighbour = errors.New("the connection to a neighbour failed")

func (t *tcpRing) send(v run, s span) error {
	for at := s.from; at < s.to; at += tcpChunk {
		n := min(tcpChunk, s.to-at)
		var b []byte
		if t.mem.mem == nil {
			b = bytesOf(t.mem.floats(v.n)[at : at+n])
		} else {
			b = bytesOf(t.sent[:n])
			if k, err := t.mem.mem.ReadAt(b, 4*int64(at)); k < len(b) {
				return err
			}
		}
		t.next.SetWriteDeadline(time.Now().Add(t.timeout))
		if _, err := t.next.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// take takes a chunk from the node before.
func (t *tcpRing) take(v run, s span, sum bool) error {
	n := s.to - s.from
	came := t.came[:n]
	var own []float32
	if t.mem.mem == nil {
		if own = t.mem.floats(v.n)[s.from:s.to]; !sum {
			came = own
		}
	}
	t.prev.SetReadDeadline(time.Now().Add(t.timeout))
	if _, err := io.ReadFull(t.prev, bytesOf(came)); err != nil {
		return err
	}
	switch {
	case t.mem.mem == nil && sum:
		for i, c := range came {
			own[i] = c + own[i]
		}
		return nil
	case t.mem.mem == nil:
		return nil
	case sum:
		own := t.own[:n]
		if k, err := t.mem.mem.ReadAt(bytesOf(own), 4*int64(s.from)); k < 4*n {
			return err
		}
		for i := range came {
			came[i] += own[i]
		}
	}
	_, err := t.mem.mem.WriteAt(bytesOf(came), 4*int64(s.from))
	return err
}
