// Package marker marks operations of this project's own queues for tracers: "post" where
// an operation is posted, "complete" where the program has its completion. The sites are
// static probes (USDT) of the provider "peerdirect", which `peerdirect trace completions`,
// bpftrace and perf attach to. While nobody does, a batch costs a load and a branch.
//
// A hit costs about 0.7 us, so not every operation is marked: a queue marks one, waits
// for its completion, and takes the next one an [Interval] later.
package marker

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/internal/marker/sites"
)

// Interval is the mean time between two operations that a queue marks. Both marks of one
// then take 0.3 % of its time.
const Interval = 500 * time.Microsecond

// mostPassed bounds the operations between two that are marked, for queues that become
// slow.
const mostPassed = 8192

// NotTaken is the status of an operation that the device did not take: none of the
// device's own.
const NotTaken = 1<<32 - 1

// Mark is what the sites get a pointer to. The notes in sites describe it to tracers,
// and internal/perf has it in C: it does not change without these.
type Mark struct {
	device *byte  // the name, ended by a 0
	id     uint64 // of the operation
	ns     uint64 // complete: since it was posted
	bytes  uint64
	qp     uint32 // the queue pair's number
	opcode uint32 // enum ibv_wr_opcode
	status uint32 // complete: enum ibv_wc_status, or NotTaken
	passed uint32 // post: operations since the one that was marked before
}

func call(site unsafe.Pointer, m *Mark)

// Sites gives the addresses of the sites and of the semaphore to code in C. It calls the
// sites with a pointer to its own Mark where the semaphore is not 0.
func Sites() (post, complete unsafe.Pointer, semaphore *uint32) {
	return sites.Post, sites.Complete, sites.Semaphore
}

var (
	semaphore = sites.Semaphore
	start     = time.Now()
)

// Built tells whether there are sites: they take cgo, and the build tag nomarks leaves
// them and all that leads to them out, to measure what they cost.
const Built = sites.Built

// On tells whether a tracer is attached. It is for once a batch.
func On() bool { return Built && atomic.LoadUint32(semaphore) != 0 }

// Queue marks the operations of one queue, or of several that are posted to by turns. It
// belongs to the goroutine that posts and polls. The zero value marks for a device
// without a name.
type Queue struct {
	mark   Mark
	stage  stage
	left   int // operations to let pass
	passed int // since the one that was marked before
	posted time.Duration
}

type stage uint8

const (
	idle stage = iota
	chosen
	flying
)

// Name sets the device's name.
func (q *Queue) Name(device string) {
	q.mark.device = unsafe.SliceData(append([]byte(device), 0))
}

// Due is for n operations that are about to be posted while On: it tells which of them to
// Choose, or -1. What became of them is told by Passed.
func (q *Queue) Due(n int) int {
	if q.stage == idle && q.left < n {
		return q.left
	}
	return -1
}

// Choose takes the operation that is Due. Its completion has to be told from others, so
// its request's id should say that it was chosen.
func (q *Queue) Choose(opcode uint32, id, bytes uint64, qp uint32) {
	m := &q.mark
	m.opcode, m.id, m.bytes, m.qp = opcode, id, bytes, qp
	m.passed = uint32(q.passed + q.left)
	q.passed = -(q.left + 1) // Passed will count it and those before it
	q.stage = chosen
}

// Passed tells that n of the operations of Due were taken.
func (q *Queue) Passed(n int) {
	q.passed += n
	q.left = max(q.left-n, 0)
}

// Chosen tells whether an operation was chosen that is yet to be posted.
func (q *Queue) Chosen() bool { return Built && q.stage == chosen }

// Post marks the chosen operation; the next thing to do is to post it.
func (q *Queue) Post() {
	now := time.Since(start)
	q.left = pace(int(q.mark.passed)+1, now-q.posted)
	q.stage = flying
	call(sites.Post, &q.mark)
	q.posted = time.Since(start)
}

// pace is how many operations to let pass, if so many have taken a time.
func pace(operations int, took time.Duration) int {
	if took <= 0 {
		return mostPassed
	}
	each := float64(operations) * float64(Interval) / float64(took)
	return max(int(min(each, mostPassed))-1, 0)
}

// Waiting tells whether an operation is marked that has not completed.
func (q *Queue) Waiting() bool { return Built && q.stage == flying }

// Complete marks the completion of the operation that was marked last.
func (q *Queue) Complete(status uint32) {
	q.mark.ns = uint64(time.Since(start) - q.posted)
	q.mark.status = status
	q.stage = idle
	call(sites.Complete, &q.mark)
}
