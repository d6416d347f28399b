package rdmacm

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
)

// A Channel is an open connection manager. Its listeners and connections share
// one descriptor, on which one goroutine takes the kernel's events and hands
// them out. Any number of goroutines may use it.
type Channel struct {
	k    kernel
	done chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	ids    map[uint64]*id
	last   uint64 // uid given last; the kernel keeps 0 for ids without one
	users  int    // the owner until Close, and every id until it is destroyed
	closed bool   // by the owner: nothing new
	broken error  // why there are no more events
}

// Open opens the connection manager. It is ErrNoDevice where the kernel's
// module is not loaded.
func Open() (*Channel, error) {
	f, err := openFile(Path)
	if err != nil {
		return nil, err
	}
	return newChannel(f), nil
}

func newChannel(k kernel) *Channel {
	ch := &Channel{k: k, ids: make(map[uint64]*id), users: 1, done: make(chan struct{})}
	go ch.dispatch()
	return ch
}

// Close gives up the channel. Listeners and connections made on it stay, and
// the last of them to be closed closes the descriptor.
func (ch *Channel) Close() error {
	ch.mu.Lock()
	if ch.closed {
		ch.mu.Unlock()
		return nil
	}
	ch.closed = true
	ch.mu.Unlock()
	return ch.drop()
}

// drop takes one user away; the last one closes the descriptor and waits for
// the goroutine.
func (ch *Channel) drop() error {
	ch.mu.Lock()
	ch.users--
	last := ch.users == 0
	ch.mu.Unlock()
	if !last {
		return nil
	}
	err := ch.k.close()
	<-ch.done
	return err
}

// dispatch takes events until the descriptor is closed.
func (ch *Channel) dispatch() {
	defer close(ch.done)
	b := make([]byte, eventSize)
	for {
		err := ch.k.event(b)
		var ev rawEvent
		if err == nil {
			ev, err = decodeEvent(b)
		}
		if err != nil {
			ch.mu.Lock()
			ch.broken = &Error{Op: "GET_EVENT", Err: err}
			for _, id := range ch.ids {
				id.fail(ch.broken)
			}
			ch.mu.Unlock()
			return
		}
		ch.deliver(ev)
	}
}

func (ch *Channel) deliver(ev rawEvent) {
	ch.mu.Lock()
	to := ch.ids[ev.uid]
	taken := to != nil && to.push(ev)
	ch.mu.Unlock()
	// A request that nobody will answer holds kernel memory and keeps its peer
	// waiting; destroying it refuses it. That may take the kernel a moment, and
	// the channel must not be closed under it.
	if !taken && ev.Type == EventConnectRequest && ch.hold() {
		go func() {
			defer ch.drop()
			ch.k.run(destroyID(ev.id))
		}()
	}
}

// hold adds a user unless there are none left.
func (ch *Channel) hold() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.users == 0 {
		return false
	}
	ch.users++
	return true
}

// id is a struct rdma_cm_id: the kernel knows it by num, and names it in events
// by uid.
type id struct {
	ch  *Channel
	uid uint64
	num uint32

	wake chan struct{} // holds a token while events wait
	gone chan struct{} // closed at destroy, at a failure, and when the peer is lost

	// commands: held shared by every command on the id, so that its number is
	// not another's by the time the command arrives.
	commands sync.RWMutex

	mu        sync.Mutex
	queue     []rawEvent
	lost      error // why the connection is gone
	isGone    bool
	destroyed bool
}

// queueMax bounds the events that wait for an owner who does not ask for them:
// requests of a listener, which are then refused, and address changes of a
// connection, of which the newest are then dropped.
const queueMax = 1024

// register makes room for a kernel's id among those that get events.
func (ch *Channel) register(op string) (*id, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.users == 0:
		return nil, &Error{Op: op, Err: ErrClosed}
	case ch.broken != nil:
		return nil, ch.broken
	}
	ch.last++
	ch.users++
	x := &id{ch: ch, uid: ch.last, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	ch.ids[x.uid] = x
	return x, nil
}

// create makes a new id.
func (ch *Channel) create(op string) (*id, error) {
	ch.mu.Lock()
	closed := ch.closed
	ch.mu.Unlock()
	if closed {
		return nil, &Error{Op: op, Err: ErrClosed}
	}
	x, err := ch.register(op)
	if err != nil {
		return nil, err
	}
	c := createID(x.uid)
	if err := ch.k.run(c); err != nil {
		x.forget()
		return nil, commandError(commandName(c.num), netip.AddrPort{}, err)
	}
	x.num = native.Uint32(c.answer)
	return x, nil
}

