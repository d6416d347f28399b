package regbench

import (
	"errors"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

// growthPieces is how many pieces the pool is registered in.
const growthPieces = 64

// growth registers the pool piece by piece, the lowest or the highest address
// first, and keeps what each took.
func (b *bench) growth(m *samples, ascending bool) error {
	order := "descending"
	if ascending {
		order = "ascending"
	}
	if err := b.next("piece by piece, %s", order); err != nil {
		return err
	}
	size := max(minSize, b.pool.size/growthPieces&^(minSize-1))
	count := b.pool.size / size
	held := make([]*piece, 0, count)
	took := make([]time.Duration, 0, count)
	var err error
	for i := range count {
		at := i
		if !ascending {
			at = count - 1 - i
		}
		if b.ctx.Err() != nil {
			err = transfer.ErrCancelled
			break
		}
		start := time.Now()
		x, failed := b.pool.register(b.rail, at*size, size)
		if failed != nil {
			err = fmt.Errorf("piece %d of %d, %d bytes: %w", i+1, count, size, failed)
			break
		}
		took = append(took, time.Since(start))
		held = append(held, x)
	}
	errs := []error{err}
	for _, x := range held {
		errs = append(errs, x.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.grown(ascending, size, took)
	return nil
}
