package verbs

/*
#include "shim.h"

static int vb_async_fd(struct ibv_context *c) { return c->async_fd; }

static int vb_async_get(struct ibv_context *c, struct ibv_async_event *e)
{
	errno = 0;
	return vb_rc(vb.ibv_get_async_event(c, e));
}

static void vb_async_ack(struct ibv_async_event *e) { vb.ibv_ack_async_event(e); }

static void *vb_async_element(struct ibv_async_event *e) { return e->element.cq; }
static int vb_async_port(struct ibv_async_event *e) { return e->element.port_num; }
static uint32_t vb_async_qpn(struct ibv_async_event *e) { return e->element.qp->qp_num; }
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// eventFile lets the runtime's poller wait on a descriptor that the library
// owns: the descriptor is duplicated, so closing ours never closes theirs, and
// non-blocking, so no thread sits in the kernel.
type eventFile struct {
	mu     sync.Mutex // one waiter at a time: a deadline belongs to the file
	file   *os.File
	raw    syscall.RawConn
	closed atomic.Bool
}

func newEventFile(fd int, name string) (*eventFile, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, failed("fcntl", name, err, "")
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, failed("fcntl", name, err, "")
	}
	f := &eventFile{file: os.NewFile(uintptr(dup), name)}
	if f.raw, err = f.file.SyscallConn(); err != nil {
		f.file.Close()
		return nil, err
	}
	return f, nil
}

func (f *eventFile) close() error {
	if f == nil {
		return nil
	}
	// The runtime's own error for it has no name outside the runtime.
	f.closed.Store(true)
	return f.file.Close()
}

// wait calls get until it answers something else than EAGAIN, or the context
// ends. get must not block.
func (f *eventFile) wait(ctx context.Context, get func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f.waitOnce(ctx, get)
		// The deadline may be the one that an earlier context set as it
		// ended, after its wait was over.
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

func (f *eventFile) waitOnce(ctx context.Context, get func() error) error {
	if err := f.file.SetReadDeadline(time.Time{}); err != nil {
		return f.waitError(ctx, err)
	}
	// A deadline in the past wakes the poller: that is how a context ends it.
	stop := context.AfterFunc(ctx, func() { f.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var got error
	err := f.raw.Read(func(uintptr) bool {
		got = get()
		return !errors.Is(got, syscall.EAGAIN)
	})
	if err != nil {
		return f.waitError(ctx, err)
	}
	return got
}

func (f *eventFile) waitError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f.closed.Load() {
		return ErrClosed
	}
	return err
}

// gone explains the error of an event descriptor whose device was removed.
func gone(errno syscall.Errno) string {
	if errno == syscall.EIO {
		return "the device is gone; close what is open on it"
	}
	return ""
}

// EventType is what happened to a device, a port or an object
// (enum ibv_event_type).
type EventType int

const (
	EventCQError EventType = iota
	EventQPFatal
	EventQPRequestError
	EventQPAccessError
	EventCommunicationEstablished
	EventSQDrained
	EventPathMigrated
	EventPathMigrationError
	EventDeviceFatal
	EventPortActive
	EventPortError
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQError
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
	EventDeviceSpeedChange
)

var eventNames = [...]string{
	"completion queue error", "queue pair fatal error", "queue pair request error",
	"queue pair access error", "communication established", "send queue drained",
	"path migrated", "path migration error", "device fatal error", "port active",
	"port error", "LID change", "P_Key change", "SM change", "shared receive queue error",
	"shared receive queue limit reached", "last work request of the queue pair reached",
	"client reregister", "GID change", "work queue fatal error", "device speed change",
}

func (t EventType) String() string {
	if int(t) >= 0 && int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", int(t))
}

// AsyncEvent is an event outside the data path. Which of Port, QPN and Object
// is set depends on the type.
type AsyncEvent struct {
	Type   EventType
	Port   int    // port events: the port's number, from 1
	QPN    uint32 // queue pair events
	Object uintptr
}

func (e AsyncEvent) String() string {
	switch {
	case e.Port != 0:
		return fmt.Sprintf("%v, port %d", e.Type, e.Port)
	case e.QPN != 0:
		return fmt.Sprintf("%v, qp %d", e.Type, e.QPN)
	}
	return e.Type.String()
}

func (d *Device) eventFile() (*eventFile, error) {
	d.life.Lock()
	defer d.life.Unlock()
	if d.life.Closed() {
		return nil, &Error{Verb: "ibv_get_async_event", Object: d.info.Name, Err: ErrClosed}
	}
	if d.events == nil {
		f, err := newEventFile(int(C.vb_async_fd(d.ctx)), d.info.Name+" async events")
		if err != nil {
			return nil, err
		}
		d.events = f
	}
	return d.events, nil
}

// NextEvent waits for the device's next asynchronous event. The event is
// acknowledged before it is given, so that its object can be destroyed; Object
// only serves to tell objects apart and may name one that is gone.
func (d *Device) NextEvent(ctx context.Context) (AsyncEvent, error) {
	f, err := d.eventFile()
	if err != nil {
		return AsyncEvent{}, err
	}
	var out AsyncEvent
	err = f.wait(ctx, func() error {
		var e C.struct_ibv_async_event
		if rc := C.vb_async_get(d.ctx, &e); rc != 0 {
			if syscall.Errno(rc) == syscall.EAGAIN {
				return syscall.EAGAIN
			}
			return failed("ibv_get_async_event", d.info.Name, syscall.Errno(rc), gone(syscall.Errno(rc)))
		}
		out = AsyncEvent{Type: EventType(e.event_type)}
		switch out.Type {
		case EventDeviceFatal:
		case EventPortActive, EventPortError, EventLIDChange, EventPKeyChange,
			EventSMChange, EventClientReregister, EventGIDChange, EventDeviceSpeedChange:
			out.Port = int(C.vb_async_port(&e))
		case EventQPFatal, EventQPRequestError, EventQPAccessError, EventCommunicationEstablished,
			EventSQDrained, EventPathMigrated, EventPathMigrationError, EventQPLastWQEReached:
			out.QPN = uint32(C.vb_async_qpn(&e))
			out.Object = uintptr(C.vb_async_element(&e))
		default:
			out.Object = uintptr(C.vb_async_element(&e))
		}
		C.vb_async_ack(&e)
		return nil
	})
	return out, err
}
