package engine

import (
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
)

// poll takes what has completed, and tells how many that were.
func (r *rail) poll() int {
	n, err := r.rail.Poll(r.got)
	for i := range r.got[:n] {
		r.completed(&r.got[i])
	}
	if n > 0 {
		r.count.show()
	}
	if err != nil {
		for _, l := range r.links {
			if l != nil {
				l.fail(fmt.Errorf("rail %d, %s: %w", r.index, r.info.Device, err))
			}
		}
	}
	return n
}

func (r *rail) completed(c *transfer.Completion) {
	switch c.Kind {
	case transfer.Done:
		s := &r.slots[c.ID]
		j, l, length, imm, notice := s.job, s.link, s.piece.Length, s.imm, s.marked
		r.give(uint32(c.ID))
		l.flight--
		j.flight--
		j.placed(length)
		r.count.done++
		if l.suspect {
			l.proved()
		}
		l.at.done++
		r.count.bytes += length
		if notice {
			_, sequence := splitImmediate(imm)
			j.out.arrived(sequence)
		}
		if j.flight == 0 {
			j.settle()
		}
		if l.state == linkDown {
			l.settle()
		}
	case transfer.Failed:
		r.failed(uint32(c.ID), c.Err)
	case transfer.Lost:
		if l := r.link(c.Peer); l != nil {
			l.fail(c.Err)
		}
	case transfer.Notice:
		if l := r.link(c.Peer); l != nil {
			l.notice(c.Imm)
		}
	case transfer.Message:
		if l := r.link(c.Peer); l != nil {
			l.letter(c.Data)
		}
	}
}

func (r *rail) link(p transfer.Peer) *link {
	if int(p) < len(r.links) {
		return r.links[p]
	}
	return nil
}

// refused ends a request that no rail would take.
func (r *rail) refused(id uint32, err error) {
	s := r.slots[id]
	r.give(id)
	r.count.failed.Add(1)
	s.over()
	s.link.flight--
	s.job.flight--
	s.job.fail(err)
	s.job.settle()
	s.link.settle()
}

// failed takes a request back that was not carried out, or not known to be.
func (r *rail) failed(id uint32, err error) {
	s := r.slots[id]
	r.give(id)
	r.count.failed.Add(1)
	s.link.flight--
	s.job.flight--
	s.job.held++
	s.tries++
	if s.job.once || !errors.Is(err, transfer.ErrFlushed) && (faultOfRequest(err) || s.tries >= maxTries) {
		s.job.fail(err)
	}
	s.link.stranded = append(s.link.stranded, s)
	s.link.fail(err)
	s.link.settle()
}

// maxTries is how many rails may fail under one request before it is held to be
// the cause.
const maxTries = 16
