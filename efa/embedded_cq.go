package efa

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// softCQ is a completion queue of a device in this process.
type softCQ struct {
	birth
	resp   wire.CreateCQResp
	memory cqMemory
	// event holds the one event that says there is something to poll; gone is
	// closed with the queue.
	event chan struct{}
	gone  chan struct{}
}

func (e *embedded) createCQ(o CQOptions) (queue, error) {
	object := e.dev.Name()
	if p := e.path(); !p.Direct {
		return nil, &Error{Op: "create cq", Object: object, Err: ErrUnsupported, Detail: p.Reason}
	}
	q := &softCQ{birth: e.born(), event: make(chan struct{}, 1), gone: make(chan struct{})}
	q.memory = cqMemory{entry: cqeBytes, count: powerOfTwo(max(o.Depth, 2)), armed: o.Notify}
	if most := int(e.dev.Attr().Queue1.MaxCQDepth); q.memory.count > most {
		return nil, &Error{Op: "create cq", Object: object, Err: errInvalid, Detail: tooDeep(o.Depth, most)}
	}
	ring := aligned(q.memory.count*cqeBytes, 4096)
	create := device.CQOptions{
		CreateCQ: wire.CreateCQ{
			EntryWords: cqeBytes / 4, SubCQDepth: uint16(q.memory.count), NumSubCQs: 1, UAR: e.uar,
			BaseAddr: address(unsafe.Pointer(&ring[0])),
		},
		Keep: ring,
	}
	if e.dev.Attr().Device.Caps&wire.CapSQReqID64 != 0 {
		create.Flags |= wire.CQReqID64
	}
	if o.SGID {
		create.Flags |= wire.CQSetSrcAddr
	}
	if o.Notify {
		eqn, err := e.events.start(e)
		if err != nil {
			return nil, e.failed("create eq", object, err)
		}
		create.Caps |= wire.CQInterruptMode
		create.EQN = eqn
	}
	var err error
	if q.resp, err = e.dev.CreateCQ(create); err != nil {
		return nil, e.failed("create cq", object, err)
	}
	q.memory.ring, q.memory.keep = unsafe.Pointer(&ring[0]), ring
	q.memory.bell = bell{dev: e.dev, offset: q.resp.DB}
	e.events.add(q)
	return q, nil
}

func (q *softCQ) depth() int                     { return q.memory.count }
func (q *softCQ) ring() *cqMemory                { return &q.memory }
func (q *softCQ) poll([]Completion) (int, error) { return 0, ErrUnsupported }
func (q *softCQ) arm() error                     { return ErrUnsupported }

func (q *softCQ) wait(ctx context.Context) error {
	select {
	case <-q.event:
		return nil
	case <-q.gone:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *softCQ) close() error {
	err := q.end("destroy cq", func() error { return q.e.dev.DestroyCQ(q.resp.CQ) })
	if err == nil {
		q.e.events.remove(q)
		close(q.gone)
	}
	return err
}

// eventQueue is the event queue of a device in this process, with the goroutine
// that stands for the interrupt's handler: it reads the queue and wakes those who
// wait. It starts with the first completion queue that asks for events.
type eventQueue struct {
	mu   sync.Mutex
	born uint32 // resets of the device when the queue was made
	eqn  uint16
	ring []byte
	at   uint32
	cqs  map[uint16]*softCQ
	wake chan struct{} // nil before the first start
	quit chan struct{}
	done chan struct{}
	on   atomic.Pointer[chan struct{}]
}

const eqDepth = 1024

// interrupt is called by the device and must not block.
func (q *eventQueue) interrupt() {
	if wake := q.on.Load(); wake != nil {
		select {
		case *wake <- struct{}{}:
		default:
		}
	}
}

// start makes the event queue, unless there is one, and gives its number.
func (q *eventQueue) start(e *embedded) (uint16, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	resets := e.resets.Load()
	if q.ring != nil && q.born == resets {
		return q.eqn, nil
	}
	ring := aligned(eqDepth*wire.SizeEQE, 4096)
	resp, err := e.dev.CreateEQ(device.EQOptions{
		CreateEQ: wire.CreateEQ{
			Depth: eqDepth, MSIXVector: 1, EntryWords: wire.SizeEQE / 4,
			BaseAddr: address(unsafe.Pointer(&ring[0])), Events: wire.EQCompletionEvents,
		},
		Keep: ring,
	})
	if err != nil {
		return 0, err
	}
	q.eqn, q.ring, q.at, q.born = resp.EQN, ring, 0, resets
	if q.wake == nil {
		q.wake, q.quit, q.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		q.on.Store(&q.wake)
		go q.run(e)
	}
	q.rearm(e)
	return q.eqn, nil
}

func (q *eventQueue) rearm(e *embedded) {
	e.dev.RingEQ(wire.EQDoorbell(q.eqn, true))
}

func (q *eventQueue) run(e *embedded) {
	defer close(q.done)
	for {
		select {
		case <-q.quit:
			return
		case <-q.wake:
		}
		q.mu.Lock()
		for {
			b := q.ring[q.at%eqDepth*wire.SizeEQE:]
			word := atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0])))
			if word&1 == q.at/eqDepth&1 {
				break // phases begin at 1
			}
			var ev wire.EQE
			ev.Decode(b)
			q.at++
			if cq := q.cqs[ev.CQN]; cq != nil && ev.Type == wire.EQECompletion {
				select {
				case cq.event <- struct{}{}:
				default:
				}
			}
		}
		q.rearm(e)
		q.mu.Unlock()
	}
}

func (q *eventQueue) add(cq *softCQ) {
	q.mu.Lock()
	if q.cqs == nil {
		q.cqs = make(map[uint16]*softCQ)
	}
	q.cqs[cq.resp.CQ] = cq
	q.mu.Unlock()
}

func (q *eventQueue) remove(cq *softCQ) {
	q.mu.Lock()
	if q.cqs[cq.resp.CQ] == cq {
		delete(q.cqs, cq.resp.CQ)
	}
	q.mu.Unlock()
}

// close ends the goroutine; the device is closed.
func (q *eventQueue) close() {
	if q.quit != nil {
		close(q.quit)
		<-q.done
	}
}
