package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// loop takes steps until the worker is stopped. It ends with every rail closed.
func (w *worker) loop(opened chan<- error) {
	if len(w.spec.CPUs) > 0 {
		runtime.LockOSThread() // and never unlocked: the thread ends with it
		if err := bind(w.spec.CPUs); err != nil {
			opened <- fmt.Errorf("bind worker %d to CPUs %v: %w", w.index, w.spec.CPUs, err)
			close(w.ended)
			return
		}
	}
	opened <- w.open()
	w.run()
}

func (w *worker) run() {
	defer close(w.ended)
	idle := time.Time{}
	for !w.stop.Load() {
		if w.turn() {
			idle = time.Time{}
			continue
		}
		switch now := time.Now(); {
		case idle.IsZero():
			idle = now
		case now.Sub(idle) >= w.e.o.Spin:
			w.sleep()
			idle = time.Time{}
		default:
			runtime.Gosched()
		}
	}
}

// turn is a step, of one worker at a time where they are to share a lock.
func (w *worker) turn() bool {
	if w.e.o.OneLock {
		w.e.lock.Lock()
		defer w.e.lock.Unlock()
	}
	return w.step()
}

func bind(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(0, &set)
}

// starvedTime is how long a worker sleeps at most whose notice waits for another's.
const starvedTime = 200 * time.Microsecond

// sleep waits until a rail has something, or there is a job, a command or an end.
func (w *worker) sleep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.starved {
		time.AfterFunc(starvedTime, cancel)
	}
	w.mu.Lock()
	w.wake = cancel
	w.mu.Unlock()
	w.asleep.Store(true)
	defer func() {
		w.asleep.Store(false)
		w.mu.Lock()
		w.wake = nil
		w.mu.Unlock()
	}()
	// Whoever came before asleep was set has not poked.
	if len(w.queue) > 0 || w.pending.Load() != 0 || w.cancels.Load() || w.stop.Load() {
		return
	}
	if len(w.rails) == 1 {
		w.rails[0].wait(ctx)
		return
	}
	// Each rail in a goroutine that has it to itself meanwhile; the first to
	// have something ends the others' wait.
	var waiting sync.WaitGroup
	for _, r := range w.rails {
		waiting.Go(func() {
			r.wait(ctx)
			cancel()
		})
	}
	waiting.Wait()
}

// wait waits for the rail. One that cannot wait is polled now and then.
func (r *rail) wait(ctx context.Context) {
	if err := r.rail.Wait(ctx); err != nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}
