package sim

import "github.com/peerdirect/peerdirect/transfer"

// completions are those of a NIC that were not polled, the first to come first;
// of two at one time that which was known first.
type completions struct {
	heap  []completion
	store slab[told]
	order uint32
}

// told is what a completion tells, and of how many bytes.
type told struct {
	transfer.Completion
	bytes uint64
}

type completion struct {
	at    Time
	order uint32
	index int32
}

func (c *completion) before(o *completion) bool {
	return c.at < o.at || c.at == o.at && int32(c.order-o.order) < 0
}

func (q *completions) push(at Time, c told) {
	q.order++
	e := completion{at, q.order, q.store.put(c)}
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = e
}

func (q *completions) pop() told {
	first := q.heap[0]
	n := len(q.heap) - 1
	last := q.heap[n]
	q.heap = q.heap[:n]
	i := 0
	for n > 0 {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && q.heap[child+1].before(&q.heap[child]) {
			child++
		}
		if !q.heap[child].before(&last) {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	if n > 0 {
		q.heap[i] = last
	}
	return q.store.take(first.index)
}
