package peer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/transfer"
)

const (
	smallSize   = 64 // bytes: what devices carry inline in a request
	smallRounds = 64 // for the figure
	largeRounds = 64 // of the largest without a pause, where they take no longer than
	largeTime   = 250 * time.Millisecond
	pieceSize   = 1 << 20
	orderRounds = 4
	orderWrites = 32
	orderSize   = 16 << 10
)

// ladder are the sizes of the step large-write: of less than a packet's, of a packet's,
// of two packets', and up to the whole of the memory.
func (r *run) ladder() []int {
	mtu := sameMTU(&r.result.Local, &r.result.Remote)
	sizes := []int{4 * smallSize, mtu / 2, mtu, 2 * mtu, 64 << 10, pieceSize, halfSize}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n <= smallSize || n > halfSize })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// writes are the WRITEs of so many bytes, in pieces of a MiB at most.
func (r *run) writes(bytes int) (ops []transfer.Op) {
	for at := 0; at < bytes; at += pieceSize {
		ops = append(ops, r.write(transfer.OpWrite, at, min(pieceSize, bytes-at), 0))
	}
	return ops
}

// put writes bytes, waits until they are done, and tells the peer by a notice; then
// the peer says that it has them.
func (r *run) put(ctx context.Context, asked, step Name, round, bytes int) error {
	fill(r.out()[:bytes], r.seed, step, round, 0)
	if err := r.carry(ctx, r.writes(bytes)); err != nil {
		return fmt.Errorf("a write of %d bytes: %w", bytes, err)
	}
	if err := r.carry(ctx, []transfer.Op{r.write(transfer.OpNotify, 0, 0, uint32(round))}); err != nil {
		return fmt.Errorf("the notice behind a write of %d bytes, which was done: %w", bytes, err)
	}
	return r.looked(ctx, asked, round)
}

// looked waits until the peer says that a round is whole.
func (r *run) looked(ctx context.Context, asked Name, round int) error {
	m, err := r.hear(ctx, kindWord, asked)
	if err == nil && m.Round != round {
		err = malformed("round %d where %d was due", m.Round, round)
	}
	return err
}

// take is put's other side.
func (r *run) take(ctx context.Context, asked, step Name, round, bytes int) error {
	imm, err := r.notice(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("a write of %d bytes: %w", bytes, err)
	case imm != uint32(round):
		return fmt.Errorf("notice %d came where %d was due", imm, round)
	}
	r.o.damage(step, r.in()[:bytes])
	if err := compare(r.in()[:bytes], r.seed, step, round, 0); err != nil {
		return err
	}
	return r.tell(message{Kind: kindWord, Step: asked, Round: round})
}

// sends is the writing side of small-write, large-write and order. asked is the step
// that it belongs to, which is another in the other direction.
func (r *run) sends(ctx context.Context, st *Step, asked, step Name) error {
	switch step {
	case StepSmall:
		return r.sendSmall(ctx, st, asked)
	case StepLarge:
		return r.sendLarge(ctx, st, asked)
	}
	return r.sendOrder(ctx, st, asked)
}

// takes is the other side.
func (r *run) takes(ctx context.Context, st *Step, asked, step Name) error {
	switch step {
	case StepSmall:
		st.Summary = fmt.Sprintf("%d bytes came as they were written", smallSize)
		return r.take(ctx, asked, step, 0, smallSize)
	case StepLarge:
		for round, bytes := range r.ladder() {
			if err := r.take(ctx, asked, step, round, bytes); err != nil {
				return err
			}
			st.Summary = fmt.Sprintf("%d bytes came, every one as it was written", bytes)
		}
		return nil
	}
	return r.takeOrder(ctx, st, asked)
}

func (r *run) sendSmall(ctx context.Context, st *Step, asked Name) error {
	if err := r.put(ctx, asked, StepSmall, 0, smallSize); err != nil {
		return err
	}
	// Zeroes, so that the peer's memory stays clear.
	took := make([]time.Duration, smallRounds)
	for i := range took {
		begin := time.Now()
		if err := r.carry(ctx, []transfer.Op{r.write(transfer.OpWrite, halfSize-smallSize, smallSize, 0)}); err != nil {
			return fmt.Errorf("write %d of %d bytes: %w", i+2, smallSize, err)
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	median := took[len(took)/2]
	st.Summary = fmt.Sprintf("%d bytes, done after %v", smallSize, median.Round(100*time.Nanosecond))
	st.figure("write-latency", float64(median.Nanoseconds())/1e3, "us")
	return nil
}

func (r *run) sendLarge(ctx context.Context, st *Step, asked Name) error {
	passed := 0
	for round, bytes := range r.ladder() {
		if err := r.put(ctx, asked, StepLarge, round, bytes); err != nil {
			if passed > 0 {
				st.saw(fmt.Sprintf("a write of %d bytes has passed, with an MTU of %d", passed, sameMTU(&r.result.Local, &r.result.Remote)))
			}
			return err
		}
		passed = bytes
	}
	// Zeroes, so that the peer's memory stays clear.
	clear(r.out())
	ops, begin, rounds := r.writes(halfSize), time.Now(), 0
	for ; rounds == 0 || rounds < largeRounds && time.Since(begin) < largeTime; rounds++ {
		if err := r.carry(ctx, ops); err != nil {
			return fmt.Errorf("write %d of %d bytes without a pause, one of which has passed by itself: %w", rounds+1, halfSize, err)
		}
	}
	rate := float64(rounds*halfSize) / time.Since(begin).Seconds() / (1 << 20)
	st.Summary = fmt.Sprintf("up to %d MiB, compared byte by byte; %.0f MiB/s", passed>>20, rate)
	st.figure("write-rate", rate, "MiB/s")
	return nil
}
