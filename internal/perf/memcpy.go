package perf

/*
#include <stdlib.h>
#include "baseline.h"
*/
import "C"

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/verbs"
)

// The copy baseline: what the same messages cost between two threads that
// share memory. A write is one copy by the writer, a read one by the reader, a
// send one into the shared memory and one out of it. An atomic operation works
// on a shared counter.
type memcpyRun struct {
	o     *Options
	clock clock
	lay   layout
	seed  uint64
	src   *verbs.Buffer
	mid   *verbs.Buffer
	dst   *verbs.Buffer
}

const ringBytes = 4 << 20

func runMemcpy(ctx context.Context, o *Options, report *Report, out Output) error {
	m := &memcpyRun{o: o, clock: newClock(), lay: newLayout(&o.Workload), seed: rand.Uint64()}
	if o.Test == Bandwidth && o.Op != Read && o.Op != Atomic {
		// The writer runs ahead of the taker, as a send queue does, and
		// no farther than caches reach.
		m.lay.slots = max(min(o.TxDepth, ringBytes/m.lay.stride), 2)
		m.lay.region = m.lay.slots * m.lay.stride
	}
	for _, b := range []**verbs.Buffer{&m.src, &m.mid, &m.dst} {
		var err error
		if *b, err = verbs.NewBuffer(m.lay.region, verbs.BufferOptions{Populate: true}); err != nil {
			return err
		}
		defer (*b).Close()
	}
	report.Conditions = Conditions{Workload: o.Workload, Client: thisMachine(o)}
	if err := out.Begin(report.Conditions); err != nil {
		return err
	}
	for _, size := range o.sizes() {
		side, err := m.run(ctx, size)
		if err != nil {
			return err
		}
		res := combine(&o.Workload, size, side)
		report.Results = append(report.Results, res)
		if err := out.Row(res); err != nil {
			return err
		}
	}
	return nil
}

func (m *memcpyRun) run(ctx context.Context, size int) (*sideResult, error) {
	m.fill(size)
	cs, err := newControls(1)
	if err != nil {
		return nil, err
	}
	defer cs.free()
	if m.o.Duration > 0 {
		timer := time.AfterFunc(m.o.Duration, cs.close)
		defer timer.Stop()
	}
	// calloc aligns to 16 bytes and the counters want lines of their own.
	p := C.aligned_alloc(128, C.sizeof_struct_pf_shm)
	if p == nil {
		return nil, syscall.ENOMEM
	}
	defer C.free(p)
	c := (*C.struct_pf_shm)(p)
	*c = C.struct_pf_shm{}
	base := func(b *verbs.Buffer) *C.uint8_t { return (*C.uint8_t)(&b.Bytes()[0]) }
	c.control, c.src, c.shared, c.dst = cs.all[0], base(m.src), base(m.mid), base(m.dst)
	c.size, c.stride, c.slots = C.uint64_t(size), C.uint64_t(m.lay.stride), C.uint64_t(m.lay.slots)
	c.timeout_ns, c.iters = C.uint64_t(m.o.Timeout), C.PF_UNKNOWN
	if m.o.Duration == 0 {
		c.iters = C.uint64_t(m.o.Iters)
	}
	if m.o.Op == Send {
		c.copy_out = 1
	}
	res, err := m.loops(ctx, cs, c)
	if err == nil && m.o.Verify {
		err = m.verify(c, size)
		res.Verified = err == nil
	}
	return res, err
}

// fill puts the pattern where messages come from.
func (m *memcpyRun) fill(size int) {
	clear(m.mid.Bytes())
	clear(m.dst.Bytes())
	for s := range m.lay.slots {
		p, at := pattern{m.seed, 0, s}, s*m.lay.stride
		p.fill(m.src.Bytes()[at : at+size])
		if m.o.Op == Read {
			p.fill(m.mid.Bytes()[at : at+size])
		}
	}
}

func (m *memcpyRun) loops(ctx context.Context, cs *controls, c *C.struct_pf_shm) (*sideResult, error) {
	status := func(rc C.int) error {
		return loopError(int(rc), fault{timeout: m.o.Timeout, waitedForWhat: "the other thread did nothing"})
	}
	first, other := func() error { rc := C.pf_shm_write(c); return status(rc) }, func() error { rc := C.pf_shm_take(c); return status(rc) }
	lat := newLatencies()
	var stamps []uint64
	trips := 1.0
	switch {
	case m.o.Op == Atomic:
		first, other = func() error { rc := C.pf_shm_atomic(c); return status(rc) }, nil
	case m.o.Op == Read:
		first, other = func() error { rc := C.pf_shm_read(c); return status(rc) }, nil
	case m.o.Test == Latency:
		first, other = func() error { rc := C.pf_shm_ping(c); return status(rc) }, func() error { rc := C.pf_shm_pong(c); return status(rc) }
		trips = 2
	}
	if m.o.Test == Latency {
		n := sampleRoom
		if m.o.Duration == 0 {
			n = min(n, m.o.Iters)
		}
		p := C.calloc(C.size_t(n), 8)
		if p == nil {
			return nil, syscall.ENOMEM
		}
		defer C.free(p)
		stamps = unsafe.Slice((*uint64)(p), n)
		c.posted_at, c.samples = (*C.uint64_t)(p), C.uint64_t(n)
	}
	take := func() {
		lat.recordStamps(stamps[:c.sampled], uint64(c.end), m.clock.nsPerTick())
		c.sampled = 0
	}

	var wg sync.WaitGroup
	var otherErr error
	if other != nil {
		wg.Go(func() {
			if otherErr = other(); otherErr != nil {
				cs.stop()
			}
		})
	}
	err := watching(ctx, cs, func() error {
		for {
			err := first()
			if m.o.Test == Latency {
				take()
			}
			if !errors.Is(err, errMore) {
				if err != nil {
					cs.stop()
				}
				return err
			}
		}
	})
	wg.Wait()
	if err == nil || errors.Is(err, errStopped) && otherErr != nil {
		err = otherErr
	}
	if err != nil {
		return nil, err
	}
	return &sideResult{
		Sent: uint64(c.sent), Seconds: float64(c.end-c.start) * m.clock.nsPerTick() / 1e9, Latency: lat.summary(trips),
	}, nil
}

func (m *memcpyRun) verify(c *C.struct_pf_shm, size int) error {
	got := m.mid
	if m.o.Op == Read || m.o.Op == Send {
		got = m.dst
	}
	if m.o.beforeCheck != nil {
		m.o.beforeCheck(got.Bytes())
	}
	if m.o.Op == Atomic {
		return checkCounter(uint64(c.counter), uint64(c.sent), size, 0)
	}
	for s := range min(uint64(m.lay.slots), uint64(c.sent)) {
		at := int(s) * m.lay.stride
		if err := (pattern{m.seed, 0, int(s)}).check(got.Bytes()[at:at+size], size); err != nil {
			return err
		}
	}
	return nil
}
