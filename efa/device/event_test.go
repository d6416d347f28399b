package device

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// equeue is an event queue and its consumer.
type equeue struct {
	h     *host
	n     uint16
	depth uint32
	ring  []byte
	cc    uint32
}

func (h *host) equeue(depth int) *equeue {
	addr, ring := h.mem.alloc(depth * wire.SizeEQE)
	r := must(h.d.CreateEQ(EQOptions{CreateEQ: wire.CreateEQ{
		Depth: uint16(depth), EntryWords: 4, MSIXVector: 3, BaseAddr: addr, Events: wire.EQCompletionEvents,
	}}))(h.t)
	return &equeue{h, r.EQN, uint32(depth), ring, 0}
}

func (q *equeue) poll() (cqn uint16, ok bool) {
	b := q.ring[q.cc&(q.depth-1)*wire.SizeEQE:]
	w := atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0])))
	if (w&1 != 0) != (q.cc&q.depth == 0) {
		return 0, false
	}
	var e wire.EQE
	e.Decode(b)
	q.cc++
	return e.CQN, true
}

func (q *equeue) expect(cqn uint16) {
	q.h.t.Helper()
	eventually(q.h.t, "an event", func() bool {
		n, ok := q.poll()
		if ok && n != cqn {
			q.h.t.Fatalf("event of CQ %d, want %d", n, cqn)
		}
		return ok
	})
}

func (q *equeue) quiet() {
	q.h.t.Helper()
	time.Sleep(2 * time.Millisecond)
	if n, ok := q.poll(); ok {
		q.h.t.Fatalf("unexpected event of CQ %d", n)
	}
}

func (q *equeue) arm() { q.h.d.RingEQ(wire.EQDBArm.Put(uint32(q.n), 1)) }

// arm rings a completion queue's doorbell with the consumer's count.
func (q *cqueue) arm(sn uint32) {
	q.h.d.Ring(q.info.DB, q.total&cqConsumer|sn<<29&0x60000000|cqArm)
}

func (h *host) wantIRQs(n int32) {
	h.t.Helper()
	eventually(h.t, "the interrupt", func() bool { return h.irqs.Load() >= n })
	time.Sleep(time.Millisecond)
	if got := h.irqs.Load(); got != n {
		h.t.Fatalf("%d interrupts, want %d", got, n)
	}
}

// TestArming: the rules for completion queues and event queues, one and two sub-CQs.
func TestArming(t *testing.T) {
	for _, subs := range []int{1, 2} {
		f := NewFabric(FabricOptions{})
		h := newHost(t, f, Options{SubCQs: subs})
		eq := h.equeue(8)
		q := h.cqueue(64, wire.CreateCQ{Caps: wire.CQInterruptMode, EQN: eq.n})
		e := h.endpoint(epOptions{scq: q})
		mr := h.region(4096, allAccess)
		p := e.to(e)
		write := func(id uint64) { e.post(p.rdma(wire.IORDMAWrite, id, mr.at(0, 8), mr.addr+100, mr.RKey)) }

		// Not armed: no event.
		write(1)
		q.expect(1, wire.CompOK)
		eq.quiet()
		// Armed when nothing is there: an event with the next completion, one only;
		// no interrupt, for the event queue is not armed.
		q.arm(0)
		eq.quiet()
		write(2)
		eq.expect(q.info.CQ)
		q.expect(2, wire.CompOK)
		write(3)
		q.expect(3, wire.CompOK)
		eq.quiet()
		h.wantIRQs(0)
		// Entries written since the last interrupt: arming fires at once.
		eq.arm()
		h.wantIRQs(1)
		// Armed with nothing new: it waits for an event.
		eq.arm()
		h.wantIRQs(1)
		// Armed with a completion that was not consumed: an event at once, and the
		// interrupt with it.
		write(4)
		eventually(t, "a completion", func() bool { return h.d.Stats().RDMAWrite.WriteWRs == 4 })
		time.Sleep(time.Millisecond)
		q.arm(1)
		eq.expect(q.info.CQ)
		h.wantIRQs(2)
		q.expect(4, wire.CompOK)
		// The interrupt disarmed the event queue, the event the completion queue.
		write(5)
		q.expect(5, wire.CompOK)
		eq.quiet()
		// A consumer count after a request to arm does not undo it, and the same
		// sequence number twice does no harm.
		q.arm(2)
		h.d.Ring(q.info.DB, q.total&cqConsumer)
		q.arm(2)
		time.Sleep(2 * time.Millisecond)
		write(6)
		eq.expect(q.info.CQ)
		q.expect(6, wire.CompOK)
		eq.arm()
		h.wantIRQs(3)
		// A polled queue's doorbell arms nothing.
		polled := h.cqueue(64, wire.CreateCQ{})
		polled.arm(0)
		eq.quiet()
		f.Close()
	}
}

// TestFullEQ: an event queue that the driver does not read is not overrun; what did
// not fit comes when it arms.
func TestFullEQ(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	eq := h.equeue(2)
	var qs []*cqueue
	var es []*endpoint
	mr := h.region(4096, allAccess)
	for range 5 {
		q := h.cqueue(64, wire.CreateCQ{Caps: wire.CQInterruptMode, EQN: eq.n})
		qs, es = append(qs, q), append(es, h.endpoint(epOptions{scq: q}))
	}
	for round := range 10 {
		for i, e := range es {
			qs[i].arm(uint32(round))
			eventually(t, "the request to arm is served", func() bool { return h.d.cqs[qs[i].info.CQ].Load().armRequest.Load() == 0 })
			e.post(e.to(e).rdma(wire.IORDMAWrite, 1, mr.at(0, 8), mr.addr+100, mr.RKey))
			qs[i].expect(1, wire.CompOK)
		}
		got := map[uint16]int{}
		for end := time.Now().Add(5 * time.Second); len(got) < 5 && time.Now().Before(end); {
			if n, ok := eq.poll(); ok {
				got[n]++
				continue
			}
			eq.arm()
			time.Sleep(200 * time.Microsecond)
		}
		for _, q := range qs {
			if got[q.info.CQ] != 1 {
				t.Fatalf("round %d: events %v", round, got)
			}
		}
	}
}
