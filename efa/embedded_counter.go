package efa

import (
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// softCounter is two event counters of a device in this process: of successes,
// and of failures.
type softCounter struct {
	birth
	handles [2]uint32
	words   [2]*uint64
	keep    [2][]byte
}

func (e *embedded) createCounter(o CounterOptions) (counter, error) {
	c := &softCounter{birth: e.born()}
	for i, m := range []*CounterMemory{o.Done, o.Failed} {
		c.keep[i] = aligned(8, 8)
		if m != nil {
			if len(m.Mapped) < 8 {
				c.close()
				return nil, &Error{Op: "create counter", Object: e.dev.Name(), Err: errInvalid, Detail: "an embedded device needs the 8 bytes mapped"}
			}
			c.keep[i] = m.Mapped[:8]
		}
		c.words[i] = (*uint64)(unsafe.Pointer(&c.keep[i][0]))
		h, err := e.dev.CreateCounter(e.uar, address(unsafe.Pointer(c.words[i])))
		if err != nil {
			c.close()
			return nil, e.failed("create counter", e.dev.Name(), err)
		}
		c.handles[i] = h
	}
	return c, nil
}

// counterEvents are the device's events of each operation, of success and of
// failure; what peers do here fails on their side only.
var counterEvents = []struct {
	op     CounterOps
	events [2]wire.CounterEvents
}{
	{CounterSend, [2]wire.CounterEvents{wire.CountSend, wire.CountSendErr}},
	{CounterRecv, [2]wire.CounterEvents{wire.CountRecv, wire.CountRecvErr}},
	{CounterRead, [2]wire.CounterEvents{wire.CountRead, wire.CountReadErr}},
	{CounterWrite, [2]wire.CounterEvents{wire.CountWrite, wire.CountWriteErr}},
	{CounterRemoteRead, [2]wire.CounterEvents{wire.CountRemoteRead, 0}},
	{CounterRemoteWrite, [2]wire.CounterEvents{wire.CountRemoteWrite, 0}},
}

func (p *softPair) attach(c counter, ops CounterOps) error {
	s, ok := c.(*softCounter)
	if !ok || s.e != p.e {
		return &Error{Op: "attach counter", Object: p.e.dev.Name(), Err: errInvalid, Detail: "the counter is of another device"}
	}
	for i, h := range s.handles {
		var events wire.CounterEvents
		for _, c := range counterEvents {
			if ops&c.op != 0 {
				events |= c.events[i]
			}
		}
		if events == 0 {
			continue
		}
		if err := p.e.dev.AttachCounter(wire.AttachEventCounter{Handle: h, QPHandle: p.resp.Handle, Events: events}); err != nil {
			return p.e.failed("attach counter", p.e.dev.Name(), err)
		}
	}
	return nil
}

func (c *softCounter) read() (done, failed uint64, err error) {
	return atomic.LoadUint64(c.words[0]), atomic.LoadUint64(c.words[1]), nil
}

func (c *softCounter) set(done, failed uint64) error {
	return c.modify(wire.CounterSet, [2]uint64{done, failed})
}

func (c *softCounter) add(done, failed uint64) error {
	return c.modify(wire.CounterAdd, [2]uint64{done, failed})
}

func (c *softCounter) modify(op wire.CounterOp, values [2]uint64) error {
	for i, v := range values {
		if err := c.e.dev.ModifyCounter(wire.ModifyEventCounter{Handle: c.handles[i], Operation: op, Value: v}); err != nil {
			return c.e.failed("modify counter", c.e.dev.Name(), err)
		}
	}
	return nil
}

// close leaves a handle of 0 alone: it is no counter's, whose numbers start at 1.
func (c *softCounter) close() error {
	for i, h := range c.handles {
		if h == 0 {
			continue
		}
		if err := c.end("destroy counter", func() error { return c.e.dev.DestroyCounter(h) }); err != nil {
			return err
		}
		c.handles[i] = 0
	}
	return nil
}
