package pages

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/peerdirect/peerdirect/transfer/engine"
)

// mover moves a layout's pages, some runs at a time, by transfers of the engine's:
// the sender's by writes that notify, or the receiver's by reads.
type mover struct {
	s      *session
	local  *engine.Region
	remote *engine.Target
	layout Layout
	offset uint64 // of the first page in the source, bytes
	read   bool

	cursor  Cursor
	batches []batch
	vacant  []int
	ended   chan ended
	latency *hdrhistogram.Histogram
}

// batch is some runs that are moved together.
type batch struct {
	runs   []engine.Segment
	bytes  uint64
	begun  time.Time
	handle *engine.Transfer
}

type ended struct {
	batch int
	err   error
	at    time.Time
}

// number counts the batches that are in place.
const number engine.Number = 1

func newMover(s *session, layout Layout) *mover {
	o := &s.n.o
	m := &mover{s: s, layout: layout, batches: make([]batch, o.Depth/o.Batch), latency: newHistogram()}
	m.ended = make(chan ended, len(m.batches)) // who ends a batch must not block
	for i := range m.batches {
		m.vacant = append(m.vacant, i)
	}
	return m
}

// notices is how many batches a layout's runs make.
func notices(l Layout, batch int) int {
	runs := 0
	for c := l.Runs(); ; runs++ {
		if _, ok := c.Next(); !ok {
			return (runs + batch - 1) / batch
		}
	}
}

// move moves all pages once and returns when every batch has ended.
func (m *mover) move() error {
	m.cursor = m.layout.Runs()
	start := time.Now()
	more := true
	var failed error
	for more || len(m.vacant) < len(m.batches) {
		for more && failed == nil && len(m.vacant) > 0 {
			more, failed = m.begin()
		}
		if failed != nil {
			more = false
		}
		if len(m.vacant) == len(m.batches) {
			continue
		}
		select {
		case e := <-m.ended:
			if err := m.done(e, start); failed == nil {
				failed = err
			}
		case <-m.s.ctx.Done():
			if failed == nil {
				failed = context.Cause(m.s.ctx)
				m.cancel()
			}
			// The batches that are on their way end, for they were cancelled.
			m.done(<-m.ended, start)
		}
		if failed != nil {
			m.cancel()
		}
	}
	return failed
}

// begin hands the next batch to the engine; false after the last.
func (m *mover) begin() (more bool, err error) {
	at := m.vacant[len(m.vacant)-1]
	b := &m.batches[at]
	b.runs, b.bytes = b.runs[:0], 0
	for len(b.runs) < m.s.n.o.Batch {
		run, ok := m.cursor.Next()
		if !ok {
			break
		}
		g := engine.Segment{Local: m.offset + run.Source, Remote: run.Target, Length: uint64(run.Length)}
		if m.read {
			g.Local, g.Remote = run.Target, m.offset+run.Source
		}
		b.runs = append(b.runs, g)
		b.bytes += g.Length
	}
	if len(b.runs) == 0 {
		return false, nil
	}
	move := engine.Move{Local: m.local, Remote: m.remote, Segments: b.runs}
	b.begun = time.Now()
	if m.read {
		b.handle, err = m.s.peer.Read(m.s.ctx, move)
		m.s.result.Reads += uint64(len(b.runs))
	} else {
		move.Notify = engine.Counts(number)
		b.handle, err = m.s.peer.Write(m.s.ctx, move)
		m.s.result.Writes += uint64(len(b.runs))
		m.s.result.Notices++
	}
	if err != nil {
		return false, m.s.cause(err)
	}
	m.vacant = m.vacant[:len(m.vacant)-1]
	b.handle.Then(func(err error) { m.ended <- ended{at, err, time.Now()} })
	return true, nil
}

// done takes a batch that has ended.
func (m *mover) done(e ended, start time.Time) error {
	b := &m.batches[e.batch]
	b.handle = nil
	m.vacant = append(m.vacant, e.batch)
	if e.err != nil {
		return m.s.cause(e.err)
	}
	m.s.alive()
	m.latency.RecordValue(e.at.Sub(b.begun).Nanoseconds())
	m.s.rate.add(m.s.moving+e.at.Sub(start), b.bytes)
	m.s.moved += b.bytes
	m.s.tell(StageTransfer)
	if m.read {
		return m.s.progress()
	}
	return nil
}

// cancel has what is on its way end.
func (m *mover) cancel() {
	for i := range m.batches {
		if t := m.batches[i].handle; t != nil {
			t.Cancel()
		}
	}
}

// enter puts what was measured into the result.
func (m *mover) enter() {
	r := m.s.result
	r.Rate, r.Latency = m.s.rate.rate(), latencyOf(m.latency)
}
