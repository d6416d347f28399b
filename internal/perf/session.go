package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// Frames of a perf conversation, after the greeting.
const (
	frameSetup  = exchange.TypeUser + iota // setup
	frameRun                               // progress
	frameResult                            // sideResult
	frameSide                              // Side
)

// greeting is what the sides tell each other first.
type greeting struct {
	Workload Workload `json:"workload"`
}

// setup is what a side needs to know to reach the other's memory or sockets.
type setup struct {
	Seed    uint64             `json:"seed"` // of the pattern that the side sends
	Region  verbs.RemoteRegion `json:"region"`
	MaxRead int                `json:"max_read"`
	MTU     int                `json:"mtu_bytes"`
	Port    int                `json:"port,omitempty"`  // TCP: the server's data port
	Token   []byte             `json:"token,omitempty"` // TCP: proves a connection to belong here
}

// progress shows that a side lives, and at last how much it has sent.
type progress struct {
	Messages uint64   `json:"messages"`
	Done     bool     `json:"done"`
	Sent     []uint64 `json:"sent,omitempty"` // a queue, when done
}

// side is one end of a transport with a peer.
type side interface {
	describe() *Side
	// check finds what the device cannot do.
	check(w *Workload) error
	// connect makes the side's objects and connects them with the peer's.
	connect(ctx context.Context, s *session) error
	// prepare sets a size up, before the sides meet at a barrier.
	prepare(s *session, size int) error
	// run does a size, and gives what this side measured and how many
	// messages it sent on each queue.
	run(ctx context.Context, s *session, cs *controls, size int) (*sideResult, []uint64, error)
	// verify checks what came in, given what both sides sent.
	verify(s *session, size int, own, peer []uint64) error
	// loops is how many loops run at once.
	loops() int
	close() error
}

// session is a conversation with the peer and the run beside it.
type session struct {
	o        *Options
	conn     *exchange.Conn
	client   bool
	side     side
	report   *Report
	seed     uint64
	peerSeed uint64
	out      Output

	live struct {
		sync.Mutex
		messages func() uint64 // of the loop that runs
	}
	telling struct {
		sync.Mutex
		told bool // the peer knows how much this side sent: the last frame of a run
	}
}

// initiator tells whether this side asks for the messages.
func (s *session) initiator() bool { return s.client || s.o.Bidirectional }

// follow lets others read a loop's progress while it runs.
func (s *session) follow(messages func() uint64) {
	s.live.Lock()
	s.live.messages = messages
	s.live.Unlock()
}

func (s *session) messages() uint64 {
	s.live.Lock()
	defer s.live.Unlock()
	if s.live.messages == nil {
		return 0
	}
	return s.live.messages()
}

// within bounds a wait by the timeout, and says so when it ends it.
func (s *session) within(ctx context.Context, wait func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, s.o.Timeout, &TimeoutError{"no answer from the peer", s.o.Timeout})
	defer cancel()
	err := wait(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil && s.conn.Err() == nil {
		return context.Cause(bounded)
	}
	return err
}

func (s *session) send(ctx context.Context, t exchange.Type, v any) error {
	return s.within(ctx, func(ctx context.Context) error { return s.conn.Send(ctx, t, v) })
}

func (s *session) receive(ctx context.Context, t exchange.Type, v any) error {
	return s.within(ctx, func(ctx context.Context) error { return s.conn.Receive(ctx, t, v) })
}

// swap sends a frame and receives the peer's of the same type.
func (s *session) swap(ctx context.Context, t exchange.Type, own, peer any) error {
	if err := s.send(ctx, t, own); err != nil {
		return err
	}
	return s.receive(ctx, t, peer)
}

func (s *session) swapSetup(ctx context.Context, own setup) (setup, error) {
	var peer setup
	err := s.swap(ctx, frameSetup, own, &peer)
	s.peerSeed = peer.Seed
	return peer, err
}

// greet agrees on the workload, which is the client's.
func (s *session) greet(ctx context.Context) error {
	raw, err := json.Marshal(greeting{s.o.Workload})
	if err != nil {
		return err
	}
	var peer exchange.Hello
	err = s.within(ctx, func(ctx context.Context) error {
		peer, err = s.conn.Greet(ctx, exchange.Hello{Program: "peerdirect", Version: s.o.Version, Purpose: "perf", Options: raw})
		return err
	})
	if err != nil || s.client {
		return err
	}
	var g greeting
	if err := json.Unmarshal(peer.Options, &g); err != nil {
		return fmt.Errorf("the peer's workload: %v: %w", err, exchange.ErrProtocol)
	}
	return s.o.adopt(g.Workload)
}

