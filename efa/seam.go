package efa

import (
	"context"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/device"
)

// The seam: what a device does outside the data path. The kernel's driver
// (kernel.go) and the device in this process (embedded.go) implement it; nothing
// else of this package knows which it works on. Every close is called once, in
// an order that leaves nothing standing on what is closed.

// control is an open device.
type control interface {
	attr() (Attr, error)
	// path tells how requests will go, before there is an endpoint.
	path() Path
	allocPD() (domain, error)
	createCQ(o CQOptions) (queue, error)
	createCounter(o CounterOptions) (counter, error)
	close() error
}

// domain is a protection domain.
type domain interface {
	register(mem []byte, iova uint64, access Access) (region, error)
	registerDMABuf(fd int, offset, length, iova uint64, access Access) (region, error)
	createAH(gid GID) (handle, error)
	createQP(o qpOptions) (queuePair, error)
	close() error
}

// region is a memory region.
type region interface {
	keys() (lkey, rkey uint32)
	interconnects() (Interconnects, error)
	close() error
}

// handle is an address handle. number is what work entries carry.
type handle interface {
	number() uint16
	close() error
}

// queue is a completion queue.
type queue interface {
	depth() int
	// ring is the queue's memory, or nil where the library polls it.
	ring() *cqMemory
	// poll asks the library; only where ring is nil.
	poll(out []Completion) (int, error)
	// arm asks for an event; only where ring is nil.
	arm() error
	// wait waits for the next event.
	wait(ctx context.Context) error
	close() error
}

// queuePair is a queue pair that is ready to send and receive.
type queuePair interface {
	qpn() uint16
	// rings are the queues' memory, nil where requests go through the library.
	rings() (send, recv *wqMemory)
	// limits are what the device gave, which may be more than was asked for.
	limits() (maxSend, maxRecv int)
	// sendBatch and recvBatch collect requests for the library; only where
	// rings are nil.
	sendBatch() libBatch
	recvBatch() libRecvBatch
	fail() error
	state() (State, error)
	attach(c counter, ops CounterOps) error
	close() error
}

// counter counts completions of queue pairs it is attached to.
type counter interface {
	read() (done, failed uint64, err error)
	set(done, failed uint64) error
	add(done, failed uint64) error
	close() error
}

// libBatch is a batch for ibv_wr_*.
type libBatch interface {
	add(r request) error
	post() error
	reset()
	close()
}

// libRecvBatch is a batch for ibv_post_recv.
type libRecvBatch interface {
	add(into Slice, more []Slice, id uint64)
	post() error
	reset()
	close()
}

// request is one send request on its way to the library.
type request struct {
	op     Op
	to     *Dest
	local  Slice
	more   []Slice // instead of local, if not nil
	inline []byte  // instead of both, if not nil
	remote RemoteSlice
	imm    uint32
	hasImm bool
	id     uint64
}

// wqMemory is a send or receive queue as the device laid it out.
type wqMemory struct {
	ring     unsafe.Pointer // device memory of a send queue, host memory of a receive queue
	entry    int            // bytes: 64 or 128 of a send queue, 16 of a receive queue
	count    int            // entries, a power of two
	maxBatch int            // entries between two doorbells
	wideIDs  bool           // the device takes and returns 64-bit request ids
	bell     bell
	keep     any // what the memory belongs to
}

// cqMemory is a completion queue as the device laid it out.
type cqMemory struct {
	ring  unsafe.Pointer
	entry int // bytes, 32
	count int // a power of two
	bell  bell
	armed bool // the queue has a doorbell: it can raise events
	keep  any
}

// bell is a doorbell: a register of the kernel's device, or a call of the
// device in this process.
type bell struct {
	register unsafe.Pointer
	dev      *device.Device
	offset   uint32
}
