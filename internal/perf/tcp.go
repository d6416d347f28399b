package perf

/*
#include <stdlib.h>
#include "baseline.h"
*/
import "C"

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/admit"
	"github.com/peerdirect/peerdirect/verbs"
)

// tcpSide is the baseline over TCP: a connection a queue, blocking on the
// socket with events and polling it without, as a queue pair does.
type tcpSide struct {
	o     *Options
	clock clock
	lay   layout
	mem   *verbs.Buffer
	conns []*net.TCPConn
	fds   []int
}

func newTCPSide(o *Options) *tcpSide { return &tcpSide{o: o, clock: newClock()} }

func (t *tcpSide) describe() *Side {
	s := thisMachine(t.o)
	s.Protocol = "TCP"
	return s
}

func (t *tcpSide) loops() int { return t.o.QPs }

func (t *tcpSide) check(w *Workload) error {
	const most = 1024
	if w.QPs > most {
		return usage("%d connections: at most %d", w.QPs, most)
	}
	return nil
}

const (
	tokenSize = 16 // bytes of what proves a data connection to belong to the conversation
	indexSize = 4  // and of the queue's number behind it
)

func (t *tcpSide) connect(ctx context.Context, s *session) error {
	t.lay = newLayout(&t.o.Workload)
	var err error
	if t.mem, err = verbs.NewBuffer(2*t.lay.half(), verbs.BufferOptions{Populate: true}); err != nil {
		return err
	}
	t.conns = make([]*net.TCPConn, t.o.QPs)
	if s.client {
		err = t.dial(ctx, s)
	} else {
		err = t.accept(ctx, s)
	}
	if err != nil {
		return err
	}
	for _, c := range t.conns {
		c.SetNoDelay(true)
		// The descriptor is used by the loops, the connection keeps it open.
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { t.fds = append(t.fds, int(fd)) }); err != nil {
			return err
		}
	}
	return nil
}

func (t *tcpSide) dial(ctx context.Context, s *session) error {
	peer, err := s.swapSetup(ctx, setup{Seed: s.seed})
	if err != nil {
		return err
	}
	addr := net.JoinHostPort(hostOf(s.conn.RemoteAddr()), strconv.Itoa(peer.Port))
	return s.within(ctx, func(ctx context.Context) error {
		var d net.Dialer
		for i := range t.conns {
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return fmt.Errorf("data connection %d: %w", i, err)
			}
			t.conns[i] = c.(*net.TCPConn)
			if _, err := c.Write(binary.BigEndian.AppendUint32(peer.Token[:len(peer.Token):len(peer.Token)], uint32(i))); err != nil {
				return fmt.Errorf("data connection %d: %w", i, err)
			}
		}
		return nil
	})
}

func (t *tcpSide) accept(ctx context.Context, s *session) error {
	l, err := net.Listen("tcp", net.JoinHostPort(hostOf(s.conn.LocalAddr()), "0"))
	if err != nil {
		return err
	}
	defer l.Close()
	own := setup{Seed: s.seed, Port: l.Addr().(*net.TCPAddr).Port, Token: make([]byte, tokenSize)}
	rand.Read(own.Token)
	if _, err := s.swapSetup(ctx, own); err != nil {
		return err
	}
	return s.within(ctx, func(ctx context.Context) error {
		if err := admit.Each(ctx, l, own.Token, indexSize, t.adopt); err != nil {
			return fmt.Errorf("data connections: %w", err)
		}
		return nil
	})
}

// adopt takes a connection for a queue that has none, until all have.
func (t *tcpSide) adopt(c net.Conn, index []byte) (mine, enough bool) {
	i := binary.BigEndian.Uint32(index)
	if mine = i < uint32(len(t.conns)) && t.conns[i] == nil; mine {
		t.conns[i] = c.(*net.TCPConn)
	}
	return mine, !slices.Contains(t.conns, nil)
}

func (t *tcpSide) prepare(s *session, size int) error {
	t.lay.fillOut(t.mem.Bytes(), s.seed, size)
	return nil
}

// sends and receives tell in which direction the messages go: a read's come
// from the side that was asked.
func (t *tcpSide) sends(s *session) bool {
	return t.o.Bidirectional || s.client == (t.o.Op != Read)
}

func (t *tcpSide) receives(s *session) bool {
	return t.o.Bidirectional || s.client == (t.o.Op == Read)
}

// tcpLoop is one loop on one connection, in C memory.
func (t *tcpSide) tcpLoop(cs *controls, i, size int) *C.struct_pf_tcp {
	c := (*C.struct_pf_tcp)(C.calloc(1, C.sizeof_struct_pf_tcp))
	b := t.mem.Bytes()
	c.control, c.fd = cs.all[i], C.int(t.fds[i])
	if !t.o.Events {
		c.spin = 1
	}
	c.out = (*C.uint8_t)(&b[t.lay.out(i, 0)])
	c.in = (*C.uint8_t)(&b[t.lay.in(i, 0)])
	c.out_size, c.in_size = C.uint64_t(size), C.uint64_t(size)
	c.stride, c.slots = C.uint64_t(t.lay.stride), C.uint64_t(t.lay.slots)
	c.timeout_ns = C.uint64_t(t.o.Timeout)
	c.iters = C.PF_UNKNOWN
	if t.o.Duration == 0 {
		c.iters = C.uint64_t(t.o.Iters)
	}
	return c
}