// perform runs the whole test once the two sides have met.
func (s *session) perform(ctx context.Context) error {
	if err := s.greet(ctx); err != nil {
		return err
	}
	if err := s.side.check(&s.o.Workload); err != nil {
		return err
	}
	s.seed = rand.Uint64()
	if err := s.side.connect(ctx, s); err != nil {
		return err
	}
	if err := s.describe(ctx); err != nil {
		return err
	}
	if err := s.out.Begin(s.report.Conditions); err != nil {
		return err
	}
	for _, size := range s.o.sizes() {
		res, err := s.runSize(ctx, size)
		if err != nil {
			return err
		}
		s.report.Results = append(s.report.Results, res)
		if err := s.out.Row(res); err != nil {
			return err
		}
	}
	return nil
}

// describe puts both sides into the report.
func (s *session) describe(ctx context.Context) error {
	own, peer := s.side.describe(), new(Side)
	if err := s.swap(ctx, frameSide, own, peer); err != nil {
		return err
	}
	peer.plain()
	s.report.Conditions = Conditions{Workload: s.o.Workload, Client: own, Server: peer}
	if !s.client {
		s.report.Conditions.Client, s.report.Conditions.Server = peer, own
	}
	return nil
}

func (s *session) runSize(ctx context.Context, size int) (Result, error) {
	if err := s.side.prepare(s, size); err != nil {
		return Result{}, err
	}
	cs, err := newControls(s.side.loops())
	if err != nil {
		return Result{}, err
	}
	defer cs.free()
	s.telling.told = false
	if err := s.within(ctx, s.conn.Barrier); err != nil {
		return Result{}, err
	}
	own, sent, peerSent, err := s.runBoth(ctx, cs, size)
	if err != nil {
		return Result{}, err
	}
	if s.o.Verify {
		if err := s.side.verify(s, size, sent, peerSent); err != nil {
			return Result{}, err
		}
		own.Verified = true
	}
	peer := new(sideResult)
	if err := s.swap(ctx, frameResult, own, peer); err != nil {
		return Result{}, err
	}
	return combine(&s.o.Workload, size, own, peer), nil
}

// runBoth runs this side's part while it listens to the peer's. It gives what
// this side measured, and how many messages it and the peer sent on each queue.
// The results have no names: an early return would write to what the listener
// may just be writing.
func (s *session) runBoth(ctx context.Context, cs *controls, size int) (*sideResult, []uint64, []uint64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)

	heard := make(chan struct{})
	var peerSent []uint64 // once heard is closed
	helpers.Go(func() {
		defer close(heard)
		var err error
		if peerSent, err = s.hear(ctx); err != nil {
			cancel(err)
			return
		}
		cs.targets(peerSent)
	})
	helpers.Go(func() { s.beat(ctx, size) })
	if s.o.Duration > 0 {
		timer := time.AfterFunc(s.o.Duration, cs.close)
		defer timer.Stop()
	}

	own, sent, err := s.side.run(ctx, s, cs, size)
	if err != nil {
		return nil, nil, nil, s.better(ctx, err)
	}
	if err := s.sentAll(ctx, sent); err != nil {
		return nil, nil, nil, err
	}
	<-heard
	if ctx.Err() != nil {
		return nil, nil, nil, context.Cause(ctx)
	}
	return own, sent, peerSent, nil
}

// hear follows the peer until it has sent everything.
func (s *session) hear(ctx context.Context) ([]uint64, error) {
	for {
		var p progress
		if err := s.receive(ctx, frameRun, &p); err != nil {
			return nil, err
		}
		if !p.Done {
			continue
		}
		if len(p.Sent) != s.o.QPs {
			return nil, fmt.Errorf("the peer counted on %d queues instead of %d: %w", len(p.Sent), s.o.QPs, exchange.ErrProtocol)
		}
		return p.Sent, nil
	}
}

// sentAll tells the peer, once a size, how much this side has sent.
func (s *session) sentAll(ctx context.Context, sent []uint64) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.telling.told {
		return nil
	}
	s.telling.told = true
	return s.send(ctx, frameRun, progress{Messages: total(sent), Done: true, Sent: sent})
}

// beat shows the peer now and then that this side lives, and the user how far
// it is.
func (s *session) beat(ctx context.Context, size int) {
	const interval = time.Second
	every := min(interval, s.o.Timeout/4)
	t := time.NewTicker(every)
	defer t.Stop()
	start := time.Now()
	for {
		select {
		case <-ctx.Done():
			s.show("")
			return
		case <-t.C:
		}
		n := s.messages()
		s.show(fmt.Sprintf("%d bytes: %d messages, %.0f s", size, n, time.Since(start).Seconds()))
		s.telling.Lock()
		if !s.telling.told {
			s.send(ctx, frameRun, progress{Messages: n}) // a failure shows elsewhere
		}
		s.telling.Unlock()
	}
}

// show replaces the progress line.
func (s *session) show(text string) {
	if s.out.Progress != nil {
		fmt.Fprintf(s.out.Progress, "\r\x1b[K%s", text)
	}
}

// better looks whether the peer has said why this side failed: its words come
// over TCP and may be a moment behind.
func (s *session) better(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second):
		return err
	}
}