// run does a command on the id.
func (x *id) run(c command) error {
	x.commands.RLock()
	defer x.commands.RUnlock()
	x.mu.Lock()
	destroyed := x.destroyed
	x.mu.Unlock()
	if destroyed {
		return ErrClosed
	}
	return x.ch.k.run(c)
}

// forget undoes register.
func (x *id) forget() error {
	x.ch.mu.Lock()
	delete(x.ch.ids, x.uid)
	x.ch.mu.Unlock()
	return x.ch.drop()
}

// push queues an event and says whether it was taken.
func (x *id) push(ev rawEvent) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if ev.Type == EventDisconnected || ev.Type == EventDeviceRemoval {
		x.lose(eventError("connection", netip.AddrPort{}, ev.Event))
	}
	if x.destroyed || len(x.queue) >= queueMax {
		return false
	}
	x.queue = append(x.queue, ev)
	select {
	case x.wake <- struct{}{}:
	default:
	}
	return true
}

func (x *id) fail(err error) {
	x.mu.Lock()
	x.lose(err)
	x.mu.Unlock()
}

// lose notes the first reason why the connection is gone.
func (x *id) lose(err error) {
	if !x.isGone {
		x.lost, x.isGone = err, true
		close(x.gone)
	}
}

// next waits for the id's next event. What is queued comes before the news that
// the id is gone.
func (x *id) next(ctx context.Context) (rawEvent, error) {
	for {
		x.mu.Lock()
		if len(x.queue) > 0 {
			ev := x.queue[0]
			x.queue = x.queue[1:]
			x.mu.Unlock()
			return ev, nil
		}
		lost, isGone := x.lost, x.isGone
		x.mu.Unlock()
		if isGone {
			return rawEvent{}, lost
		}
		select {
		case <-x.wake:
		case <-x.gone:
		case <-ctx.Done():
			return rawEvent{}, ctx.Err()
		}
	}
}

// destroy gives the id back to the kernel, once. The requests that wait on a
// listener are refused.
func (x *id) destroy() error {
	x.mu.Lock()
	if x.destroyed {
		x.mu.Unlock()
		return nil
	}
	x.destroyed = true
	requests := x.queue
	x.queue = nil
	x.lose(&Error{Op: "connection", Err: ErrClosed})
	x.mu.Unlock()

	for _, ev := range requests {
		if ev.Type == EventConnectRequest {
			x.ch.k.run(destroyID(ev.id))
		}
	}
	x.commands.Lock()
	err := x.ch.k.run(destroyID(x.num))
	x.commands.Unlock()
	if closing := x.forget(); err == nil {
		err = closing
	}
	if err != nil {
		return commandError("DESTROY_ID", netip.AddrPort{}, err)
	}
	return nil
}

// giveUp destroys an id after a failed operation. Where the context has ended,
// the kernel may still be busy with it and is not waited for.
func (x *id) giveUp(ctx context.Context) {
	if ctx.Err() != nil {
		x.abandon(nil)
		return
	}
	x.destroy()
}

// abandon destroys an id in the background, once the command whose end after
// tells is over.
func (x *id) abandon(after <-chan error) {
	go func() {
		if after != nil {
			<-after
		}
		x.destroy()
	}()
}

// query asks what device and addresses the id is bound to.
func (x *id) query() (dev Device, local, remote netip.AddrPort, err error) {
	c := query(x.num)
	if err := x.run(c); err != nil {
		return dev, local, remote, commandError(commandName(c.num), netip.AddrPort{}, err)
	}
	dev, local, remote = decodeQueryAddr(c.answer)
	return dev, local, remote, nil
}

// Device is the RDMA device that the kernel chose for an address.
type Device struct {
	Index    int     // as in netlink and verbs.DeviceInfo; -1 where unknown
	Port     int     // from 1; 0 where no device is bound
	NodeGUID [8]byte // in the order it is printed in
}

func (d Device) String() string {
	return fmt.Sprintf("RDMA device %d (node %x) port %d", d.Index, d.NodeGUID, d.Port)
}
