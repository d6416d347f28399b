package perf

/*
#cgo nomarks CFLAGS: -DPF_NO_MARKS
#include <stdlib.h>
#include "rings.h"

typedef int (*pf_get_event_fn)(struct ibv_comp_channel *, struct ibv_cq **, void **);
typedef void (*pf_ack_fn)(struct ibv_cq *, unsigned int);

static void pf_set_events(struct pf_run *r, void *get, void *ack)
{
	r->get_event = (pf_get_event_fn)get;
	r->ack_events = (pf_ack_fn)ack;
}

static void pf_set_marks(struct pf_run *r, void *post, void *complete, void *semaphore, const char *device)
{
	r->marks.post = (void (*)(struct pf_mark *))post;
	r->marks.complete = (void (*)(struct pf_mark *))complete;
	r->marks.semaphore = semaphore;
	r->marks.mark.device = device;
}

static uint64_t pf_live(const struct pf_run *r)
{
	return __atomic_load_n(&r->sent, __ATOMIC_RELAXED);
}
*/
import "C"

import (
	"context"
	"errors"
	"math"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/verbs"
)

// sampleRoom is how many samples a loop takes before it hands them over.
const sampleRoom = 64 << 10

// loopRun is one loop and the memory it works in, all of it C's.
type loopRun struct {
	r       *C.struct_pf_run
	side    *rdmaSide
	arrays  []unsafe.Pointer
	stamped []uint64 // posted_at
	done    []uint64 // done_at
}

func (r *rdmaSide) newRun(cs *controls, initiator, first bool) (*loopRun, error) {
	w := &r.o.Workload
	c := (*C.struct_pf_run)(C.calloc(1, C.sizeof_struct_pf_run))
	l := &loopRun{r: c, side: r}
	c.control = cs.all[0]
	c.q, c.queues = unsafe.SliceData(r.rings.q), C.uint32_t(len(r.rings.q))
	c.scq = (*C.struct_ibv_cq)(r.scq.Handle())
	if r.rcq != nil {
		c.rcq = (*C.struct_ibv_cq)(r.rcq.Handle())
	}
	if r.o.Events {
		f, err := eventFunctions()
		if err != nil {
			l.free()
			return nil, err
		}
		C.pf_set_events(c, f[0], f[1])
		c.sch = (*C.struct_ibv_comp_channel)(r.scq.Channel().Handle())
		if r.rcq != nil {
			c.rch = (*C.struct_ibv_comp_channel)(r.rcq.Channel().Handle())
		}
	}
	name := unsafe.Pointer(C.CString(r.dev.Name()))
	l.arrays = append(l.arrays, name)
	post, complete, semaphore := marker.Sites()
	C.pf_set_marks(c, post, complete, unsafe.Pointer(semaphore), (*C.char)(name))
	c.timeout_ns = C.uint64_t(r.o.Timeout)
	c.depth, c.list, c.cq_mod = C.uint32_t(w.TxDepth), C.uint32_t(w.List), C.uint32_t(w.CQMod)
	if initiator {
		c.iters = C.PF_UNKNOWN
		if w.Duration == 0 {
			c.iters = C.uint64_t(w.Iters)
		}
	}
	if first {
		c.first = 1
	}
	return l, nil
}

// array is zeroed C memory that the loop writes stamps into.
func (l *loopRun) array(n int) ([]uint64, error) {
	p := C.calloc(C.size_t(n), 8)
	if p == nil {
		return nil, syscall.ENOMEM
	}
	l.arrays = append(l.arrays, p)
	return unsafe.Slice((*uint64)(p), n), nil
}

func (l *loopRun) free() {
	for _, p := range l.arrays {
		C.free(p)
	}
	C.free(unsafe.Pointer(l.r))
}

func (l *loopRun) fault(what string) fault {
	c := l.r
	return fault{
		errno: int(c.err), done: uint64(c.wc_done), status: uint32(c.wc_status), vendor: uint32(c.wc_vendor), qpn: uint32(c.wc_qpn),
		object: l.side.dev.Name(), timeout: l.side.o.Timeout, waitedForWhat: what,
	}
}

func inlineFlag(size, inline int) C.uint32_t {
	if size <= inline {
		return C.IBV_SEND_INLINE
	}
	return 0
}

