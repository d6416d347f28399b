package verbs

/*
#include "shim.h"

static struct ibv_comp_channel *vb_create_channel(struct ibv_context *c)
{
	errno = 0;
	return vb.ibv_create_comp_channel(c);
}

static int vb_destroy_channel(struct ibv_comp_channel *ch) { return vb_rc(vb.ibv_destroy_comp_channel(ch)); }

static int vb_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, uintptr_t *cookie)
{
	void *p = NULL;
	int rc;

	errno = 0;
	rc = vb_rc(vb.ibv_get_cq_event(ch, cq, &p));
	*cookie = (uintptr_t)p;
	return rc;
}

static void vb_ack_cq_events(struct ibv_cq *cq, unsigned n) { vb.ibv_ack_cq_events(cq, n); }
*/
import "C"

import (
	"context"
	"sync"
	"syscall"
	"unsafe"
	"weak"
)

// cookies maps the number that the library carries for a completion queue
// back to the queue: no Go pointer is left with C. The pointers are weak, so
// that the table does not hide a queue that was dropped without Close.
var cookies cookieTable

type cookieTable struct {
	mu   sync.Mutex
	last uintptr
	cqs  map[uintptr]weak.Pointer[CQ]
}

func (t *cookieTable) add(q *CQ) uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cqs == nil {
		t.cqs = make(map[uintptr]weak.Pointer[CQ])
	}
	t.last++
	t.cqs[t.last] = weak.Make(q)
	return t.last
}

func (t *cookieTable) get(c uintptr) *CQ {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cqs[c].Value()
}

func (t *cookieTable) remove(c uintptr) {
	t.mu.Lock()
	delete(t.cqs, c)
	t.mu.Unlock()
}

// Channel carries the events of completion queues. Waiting on it costs a
// goroutine and no thread.
type Channel struct {
	object
	dev  *Device
	ch   *C.struct_ibv_comp_channel
	file *eventFile
}

// CreateChannel makes a completion channel.
func (d *Device) CreateChannel() (*Channel, error) {
	c := &Channel{dev: d}
	if err := c.attach("ibv_create_comp_channel", "channel", &d.object); err != nil {
		return nil, err
	}
	p, errno := C.vb_create_channel(d.ctx)
	if p == nil {
		c.detach()
		return nil, failed("ibv_create_comp_channel", d.info.Name, errno, "")
	}
	file, err := newEventFile(int(p.fd), d.info.Name+" completion channel")
	if err != nil {
		C.vb_destroy_channel(p)
		c.detach()
		return nil, err
	}
	c.ch, c.file = p, file
	c.rename("fd %d", int(p.fd))
	return c, nil
}

// Wait waits for the next event and gives the queue that raised it. Arm the
// queue (RequestNotify), poll it once, then wait.
func (c *Channel) Wait(ctx context.Context) (*CQ, error) {
	c.life.Lock()
	file := c.file
	c.life.Unlock()
	if file == nil {
		return nil, &Error{Verb: "ibv_get_cq_event", Object: c.describe(), Err: ErrClosed}
	}
	var (
		q   *CQ
		raw *C.struct_ibv_cq
	)
	err := file.wait(ctx, func() error {
		for {
			var cookie C.uintptr_t
			rc := C.vb_get_cq_event(c.ch, &raw, &cookie)
			if rc != 0 {
				if syscall.Errno(rc) == syscall.EAGAIN {
					return syscall.EAGAIN
				}
				return failed("ibv_get_cq_event", c.describe(), syscall.Errno(rc), gone(syscall.Errno(rc)))
			}
			// A queue waits in Close for its events to be
			// acknowledged, so only one that was dropped without
			// Close can be gone here.
			if q = cookies.get(uintptr(cookie)); q != nil {
				q.events.Add(1)
				return nil
			}
			C.vb_ack_cq_events(raw, 1)
		}
	})
	if err != nil {
		return nil, err
	}
	// Close acknowledges what was counted before it began; what comes later
	// it waits for, so that must be acknowledged here.
	if q.events.Load() >= ackBatch || q.closing.Load() {
		if n := q.events.Swap(0); n > 0 {
			C.vb_ack_cq_events(raw, C.uint(n))
		}
	}
	return q, nil
}

// ackBatch is how many events are acknowledged at once: each call takes a
// mutex in the library.
const ackBatch = 64

// Handle is the struct ibv_comp_channel, nil once the channel is closed.
func (c *Channel) Handle() unsafe.Pointer { return unsafe.Pointer(c.ch) }

func (c *Channel) describe() string { return c.dev.info.Name + " " + c.name() }

// Close destroys the channel. A goroutine in Wait gets ErrClosed. It is
// ErrBusy while completion queues use the channel.
func (c *Channel) Close() error {
	return c.close("ibv_destroy_comp_channel", func() error {
		if c.file != nil {
			if err := c.file.close(); err != nil {
				return err
			}
			c.file = nil
		}
		if err := code("ibv_destroy_comp_channel", c.describe(), int(C.vb_destroy_channel(c.ch)), ""); err != nil {
			return err
		}
		c.ch = nil
		return nil
	})
}
