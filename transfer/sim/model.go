package sim

import (
	"errors"
	"fmt"
	"time"
)

// Shape is what a node has.
type Shape struct {
	Name    string  `json:"name"`
	NICs    int     `json:"nics"`
	Gbits   float64 `json:"gbit_per_s"` // of each NIC, in each direction, Gbit/s
	Workers int     `json:"workers"`    // each with NICs of its own, as many as the others
}

// Shapes of which public descriptions tell; docs/simulation.md names them. A worker
// for each of the eight accelerators.
var (
	P5     = Shape{Name: "p5", NICs: 32, Gbits: 100, Workers: 8}
	P5en   = Shape{Name: "p5en", NICs: 16, Gbits: 200, Workers: 8}
	P6B200 = Shape{Name: "p6-b200", NICs: 8, Gbits: 400, Workers: 8}
	P6B300 = Shape{Name: "p6-b300", NICs: 16, Gbits: 400, Workers: 8}
)

// Shapes are all of them.
func Shapes() []Shape { return []Shape{P5, P5en, P6B200, P6B300} }

// Rate is what all NICs of a node carry in one direction, bits a second.
func (s Shape) Rate() float64 { return float64(s.NICs) * s.Gbits * 1e9 }

// wire is how long a NIC of the shape takes to put bytes on the wire.
func (s Shape) wire(bytes uint64) Time { return Time(float64(bytes)*8000/s.Gbits + 0.5) }

// Model is the fabric and the cores. Zero fields take the default in the comment;
// docs/simulation.md tells where each is from.
type Model struct {
	// Request is how long a NIC is occupied by one request at least, whatever
	// its length, going out or coming in; default 950 ns.
	Request time.Duration `json:"request_ns"`
	// Latency is the way from NIC to NIC, in one direction; default 8 us.
	Latency time.Duration `json:"latency_ns"`
	// Jitter is the most that a message is late, each by a share of its own;
	// default 2 us; below zero none. It is how messages overtake each other.
	Jitter time.Duration `json:"jitter_ns"`
	// Oversubscribed is how many times more the NICs of all nodes carry than
	// the fabric's core between them; default 1, which is a core without limit.
	Oversubscribed float64 `json:"oversubscribed"`
	// Depth is how many requests a NIC holds; default 2048.
	Depth int `json:"depth"`
	// Receives is how many notices a peer may send before they are polled;
	// default 1024.
	Receives int `json:"receives"`
	// Timeout is when a NIC gives up what nobody acknowledges; default 100 ms.
	Timeout time.Duration `json:"timeout_ns"`
	// Control is the way of a control message; default 50 us.
	Control time.Duration `json:"control_ns"`
	Costs   Costs         `json:"costs"`
}

// Costs is what a worker's core takes for what it does.
type Costs struct {
	Step       time.Duration `json:"step_ns"`       // each step; default 20 ns
	Command    time.Duration `json:"command_ns"`    // each operation, or part of one, that it is given; default 145 ns
	Doorbell   time.Duration `json:"doorbell_ns"`   // each post to a rail; default 75 ns
	Post       time.Duration `json:"post_ns"`       // each request of it; default 60 ns
	Poll       time.Duration `json:"poll_ns"`       // each look at a rail; default 11 ns
	Completion time.Duration `json:"completion_ns"` // each completion found; default 42 ns
	// Factor multiplies all of them; default 1.
	Factor float64 `json:"factor"`
}

func (c *Costs) each() []*time.Duration {
	return []*time.Duration{&c.Step, &c.Command, &c.Doorbell, &c.Post, &c.Poll, &c.Completion}
}

func (m *Model) defaults(s Shape) error {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&m.Request, 950*time.Nanosecond)
	set(&m.Latency, 8*time.Microsecond)
	set(&m.Jitter, 2*time.Microsecond)
	set(&m.Timeout, 100*time.Millisecond)
	set(&m.Control, 50*time.Microsecond)
	for i, def := range []time.Duration{20, 145, 75, 60, 11, 42} {
		set(m.Costs.each()[i], def)
	}
	m.Jitter = max(m.Jitter, 0)
	if m.Oversubscribed == 0 {
		m.Oversubscribed = 1
	}
	if m.Costs.Factor == 0 {
		m.Costs.Factor = 1
	}
	if m.Depth == 0 {
		m.Depth = 2048
	}
	if m.Receives == 0 {
		m.Receives = 1024
	}
	switch {
	case s.NICs < 1 || s.Workers < 1 || s.NICs%s.Workers != 0:
		return fmt.Errorf("%d NICs for %d workers: each worker has as many as the others", s.NICs, s.Workers)
	case !(s.Gbits > 0 && s.Gbits <= 1e6):
		return fmt.Errorf("a NIC of %v Gbit/s", s.Gbits)
	case !(m.Oversubscribed >= 1 && m.Oversubscribed <= 1e6):
		return fmt.Errorf("a core that is oversubscribed %v times: 1 or more", m.Oversubscribed)
	case !(m.Costs.Factor > 0 && m.Costs.Factor <= 1e6):
		return fmt.Errorf("costs times %v", m.Costs.Factor)
	case m.Depth < 1 || m.Receives < 2:
		return fmt.Errorf("a NIC with room for %d requests and %d receives", m.Depth, m.Receives)
	}
	for _, d := range append(m.Costs.each(), &m.Request, &m.Latency, &m.Timeout, &m.Control) {
		if *d < 0 {
			return errors.New("a time below zero")
		}
	}
	return nil
}

// prices are Costs on the clock.
type prices struct{ step, command, doorbell, post, poll, completion Time }

func (c Costs) prices() prices {
	of := func(d time.Duration) Time { return Time(float64(Of(d)) * c.Factor) }
	return prices{of(c.Step), of(c.Command), of(c.Doorbell), of(c.Post), of(c.Poll), of(c.Completion)}
}
