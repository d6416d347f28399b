package collective

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/peerdirect/peerdirect/transfer/control"
)

// What node 0 and the others say to each other, in JSON over authenticated control
// connections.
const (
	kindHello   = control.TypeUser     // a node's first message
	kindCommand = control.TypeUser + 1 // of node 0
	kindReply   = control.TypeUser + 2 // to each command but the last
	kindStop    = control.TypeUser + 3 // of node 0: another failed, so end the command
	kindEnd     = control.TypeUser + 4 // of node 0, the last: the failure, empty if there is none
)

// protocol is what both sides must speak.
const protocol = "peerdirect.bench.collective.nodes/1"

type hello struct {
	Protocol string
	Rank, Of int
	About    about
}

// star is node 0's connections to the others.
type star struct {
	peers []string
	conns []*control.Conn // by rank; of node 0 nil
	about []about
	lease time.Duration
}

func controlOptions(o Options, p Place) control.Options {
	return control.Options{Window: p.Wait, Lease: o.Timeout, Handshake: min(o.Timeout, p.Wait)}
}

// gather waits for all other nodes.
func gather(ctx context.Context, o Options, p Place, l *control.Listener, mine about) (*star, error) {
	s := &star{peers: p.Peers, conns: make([]*control.Conn, len(p.Peers)), about: make([]about, len(p.Peers)), lease: o.Timeout}
	s.about[0] = mine
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	var wrong error
	for left := len(p.Peers) - 1; left > 0; {
		conn, err := l.Accept(ctx)
		if err != nil {
			var who []string
			for i, c := range s.conns[1:] {
				if c == nil {
					who = append(who, s.name(i+1))
				}
			}
			err = fmt.Errorf("%s did not come within %v: is it started there, with the same --peers and credentials? %w", strings.Join(who, ", "), p.Wait, err)
			for _, last := range []error{wrong, l.Stats().Last} {
				if last != nil {
					err = fmt.Errorf("%w; who came: %w", err, last)
				}
			}
			s.end(err)
			return nil, err
		}
		h, err := s.greet(ctx, conn)
		if err != nil {
			wrong = err
			tell(conn, kindEnd, ending{Text: err.Error()})
			conn.Close()
			continue
		}
		s.conns[h.Rank], s.about[h.Rank] = conn, h.About
		left--
	}
	return s, nil
}

func (s *star) greet(ctx context.Context, conn *control.Conn) (h hello, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.lease)
	defer cancel()
	if err := expect(ctx, conn, kindHello, &h); err != nil {
		return h, err
	}
	switch {
	case h.Protocol != protocol:
		return h, fmt.Errorf("%v speaks %.64q and this node %q: use one version of the program", conn.RemoteAddr(), h.Protocol, protocol)
	case h.Of != len(s.peers) || h.Rank < 1 || h.Rank >= h.Of:
		return h, fmt.Errorf("%v is node %d of %d, and here are %d: give all the same --peers", conn.RemoteAddr(), h.Rank, h.Of, len(s.peers))
	case s.conns[h.Rank] != nil:
		return h, fmt.Errorf("%v is node %d, and so is %v: give each another --rank", conn.RemoteAddr(), h.Rank, s.conns[h.Rank].RemoteAddr())
	}
	h.About.Memory = printable(h.About.Memory)
	return h, nil
}

func (s *star) name(rank int) string { return nodeName(rank, s.peers) }

func nodeName(rank int, peers []string) string {
	return fmt.Sprintf("node %d (%s)", rank, peers[rank])
}

// end tells all how it ended, and closes the connections.
func (s *star) end(err error) {
	for _, c := range s.conns {
		if c != nil {
			tell(c, kindEnd, endingOf(err))
		}
	}
	for _, c := range s.conns {
		if c != nil {
			c.Close()
		}
	}
}

// ask has the first nodes do something, this one by itself, and waits for all. If one
// fails, all are told to stop, and the cause is what is known when all have answered
// or are gone: a neighbour of the one that failed may be the first to say so.
func (s *star) ask(ctx context.Context, nodes int, c command, own func(context.Context, command) reply) ([]reply, error) {
	// The lease ends the wait for a node that is gone; a node that was told to end
	// answers, or else is not waited for any longer than that.
	parent := ctx
	waiting, give := context.WithCancel(context.WithoutCancel(ctx))
	defer give()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type answer struct {
		rank int
		r    reply
		gone error
	}
	answers := make(chan answer, nodes)
	go func() { answers <- answer{rank: 0, r: own(ctx, c)} }()
	for rank := 1; rank < nodes; rank++ {
		conn := s.conns[rank]
		err := tell(conn, kindCommand, c)
		go func() {
			a := answer{rank: rank, gone: err}
			if err == nil {
				a.gone = expect(waiting, conn, kindReply, &a.r)
			}
			answers <- a
		}()
	}
	replies := make([]reply, nodes)
	var failed failures
	for range nodes {
		a := <-answers
		for i := range a.r.Rails {
			rail := &a.r.Rails[i]
			rail.Device, rail.PCI = printable(rail.Device), printable(rail.PCI)
		}
		replies[a.rank] = a.r
		err := a.gone
		if err == nil && a.r.Failed != nil {
			err = a.r.Failed.error(s.name(a.rank))
		} else if err != nil {
			err = &goneError{s.name(a.rank), err}
		}
		if err == nil {
			continue
		}
		failed = append(failed, err)
		if len(failed) == 1 {
			cancel(err)
			defer time.AfterFunc(s.lease, give).Stop()
			for _, conn := range s.conns[1:nodes] {
				tell(conn, kindStop, nil)
			}
		}
	}
	if parent.Err() != nil && len(failed) > 0 {
		return replies, fmt.Errorf("it was interrupted: %w", context.Cause(parent))
	}
	return replies, failed.cause()
}

// command is what node 0 has nodes do. Which of the fields count depends on Do.
type command struct {
	Do         string
	Nodes      int      `json:",omitempty"`
	Addrs      []string `json:",omitempty"`
	Bytes      uint64   `json:",omitempty"` // of memory
	Timeout    time.Duration
	Path       string `json:",omitempty"`
	Operation  string `json:",omitempty"`
	Size       uint64 `json:",omitempty"`
	Iterations int    `json:",omitempty"`
	Run        uint64 `json:",omitempty"` // number of the vectors to be filled and compared
	From       int    `json:",omitempty"`
}

// reply is what came of it.
type reply struct {
	Failed *ending `json:",omitempty"`
	Addr   string  `json:",omitempty"`
	Took   took
	Rails  []Rail `json:",omitempty"`
}

// took is where a node's time in a measurement went, seconds.
type took struct{ Total, Wait, Copy, Sum, Register float64 }

func tell(c *control.Conn, kind control.Type, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Send(kind, b)
}

// expect receives a message of one kind; the end, and anything else, is an error.
func expect(ctx context.Context, c *control.Conn, kind control.Type, v any) error {
	got, b, err := c.Receive(ctx)
	switch {
	case err != nil:
		return err
	case got != kind:
		return fmt.Errorf("message %v where %v was due", got, kind)
	}
	return json.Unmarshal(b, v)
}
