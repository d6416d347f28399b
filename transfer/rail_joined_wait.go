package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/peerdirect/peerdirect/verbs"
)

// joinedSpin is how long Wait polls before it sleeps.
const joinedSpin = 20 * time.Microsecond

// Wait returns when Poll has something to give, or the context ends.
func (j *Joined) Wait(ctx context.Context) error {
	if j.closed {
		return verbs.ErrClosed
	}
	for start := time.Now(); ; {
		if ready, err := j.ready(); ready || err != nil {
			return err
		}
		if time.Since(start) >= joinedSpin {
			break
		}
	}
	for {
		if err := j.sleep(ctx); err != nil {
			return err
		}
		if ready, err := j.ready(); ready || err != nil {
			return err
		}
	}
}

func (j *Joined) ready() (bool, error) {
	if j.head == j.tail {
		if err := j.gather(); err != nil {
			return false, err
		}
	}
	return j.head < j.tail || len(j.back) > 0, nil
}

// sleep waits on all members at once, each in a goroutine that has its rail to
// itself meanwhile: the first to have something ends the others' wait. All have
// returned when it does.
func (j *Joined) sleep(ctx context.Context) error {
	if len(j.members) == 1 {
		return j.members[0].rail.Wait(ctx)
	}
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		waiting sync.WaitGroup
		once    sync.Once
		failed  error
	)
	for _, m := range j.members {
		waiting.Go(func() {
			err := m.rail.Wait(either)
			once.Do(func() { failed = err; cancel() })
		})
	}
	waiting.Wait()
	return failed
}
