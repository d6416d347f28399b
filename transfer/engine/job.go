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
	work   *work
	c      cursor
	region *Region
	target *Target
	lanes  *railSet  // the rails that it goes by; nil is all
	out    *outgoing // of number
	flight int       // requests posted, or staged, that have not come back
	held   int       // requests that wait until their failed rail is fenced

	number Number
	kind   transfer.OpKind // OpWrite or OpRead
	notify bool            // of number
	single bool            // it is one piece, which may carry the notice
	dry    bool            // the cursor has given its last piece
	queued bool            // it is among the peer's jobs
	stray  bool            // a rail failed under it, and it has looked for no other yet
	waits  bool            // it has found no rail that is up, and posted nothing since
	ended  bool
	once   bool   // it fails with the first rail that fails under it
	since  uint32 // since which round it waits (see peerAt.expire)

	again   []slot // requests to post again
	unshown uint64 // bytes placed that the transfer does not know of
	err     error
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

// stage stages the next request: one that failed before, or a new piece; false if
// there is none.
func (j *job) stage(l *link) bool {
	if n := len(j.again); n > 0 {
		l.stage(j.again[n-1])
		j.again = j.again[:n-1]
		return true
	}
	var piece Segment
	if !j.c.next(j.work, &piece) {
		j.dry = true
		return false
	}
	j.single = false
	j.dry = j.c.unit == j.c.end
	l.stagePiece(j, &piece)
	return true
}

// stageNotified stages a transfer that is one piece together with its notice; false
// if there is no receive for it at the peer, or no sequence. Then the bytes go
// alone.
func (j *job) stageNotified() bool {
	l := j.at.free(j.lanes, true)
	if l == nil {
		return false
	}
	s := slot{job: j, kind: transfer.OpNotify}
	if !s.sequence() {
		return false
	}
	j.c.next(j.work, &s.piece)
	j.dry, j.single, j.notify = true, false, false
	l.credits--
	l.stage(s)
	return true
}

// placed counts bytes, which it shows now and then.
func (j *job) placed(bytes uint64) {
	if j.unshown += bytes; j.unshown >= showBytes {
		j.show()
	}
}

func (j *job) show() {
	j.t.moved.Add(j.unshown)
	j.unshown = 0
}

// showBytes is how many bytes a transfer's progress is behind at most, for each
// worker.
const showBytes = 256 << 10

// stopped looks whether the user cancelled the transfer, or the peer withdrew the
// region, while there is something left to post.
func (j *job) stopped() bool {
	if !j.more() {
		return false
	}
	err := j.halted()
	if err != nil {
		j.fail(err)
	}
	return err != nil
}

// halted is why the transfer shall not go on, if so.
func (j *job) halted() error {
	switch {
	case j.at.err != nil:
		return j.at.err
	case j.t.cancel.Load():
		return ErrCancelled
	case j.target.withdrawn.Load():
		return j.target.refusal()
	}
	return nil
}

// settle ends the job if nothing of it is left to do. The first job of a transfer
// posts the notice, once the last has its bytes placed: transfers begin with a
// worker after the other, so notices spread, which they would not if the worker
// that ends last had one more to post.
func (j *job) settle() {
	if j.ended || j.queued || j.flight > 0 || j.held > 0 || j.more() {
		return
	}
	if j.notify {
		j.notify = false
		j.show()
		first := &j.t.jobs[0]
		last := j.t.moving.Add(-1) == 0
		switch {
		case j != first:
			if err := j.halted(); err != nil {
				j.fail(err)
			}
			if last {
				first.others()
			}
		case !last:
			j.held++ // until the others are
			return
		case j.postNotice():
			return
		}
	}
	j.ended = true
	j.show()
	j.at.active--
	j.at.finished()
	j.t.finish()
}

// others has the first job go on when all others have their bytes placed, or have
// failed. It waits for that, so its worker is known.
func (j *job) others() {
	j.at.w.do(func() {
		if j.held--; !j.postNotice() {
			j.settle()
		}
	})
}

// postNotice has the notice posted, unless the transfer has failed.
func (j *job) postNotice() bool {
	if err := j.halted(); err != nil {
		j.fail(err)
	}
	if j.t.failed() != nil {
		return false
	}
	j.held++ // until it is staged
	j.at.notices = append(j.at.notices, slot{job: j, kind: transfer.OpNotify})
	j.at.turn()
	return true
}

// faultOfRequest tells whether an error is the request's own, which it would
// meet on any rail.
func faultOfRequest(err error) bool {
	var lost *transfer.LostError
	return errors.As(err, &lost) && lost.Request
}
