package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// How often a process that is traced alone is looked at.
const processEvery = 200 * time.Millisecond

// steer attaches and detaches until the context ends: on SIGUSR1, for modules that come
// and go, and to keep to the budget. It ends when the only traced process has. It never
// waits for standard output or standard error, which may be stopped.
func (t *traceRun) steer(ctx context.Context, measuring *sync.WaitGroup) error {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	watch := make(<-chan time.Time)
	if t.process.pid != 0 {
		w := time.NewTicker(processEvery)
		defer w.Stop()
		watch = w.C
	}
	measured := make(chan measurement)
	measure := time.NewTimer(0)
	defer measure.Stop()
	if t.budget == 0 {
		measure.Stop()
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err = t.renew()
		case <-t.usr1:
			err = t.toggle()
		case <-watch:
			if t.process.ended() {
				t.notice("ended", fmt.Sprintf("process %d has ended, and with it the trace", t.process.pid))
				return nil
			}
		case <-measure.C:
			measuring.Go(func() { t.measure(ctx, measured) })
		case m := <-measured:
			var wait time.Duration
			if wait, err = t.judge(m); wait > 0 {
				measure.Reset(wait)
			}
		}
		if err != nil {
			return err
		}
	}
}

// notice tells what happened to the tracing, on standard error and in the records. It
// does not wait for either.
func (t *traceRun) notice(event, text string) {
	n := notice{time.Now(), event, text}
	if t.live == nil { // on a terminal the table has to go first
		t.told.put(n)
	}
	if t.live != nil || t.stream != nil {
		t.notices.put(n)
	}
}

// tell prints notices on standard error, until there are no more.
func (t *traceRun) tell(done <-chan struct{}) {
	for open := true; open; {
		select {
		case <-t.told.came:
		case <-done:
			open = false
		}
		for _, n := range t.told.take() {
			fmt.Fprintf(t.stderr, "peerdirect: %s\n", n.text)
		}
	}
}

// printNotices prints those that go to standard output, or between its tables.
func (t *traceRun) printNotices() {
	for _, n := range t.notices.take() {
		if t.live != nil {
			t.live.clear()
			fmt.Fprintf(t.stderr, "peerdirect: %s\n", n.text)
		}
		if t.stream != nil {
			t.stream.Notice(n.at, n.event, n.text)
		}
	}
}

type notice struct {
	at          time.Time
	event, text string
}

// noticeQueue hands notices from one goroutine to another. The zero value is not ready.
type noticeQueue struct {
	came chan struct{}
	mu   *sync.Mutex
	list *[]notice
}

func newNoticeQueue() noticeQueue {
	return noticeQueue{came: make(chan struct{}, 1), mu: new(sync.Mutex), list: new([]notice)}
}

func (q noticeQueue) put(n notice) {
	q.mu.Lock()
	*q.list = append(*q.list, n)
	q.mu.Unlock()
	select {
	case q.came <- struct{}{}:
	default:
	}
}

func (q noticeQueue) take() []notice {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := *q.list
	*q.list = nil
	return list
}

// lockedWriter is for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