func (t *tcpSide) fault(c *C.struct_pf_tcp) fault {
	return fault{errno: int(c.err), object: "TCP", timeout: t.o.Timeout, waitedForWhat: "nothing moved"}
}

func (t *tcpSide) run(ctx context.Context, s *session, cs *controls, size int) (*sideResult, []uint64, error) {
	if t.o.Test == Latency {
		return t.latency(ctx, s, cs, size)
	}
	return t.bandwidth(ctx, s, cs, size)
}

// bandwidth is measured where the messages arrive, from the first byte to the
// last: that a socket took them says nothing yet.
func (t *tcpSide) bandwidth(ctx context.Context, s *session, cs *controls, size int) (*sideResult, []uint64, error) {
	n := t.o.QPs
	out, in := make([]*C.struct_pf_tcp, n), make([]*C.struct_pf_tcp, n)
	for i := range n {
		out[i], in[i] = t.tcpLoop(cs, i, size), t.tcpLoop(cs, i, size)
		// Bandwidth is about throughput: a sleep costs it nothing, and
		// spinning takes the processor that the other side may need.
		out[i].spin, in[i].spin = 0, 0
		defer C.free(unsafe.Pointer(out[i]))
		defer C.free(unsafe.Pointer(in[i]))
	}
	s.follow(func() uint64 {
		var sum uint64
		for i := range n {
			sum += uint64(out[i].sent + in[i].received)
		}
		return sum
	})
	defer s.follow(nil)

	var receivers, senders group
	if t.receives(s) {
		for _, c := range in {
			receivers.start(cs, func() error {
				rc := C.pf_tcp_receive(c)
				return loopError(int(rc), t.fault(c))
			})
		}
	}
	sent := make([]uint64, n)
	err := watching(ctx, cs, func() error {
		if t.sends(s) {
			for i, c := range out {
				senders.start(cs, func() error {
					rc := C.pf_tcp_send(c)
					sent[i] = uint64(c.sent)
					return loopError(int(rc), t.fault(c))
				})
			}
		}
		err := senders.wait()
		if err == nil {
			err = s.sentAll(ctx, sent)
		}
		if err != nil {
			cs.stop()
		}
		if rerr := receivers.wait(); err == nil {
			err = rerr
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	res := new(sideResult)
	var first, last uint64
	for _, c := range in {
		if c.received == 0 {
			continue
		}
		if first == 0 || uint64(c.start) < first {
			first = uint64(c.start)
		}
		last = max(last, uint64(c.end))
		res.Sent += uint64(c.received)
	}
	res.Seconds = float64(last-first) * t.clock.nsPerTick() / 1e9
	return res, sent, nil
}

// group is loops that run at once; one that fails stops them all.
type group struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	err error
}

func (g *group) start(cs *controls, loop func() error) {
	g.wg.Go(func() {
		err := loop()
		if err == nil {
			return
		}
		g.mu.Lock()
		if g.err == nil || errors.Is(g.err, errStopped) {
			g.err = err
		}
		g.mu.Unlock()
		cs.stop()
	})
}

func (g *group) wait() error {
	g.wg.Wait()
	return g.err
}

func (t *tcpSide) latency(ctx context.Context, s *session, cs *controls, size int) (*sideResult, []uint64, error) {
	c := t.tcpLoop(cs, 0, size)
	defer C.free(unsafe.Pointer(c))
	trips := 2.0
	if t.o.Op == Read {
		trips = 1 // a request of one byte, answered by the message
		if s.client {
			c.out_size = 1
		} else {
			c.in_size = 1
		}
	}
	var stamps []uint64
	if s.client {
		c.first = 1
		n := sampleRoom
		if t.o.Duration == 0 {
			n = min(n, t.o.Iters)
		}
		p := C.calloc(C.size_t(n), 8)
		if p == nil {
			return nil, nil, syscall.ENOMEM
		}
		defer C.free(p)
		stamps = unsafe.Slice((*uint64)(p), n)
		c.posted_at, c.samples = (*C.uint64_t)(p), C.uint64_t(n)
	}
	s.follow(func() uint64 { return uint64(c.sent) })
	defer s.follow(nil)
	lat := newLatencies()
	for {
		err := watching(ctx, cs, func() error {
			rc := C.pf_tcp_lat(c)
			return loopError(int(rc), t.fault(c))
		})
		if err != nil && !errors.Is(err, errMore) {
			return nil, nil, err
		}
		perTick := t.clock.nsPerTick()
		lat.recordStamps(stamps[:c.sampled], uint64(c.end), perTick)
		c.sampled = 0
		if err != nil {
			continue
		}
		res := &sideResult{Seconds: float64(c.end-c.start) * perTick / 1e9, Latency: lat.summary(trips)}
		if s.client {
			res.Sent = uint64(c.sent)
		}
		return res, []uint64{uint64(c.sent)}, nil
	}
}

func (t *tcpSide) verify(s *session, size int, own, peer []uint64) error {
	b := t.mem.Bytes()
	if s.o.beforeCheck != nil {
		s.o.beforeCheck(b[t.lay.half():])
	}
	if t.o.Op == Read && t.o.Test == Latency && !s.client {
		return nil // requests have no data
	}
	return t.lay.checkIn(b, s.peerSeed, size, 0, peer)
}

func (t *tcpSide) close() error {
	for _, c := range t.conns {
		if c != nil {
			c.Close()
		}
	}
	if t.mem == nil {
		return nil
	}
	return t.mem.Close()
}
