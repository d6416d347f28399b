package control

import (
	"bytes"
	"testing"
)

func TestQueue(t *testing.T) {
	q := newQueue(100)
	p := bytes.Repeat([]byte{7}, 42) // half of the room, with its header
	for i, want := range []bool{true, true, false} {
		if q.put(TypeUser, p) != want {
			t.Fatal("put", i)
		}
	}
	if q.put(TypeUser, nil) {
		t.Error("full, and took an empty message")
	}
	taken := q.take(nil)
	if len(taken) != 100 || q.used() != 100 || q.put(TypeUser, nil) {
		t.Error("what was taken holds its room until it is finished with")
	}
	q.finish(50)
	if !q.put(TypeUser, p) || q.put(TypeUser, nil) || q.used() != 100 {
		t.Error("half was finished with")
	}
	q.finish(50)
	taken = q.take(taken)
	q.finish(len(taken))
	if q.used() != 0 || !q.put(TypeUser, make([]byte, MaxPayload)) || q.put(TypeUser, nil) {
		t.Error("one message of any size fits into an empty queue, and no more")
	}
}

// What a rush has needed is kept until nothing has moved for a while; then the
// taker is woken, and gives up what it has.
func TestQueueBuffers(t *testing.T) {
	q := newQueue(4 << 20)
	var taken []byte
	move := func(size int) {
		q.put(TypeUser, make([]byte, size))
		<-q.ready
		taken = q.take(taken)
		q.finish(len(taken))
	}
	move(MaxPayload)
	move(MaxPayload)
	for range 1000 {
		move(10)
	}
	if cap(taken) < MaxPayload || cap(q.fill) < MaxPayload {
		t.Errorf("buffers of %d and %d bytes", cap(taken), cap(q.fill))
	}
	q.trim()
	<-q.ready
	if taken = q.take(taken); len(taken) != 0 || cap(taken)+cap(q.fill) > keepBuffer {
		t.Errorf("%d bytes taken, buffers of %d and %d bytes", len(taken), cap(taken), cap(q.fill))
	}
	q.trim() // there is nothing to give up
	select {
	case <-q.ready:
		t.Error("woken for nothing")
	default:
	}
}

// In the steady state messages cost no allocation on the way through the queues.
func TestQueueAllocatesNothing(t *testing.T) {
	q := newQueue(1 << 20)
	p := make([]byte, 1000)
	var batch []byte
	got := testing.AllocsPerRun(100, func() {
		for range 300 {
			q.put(TypeUser, p)
		}
		batch = q.take(batch)
		for rest := batch; len(rest) > 0; {
			_, payload, size, err := parseFrame(rest)
			if err != nil || len(payload) != len(p) {
				t.Fatal(err, len(payload))
			}
			rest = rest[size:]
			q.finish(size)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}
