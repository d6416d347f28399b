package engine

// queue is first in, first out. It keeps its memory, and moves what is in it only
// when that is full.
type queue[T any] struct {
	list []T
	head int // of list, what was taken
}

func (q *queue[T]) len() int { return len(q.list) - q.head }

// first is what pop would take. There must be one.
func (q *queue[T]) first() T { return q.list[q.head] }

func (q *queue[T]) push(one T) {
	if q.head > 0 && len(q.list) == cap(q.list) {
		q.list = q.list[:copy(q.list, q.list[q.head:])]
		q.head = 0
	}
	q.list = append(q.list, one)
}

func (q *queue[T]) pop() {
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
}

// keep drops what f says no to. f must not touch the queue.
func (q *queue[T]) keep(f func(T) bool) {
	left := q.list[:0]
	for _, one := range q.list[q.head:] {
		if f(one) {
			left = append(left, one)
		}
	}
	clear(q.list[len(left):])
	q.list, q.head = left, 0
}
