package control

import "sync"

// queue is a bounded sequence of frames. Any goroutine puts, one takes: all at
// once, into the buffer that it gives back, so that two buffers go to and fro
// and nothing is allocated.
type queue struct {
	limit int
	ready chan struct{} // has a token while there is something to take
	space chan struct{} // gets a token whenever something was finished with

	mu    sync.Mutex
	fill  []byte // put and not taken
	held  int    // bytes taken and not finished with
	large bool   // a buffer has grown beyond keepBuffer since the last trim
	lean  bool   // the next take drops a large buffer
}

// keepBuffer is how large a buffer stays when nothing has moved for a while.
const keepBuffer = 64 << 10

func newQueue(limit int) queue {
	return queue{limit: limit, ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// put adds a frame, and says whether there was room.
func (q *queue) put(t Type, payload []byte) bool {
	q.mu.Lock()
	used := len(q.fill) + q.held
	if used > 0 && used+headerSize+len(payload) > q.limit {
		q.mu.Unlock()
		return false
	}
	q.fill = appendFrame(q.fill, t, payload)
	q.large = q.large || cap(q.fill) > keepBuffer
	q.mu.Unlock()
	signal(q.ready)
	return true
}

// take exchanges what was put for an empty buffer.
func (q *queue) take(empty []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.fill
	if q.lean && cap(empty) > keepBuffer {
		empty = nil
	}
	q.lean = false
	q.fill = empty[:0]
	q.held += len(taken)
	return taken
}

// finish makes room for n bytes that were taken.
func (q *queue) finish(n int) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	q.held -= n
	q.mu.Unlock()
	signal(q.space)
}

// trim gives up what a rush has made large, also the buffer that the taker has:
// it is woken for that. Called when nothing has moved for a heartbeat.
func (q *queue) trim() {
	q.mu.Lock()
	large := q.large
	if large {
		q.large, q.lean = false, true
		if len(q.fill) == 0 {
			q.fill = nil
		}
	}
	q.mu.Unlock()
	if large {
		signal(q.ready)
	}
}

// used is how many bytes wait.
func (q *queue) used() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.fill) + q.held
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
