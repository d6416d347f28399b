package perf

/*
#include <stdlib.h>
#include "rings.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/dl"
)

const offersInFlight = C.PF_OFFERS

// rings are the requests of all queue pairs, in C memory.
type rings struct {
	side      *rdmaSide
	q         []C.struct_pf_queue // C memory
	preposted bool
}

func newRings(r *rdmaSide) (*rings, error) {
	n := len(r.qps)
	p := (*C.struct_pf_queue)(C.calloc(C.size_t(n), C.sizeof_struct_pf_queue))
	if p == nil {
		return nil, syscall.ENOMEM
	}
	g := &rings{side: r, q: unsafe.Slice(p, n)}
	for i, qp := range r.qps {
		g.q[i].qp = (*C.struct_ibv_qp)(qp.Handle())
	}
	return g, nil
}

func (g *rings) free() {
	for i := range g.q {
		C.pf_free_rings(&g.q[i])
	}
	C.free(unsafe.Pointer(unsafe.SliceData(g.q)))
	g.q = nil
}

var opcodes = map[Op]C.uint32_t{
	Write: C.IBV_WR_RDMA_WRITE, Read: C.IBV_WR_RDMA_READ, Send: C.IBV_WR_SEND, Atomic: C.IBV_WR_ATOMIC_FETCH_AND_ADD,
}

// shape says what queue i's requests for messages of a size look like.
func (g *rings) shape(i, size int) C.struct_pf_shape {
	r := g.side
	lay, w := r.lay, &r.o.Workload
	s := C.struct_pf_shape{
		opcode: opcodes[w.Op], list: C.uint32_t(w.List), slots: C.uint32_t(lay.slots),
		stride: C.uint64_t(lay.stride), size: C.uint32_t(size), index: C.uint32_t(i),
		lkey: C.uint32_t(r.mr.LKey()), rkey: C.uint32_t(r.remote.RKey),
		remote_stride: C.uint64_t(lay.stride),
	}
	// Data goes from a side's outgoing half to the other's incoming one,
	// whoever asks for it.
	local, remote := lay.out(i, 0), lay.in(i, 0)
	if w.Op == Read || w.Op == Atomic {
		local, remote = remote, local
	}
	if w.Op == Atomic {
		s.remote_stride = 0 // one counter a queue
	}
	s.local = C.uint64_t(r.mr.IOVA() + uint64(local))
	s.remote = C.uint64_t(r.remote.Addr + uint64(remote))
	return s
}

// make makes the requests for a size. Receives are posted once, with room for
// the largest size, and stay posted over all of them.
func (g *rings) make(size int) error {
	r := g.side
	for i := range g.q {
		q := &g.q[i]
		s := g.shape(i, size)
		if rc := C.pf_make_sends(q, &s); rc != 0 {
			return syscall.Errno(rc)
		}
		q.posted, q.completed, q.since = 0, 0, 0
		if r.rcq == nil || g.preposted {
			continue
		}
		s.local, s.size = C.uint64_t(r.mr.IOVA()+uint64(r.lay.in(i, 0))), C.uint32_t(r.o.largest())
		if rc := C.pf_make_receives(q, &s, C.uint32_t(r.o.RxDepth)); rc != 0 {
			return syscall.Errno(rc)
		}
		if rc := C.pf_prepost(q); rc != 0 {
			return fmt.Errorf("ibv_post_recv on %s: %w", r.dev.Name(), syscall.Errno(rc))
		}
		if r.needsCredits(&r.o.Workload) {
			cell := func(at int) *C.uint64_t { return (*C.uint64_t)(unsafe.Pointer(&r.mem.Bytes()[at])) }
			rc := C.pf_make_credit(q, cell(r.lay.credit(i)), cell(r.lay.offer(i)), s.lkey,
				C.uint64_t(r.remote.Addr+uint64(r.lay.credit(i))), s.rkey)
			if rc != 0 {
				return syscall.Errno(rc)
			}
		}
	}
	g.preposted = true
	return nil
}

// posted is how many sends each queue has posted in this run.
func (g *rings) posted() []uint64 {
	out := make([]uint64, len(g.q))
	for i := range g.q {
		out[i] = uint64(g.q[i].posted)
	}
	return out
}

// eventFunctions are the two functions of libibverbs that its header does not
// define inline. The library is in the process already: a device is open.
var eventFunctions = sync.OnceValues(func() ([2]unsafe.Pointer, error) {
	lib, err := dl.Open("libibverbs.so.1", "libibverbs.so")
	if err != nil {
		return [2]unsafe.Pointer{}, err
	}
	f := [2]unsafe.Pointer{lib.Symbol("ibv_get_cq_event"), lib.Symbol("ibv_ack_cq_events")}
	if f[0] == nil || f[1] == nil {
		return f, fmt.Errorf("%s has no completion events", lib.Path())
	}
	return f, nil
})
