package engine

import (
	"fmt"
)

// A notice may have come though its rail failed. Then the peer has counted it, and
// may have put the memory of its bytes to other use. So before it is done again, the
// peer is asked, once it has fenced the rail. It could not tell a repeat from a new
// one that was late: either may wait on a rail whose worker has not looked, while
// others count thousands.

// asked is a request of which the peer was asked.
type asked struct{ slot }

// ask asks the peer whether it counted a notice.
func (a *peerAt) ask(l *link, s slot) {
	if a.asking == nil {
		a.asking = make(map[uint32]*asked)
	}
	one := &asked{s}
	a.asking[s.imm] = one
	p := a.p
	p.tell(message{kind: msgAsk, rail: l.theirs, generation: l.generation, count: s.imm})
	p.after(p.e.o.FenceTime, func() {
		a.w.do(func() {
			if a.asking[one.imm] == one {
				p.end(fmt.Errorf("%w: %s did not tell in %v what had come by rail %d", ErrLost, p.name, p.e.o.FenceTime, l.r.index))
			}
		})
	})
}

// answer tells the peer whether a notice of its had come by a rail, once all that
// had come was polled.
func (a *peerAt) answer(r *rail, m *message) {
	for r.poll() == len(r.got) {
	}
	number, sequence := splitImmediate(m.count)
	c := a.p.counter(number)
	if c == nil {
		a.p.end(fmt.Errorf("%w: %w: it asks for more than %d numbers", ErrLost, errProtocol, a.w.e.o.Counters))
		return
	}
	kind := msgUncounted
	if c.has(sequence) {
		kind = msgCounted
	}
	a.p.tell(message{kind: kind, rail: r.index, generation: m.generation, count: m.count})
}

// answered goes on with a request: it is done, or is to be done again.
func (a *peerAt) answered(imm uint32, counted bool) {
	one := a.asking[imm]
	if one == nil {
		return // nobody asked
	}
	delete(a.asking, imm)
	if !counted {
		one.job.stray = true
		a.notices = append(a.notices, one.slot) // it stays held
		a.turn()
		a.w.cancels.Store(true) // it may have been cancelled meanwhile
		return
	}
	j := one.job
	one.over()
	j.held--
	j.placed(one.piece.Length)
	j.settle()
}

// dropAsked fails what waits for an answer.
func (a *peerAt) dropAsked(err error) {
	waiting := a.asking
	a.asking = nil
	for _, one := range waiting {
		one.over()
		one.job.held--
		one.job.fail(err)
		one.job.settle()
	}
}