// run does one size and gives what this side measured, and how many messages
// it initiated on each queue.
func (r *rdmaSide) run(ctx context.Context, s *session, cs *controls, size int) (*sideResult, []uint64, error) {
	w := &r.o.Workload
	initiator := s.initiator()
	if !initiator && w.Op != Send && (w.Op != Write || w.Test == Bandwidth) {
		return &sideResult{}, make([]uint64, w.QPs), nil // the device answers alone
	}
	l, err := r.newRun(cs, initiator, initiator)
	if err != nil {
		return nil, nil, err
	}
	defer l.free()
	l.r.flags = inlineFlag(size, r.inline)
	s.follow(func() uint64 { return uint64(C.pf_live(l.r)) })
	defer s.follow(nil)

	var res *sideResult
	if w.Test == Bandwidth {
		res, err = l.bandwidth(ctx, s, cs, size)
	} else {
		res, err = l.latency(ctx, cs, size, initiator)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := r.flush(ctx, initiator); err != nil {
		return nil, nil, err
	}
	return res, r.rings.posted(), nil
}

func (l *loopRun) bandwidth(ctx context.Context, s *session, cs *controls, size int) (*sideResult, error) {
	w, c := &l.side.o.Workload, l.r
	if messages := w.Iters * w.QPs; w.Duration == 0 && messages <= maxPeakMessages && c.iters != 0 {
		var err error
		if l.stamped, err = l.array(messages); err != nil {
			return nil, err
		}
		if l.done, err = l.array(messages); err != nil {
			return nil, err
		}
		c.posted_at = (*C.uint64_t)(unsafe.SliceData(l.stamped))
		c.done_at = (*C.uint64_t)(unsafe.SliceData(l.done))
	}
	call := func() error {
		rc := C.pf_bw(c)
		return loopError(int(rc), l.fault("no request completed and nothing arrived"))
	}
	err := watching(ctx, cs, call)
	if errors.Is(err, errMore) {
		if err = s.sentAll(ctx, l.side.rings.posted()); err == nil {
			err = watching(ctx, cs, call)
		}
	}
	if err != nil {
		return nil, err
	}
	perTick := l.side.clock.nsPerTick()
	res := &sideResult{Sent: uint64(c.sent), Seconds: float64(c.end-c.start) * perTick / 1e9}
	if l.stamped == nil {
		return res, nil
	}
	if p := peak(l.stamped, l.done, w.List); !math.IsInf(p, 1) {
		res.Peak = float64(size) / (p * perTick / 1e9)
	}
	if w.QPs == 1 {
		// Messages complete in the order of their posting.
		lat := newLatencies()
		for i, done := range l.done {
			if done != 0 {
				lat.record(float64(int64(done-l.stamped[i/w.List*w.List])) * perTick)
			}
		}
		res.Completion = lat.summary(1)
	}
	return res, nil
}

func (l *loopRun) latency(ctx context.Context, cs *controls, size int, initiator bool) (*sideResult, error) {
	r, c := l.side, l.r
	w := &r.o.Workload
	if initiator {
		n := sampleRoom
		if w.Duration == 0 {
			n = min(n, w.Iters)
		}
		var err error
		if l.stamped, err = l.array(n); err != nil {
			return nil, err
		}
		c.posted_at, c.samples = (*C.uint64_t)(unsafe.SliceData(l.stamped)), C.uint64_t(n)
	}
	trips, what := 2.0, "no answer came"
	call := func() C.int { return C.pf_lat_send(c) }
	switch w.Op {
	case Write:
		b := r.mem.Bytes()
		c.post_byte = (*C.uint8_t)(&b[r.lay.out(0, 0)+size-1])
		c.poll_byte = (*C.uint8_t)(&b[r.lay.in(0, 0)+size-1])
		call = func() C.int { return C.pf_lat_write(c) }
	case Read, Atomic:
		trips, what = 1, "no request completed"
		call = func() C.int { return C.pf_lat_single(c) }
	}
	lat := newLatencies()
	for {
		err := watching(ctx, cs, func() error {
			rc := call()
			return loopError(int(rc), l.fault(what))
		})
		if err != nil && !errors.Is(err, errMore) {
			return nil, err
		}
		perTick := r.clock.nsPerTick()
		lat.recordStamps(l.stamped[:c.sampled], uint64(c.end), perTick)
		c.sampled = 0
		if err == nil {
			res := &sideResult{Seconds: float64(c.end-c.start) * perTick / 1e9, Latency: lat.summary(trips)}
			if initiator {
				res.Sent = uint64(c.sent)
			}
			return res, nil
		}
	}
}

// flush makes sure that what this side wrote has arrived. On InfiniBand and
// RoCE the completion of a write tells that; on iWARP it tells only that the
// bytes are on their way, and the answer to a read sent behind them tells the
// rest.
func (r *rdmaSide) flush(ctx context.Context, initiator bool) error {
	if !initiator || r.o.Op != Write || r.dev.Transport() != verbs.TransportIWARP {
		return nil
	}
	cs, err := newControls(1) // the run's own may be closing
	if err != nil {
		return err
	}
	defer cs.free()
	for i, qp := range r.qps {
		if err := r.flushOne(ctx, cs, i, qp); err != nil {
			return err
		}
	}
	return nil
}

func (r *rdmaSide) flushOne(ctx context.Context, cs *controls, i int, qp *verbs.RC) error {
	q := (*C.struct_pf_queue)(C.calloc(1, C.sizeof_struct_pf_queue))
	defer C.free(unsafe.Pointer(q))
	defer C.pf_free_rings(q)
	q.qp = (*C.struct_ibv_qp)(qp.Handle())
	// A byte that this side has written comes back over itself.
	shape := C.struct_pf_shape{
		opcode: C.IBV_WR_RDMA_READ, list: 1, slots: 1, size: 1,
		local: C.uint64_t(r.mr.IOVA() + uint64(r.lay.out(i, 0))), lkey: C.uint32_t(r.mr.LKey()),
		remote: C.uint64_t(r.remote.Addr + uint64(r.lay.in(i, 0))), rkey: C.uint32_t(r.remote.RKey),
	}
	if rc := C.pf_make_sends(q, &shape); rc != 0 {
		return syscall.Errno(rc)
	}
	l, err := r.newRun(cs, true, true)
	if err != nil {
		return err
	}
	defer l.free()
	l.r.q, l.r.queues, l.r.iters, l.r.list, l.r.depth, l.r.cq_mod = q, 1, 1, 1, 1, 1
	return watching(ctx, cs, func() error {
		rc := C.pf_bw(l.r)
		return loopError(int(rc), l.fault("the last writes did not arrive"))
	})
}
