package engine

import (
	"errors"

	"github.com/peerdirect/peerdirect/transfer"
)

// job is the part of a transfer that one worker carries out. It belongs to that
// worker once it is in its queue.
type job struct {
	t      *Transfer
	w      *worker
	at     *peerAt
	kind   transfer.OpKind // OpWrite or OpRead
	work   *work
	c      cursor
	region *Region
	target *Target

	notify bool
	number Number
	out    *outgoing // of that number

	flight int    // requests posted, or staged, that have not come back
	held   int    // requests that wait until their failed rail is fenced
	again  []slot // requests to post again
	dry    bool   // the cursor has given its last piece
	queued bool   // it is among the peer's jobs
	ended  bool
	err    error
}

// fail has the job post nothing more. It ends when what is on its way is back.
func (j *job) fail(err error) {
	if j.err == nil {
		j.err = err
		j.t.fail(err)
	}
	j.dry, j.again = true, nil
}

// more tells whether there is something to post.
func (j *job) more() bool { return !j.dry || len(j.again) > 0 }

// next gives the next request: one that failed before, or a new piece.
func (j *job) next() (s slot, ok bool) {
	if n := len(j.again); n > 0 {
		s = j.again[n-1]
		j.again = j.again[:n-1]
		return s, true
	}
	if j.dry {
		return s, false
	}
	if s.piece, ok = j.c.next(j.work); !ok {
		j.dry = true
		return s, false
	}
	s.job, s.kind = j, j.kind
	return s, true
}

// stopped looks whether the user cancelled the transfer, or the peer withdrew the
// region, while there is something left to post.
func (j *job) stopped() bool {
	switch {
	case !j.more():
	case j.t.cancel.Load():
		j.fail(ErrCancelled)
		return true
	case j.target.withdrawn.Load():
		j.fail(j.target.refusal())
		return true
	}
	return false
}

// settle ends the job if nothing of it is left to do. The last job of a transfer
// to have its bytes placed posts the notice.
func (j *job) settle() {
	if j.ended || j.queued || j.flight > 0 || j.held > 0 || j.more() {
		return
	}
	if j.notify {
		j.notify = false
		if j.t.moving.Add(-1) == 0 && j.t.failed() == nil {
			j.at.notices = append(j.at.notices, slot{job: j, kind: transfer.OpNotify})
			j.held++ // until it is staged
			j.at.turn()
			return
		}
	}
	j.ended = true
	j.at.active--
	j.at.finished()
	j.t.finish()
}

// faultOfRequest tells whether an error is the request's own, which it would
// meet on any rail.
func faultOfRequest(err error) bool {
	var lost *transfer.LostError
	return errors.As(err, &lost) && lost.Request
}
