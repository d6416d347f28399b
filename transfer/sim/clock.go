package sim

import "time"

// Time is virtual, from the begin of the world, in picoseconds: a byte at
// 400 Gbit/s takes 20 of them. It ends after 106 days.
type Time int64

// Durations of virtual time.
const (
	Nanosecond  Time = 1000
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Of is a duration as virtual time.
func Of(d time.Duration) Time { return Time(d) * Nanosecond }

// Duration rounds to nanoseconds.
func (t Time) Duration() time.Duration { return time.Duration((t + Nanosecond/2) / Nanosecond) }

// Seconds is the time in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// eventKind is what happens.
type eventKind uint8

const (
	eventStep    eventKind = iota // a core takes a step
	eventEnter                    // a message enters the fabric's core
	eventArrive                   // its first byte comes to the far port
	eventTimeout                  // its sender gives it up
	eventCall                     // a function is called
)

// event is what happens at a time. Of two at one time that which was scheduled
// first is first, so a run is the same each time.
type event struct {
	at    Time
	order uint64
	kind  eventKind
	index int32 // of the core, message or function
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// agenda is what is to come: a heap of four children a parent, which has half the
// levels of one of two.
type agenda struct {
	events []event
	order  uint64
}

func (a *agenda) push(at Time, kind eventKind, index int32) {
	a.order++
	e := event{at, a.order, kind, index}
	a.events = append(a.events, e)
	i := len(a.events) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&a.events[up]) {
			break
		}
		a.events[i] = a.events[up]
		i = up
	}
	a.events[i] = e
}

// pop takes the next event; there must be one.
func (a *agenda) pop() event {
	first := a.events[0]
	n := len(a.events) - 1
	last := a.events[n]
	a.events = a.events[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if a.events[c].before(&a.events[least]) {
				least = c
			}
		}
		if !a.events[least].before(&last) {
			break
		}
		a.events[i] = a.events[least]
		i = least
	}
	a.events[i] = last
	return first
}
