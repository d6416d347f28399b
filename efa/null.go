package efa

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// Null is a device that moves nothing: its rings are ordinary memory, and what was
// posted there is done when [Null.Complete] is called, and not before. With it one
// measures what posting and polling cost, and whatever stands on them.
type Null struct {
	number  uint32
	objects atomic.Uint32
	pairs   []*nullPair
}

var nulls atomic.Uint32

// NewNull makes the device and opens it.
func NewNull(name string) (*Device, *Null, error) {
	n := &Null{number: nulls.Add(1)}
	d, err := newDevice(name, n)
	return d, n, err
}

// Complete completes every send request that was posted. It belongs to the
// goroutine that posts and polls.
func (n *Null) Complete() (done int) {
	for _, p := range n.pairs {
		done += p.complete()
	}
	return done
}

func (n *Null) attr() (Attr, error) {
	var gid GID
	binary.BigEndian.PutUint32(gid[12:], n.number)
	gid[0] = 0xfe
	return Attr{
		GID: gid, MTU: 8928, MaxSend: 4096, MaxRecv: 1 << 15, MaxSendSGE: 2, MaxRecvSGE: 4, MaxRDMASGE: 1, MaxRDMA: 1 << 30,
		Caps: CapWrite | CapRead, MaxCQ: 16, MaxCQDepth: 1 << 17, MaxQP: 16, MaxMR: 1 << 16, MaxMRSize: 1 << 48, MaxPD: 16, MaxAH: 1 << 13, Vectors: 1,
	}, nil
}

func (n *Null) path() Path                                    { return Path{Direct: true} }
func (n *Null) allocPD() (domain, error)                      { return nullDomain{n}, nil }
func (n *Null) createCounter(CounterOptions) (counter, error) { return nil, ErrUnsupported }
func (n *Null) close() error                                  { return nil }

func (n *Null) createCQ(o CQOptions) (queue, error) {
	q := &nullCQ{memory: cqMemory{entry: cqeBytes, count: powerOfTwo(max(o.Depth, 2))}}
	ring := aligned(q.memory.count*cqeBytes, 4096)
	q.memory.ring, q.memory.keep = unsafe.Pointer(&ring[0]), ring
	return q, nil
}

// nullCQ is a completion queue. Nothing wakes who waits for it.
type nullCQ struct {
	memory cqMemory
	at     uint32 // completions written
}

func (q *nullCQ) depth() int                     { return q.memory.count }
func (q *nullCQ) ring() *cqMemory                { return &q.memory }
func (q *nullCQ) poll([]Completion) (int, error) { return 0, ErrUnsupported }
func (q *nullCQ) arm() error                     { return nil }
func (q *nullCQ) wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (q *nullCQ) close() error                   { return nil }

type nullDomain struct{ n *Null }

func (d nullDomain) register([]byte, uint64, Access) (region, error) {
	return nullRegion(d.n.objects.Add(1)), nil
}
func (d nullDomain) registerDMABuf(int, uint64, uint64, uint64, Access) (region, error) {
	return nil, ErrUnsupported
}
func (d nullDomain) createAH(GID) (handle, error) { return nullHandle(d.n.objects.Add(1)), nil }
func (d nullDomain) close() error                 { return nil }

func (d nullDomain) createQP(o qpOptions) (queuePair, error) {
	p := &nullPair{number: uint16(d.n.objects.Add(1)), cq: o.send.(*nullCQ), maxRecv: powerOfTwo(o.MaxRecv)}
	p.send = wqMemory{entry: entrySize(o.MaxInline, o.InlineWrite), count: powerOfTwo(o.MaxSend), wideIDs: true}
	p.recv = wqMemory{entry: wire.SizeRxDesc, count: powerOfTwo(o.MaxRecv * o.MaxRecvSGE)}
	for _, q := range []*wqMemory{&p.send, &p.recv} {
		ring, register := aligned(q.count*q.entry, 4096), aligned(8, 64)
		q.maxBatch = q.count
		q.ring, q.bell.register, q.keep = unsafe.Pointer(&ring[0]), unsafe.Pointer(&register[0]), [][]byte{ring, register}
	}
	d.n.pairs = append(d.n.pairs, p)
	return p, nil
}

type nullRegion uint32

func (r nullRegion) keys() (lkey, rkey uint32)             { return uint32(r), uint32(r) }
func (r nullRegion) interconnects() (Interconnects, error) { return Interconnects{}, nil }
func (r nullRegion) close() error                          { return nil }

type nullHandle uint16

func (h nullHandle) number() uint16 { return uint16(h) }
func (h nullHandle) close() error   { return nil }

// nullPair is a queue pair. Its requests have 64-bit ids.
type nullPair struct {
	number     uint16
	cq         *nullCQ
	send, recv wqMemory
	maxRecv    int
	done       uint16 // send requests completed, as the doorbell counts
	noBatch
}

func (p *nullPair) qpn() uint16                      { return p.number }
func (p *nullPair) rings() (send, recv *wqMemory)    { return &p.send, &p.recv }
func (p *nullPair) limits() (maxSend, maxRecv int)   { return p.send.count, p.maxRecv }
func (p *nullPair) fail() error                      { return nil }
func (p *nullPair) state() (State, error)            { return StateReady, nil }
func (p *nullPair) attach(counter, CounterOps) error { return ErrUnsupported }
func (p *nullPair) close() error                     { return nil }

func (p *nullPair) complete() (n int) {
	posted := uint16(*(*uint32)(p.send.bell.register))
	for ; p.done != posted; p.done++ {
		at := int(p.done) & (p.send.count - 1)
		e := (*wire.TxEntry)(unsafe.Add(p.send.ring, at*p.send.entry))
		i := p.cq.at & uint32(p.cq.memory.count-1)
		c := (*wire.WideCQE)(unsafe.Add(p.cq.memory.ring, uintptr(i)*cqeBytes)).Base()
		id := e.ReqID64()
		c.SetSend(p.number, id)
		c.SetWord(wire.MakeCQEWord(uint16(id), wire.CompOK,
			wire.MakeCQEFlags(p.cq.at&uint32(p.cq.memory.count) == 0, wire.SendQueue, wire.IORDMAWrite, false, false)))
		p.cq.at++
		n++
	}
	return n
}
