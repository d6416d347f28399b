package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// ordered tells whether the transport promises that a notice arrives behind the writes
// that were posted before it. SRD promises no order: there every write has its own
// notice, behind its bytes, and they are counted.
func (r *run) ordered() bool {
	k := r.result.Local.Kind
	return k != transfer.KindEFA && k != transfer.KindEmbedded
}

// number is the immediate of a round's write.
func number(round, piece int) uint32 { return uint32(round)<<16 | uint32(piece) }

// sendOrder posts many writes and, without waiting for one of them, their notice, or
// with each write its own.
func (r *run) sendOrder(ctx context.Context, st *Step, asked Name) error {
	for round := range orderRounds {
		var ops []transfer.Op
		for i := range orderWrites {
			at := i * orderSize
			fill(r.out()[at:at+orderSize], r.seed, StepOrder, round, i)
			k := transfer.OpWrite
			if !r.ordered() {
				k = transfer.OpNotify
			}
			ops = append(ops, r.write(k, at, orderSize, number(round, i)))
		}
		if r.ordered() {
			ops = append(ops, r.write(transfer.OpNotify, 0, 0, number(round, orderWrites)))
		}
		if err := r.carry(ctx, ops); err != nil {
			return fmt.Errorf("%d writes of %d bytes at once: %w", orderWrites, orderSize, err)
		}
		if err := r.looked(ctx, asked, round); err != nil {
			return err
		}
	}
	st.Summary = r.promise() + fmt.Sprintf(": held in %d rounds of %d writes", orderRounds, orderWrites)
	return nil
}

// promise is what is tested.
func (r *run) promise() string {
	if r.ordered() {
		return "a notice comes behind all writes before it"
	}
	return "every write's notice comes once, behind its bytes, in any order"
}

// takeOrder looks at the memory as soon as a notice is there.
func (r *run) takeOrder(ctx context.Context, st *Step, asked Name) error {
	overtaken := 0
	for round := range orderRounds {
		late, err := r.takeRound(ctx, round)
		if err != nil {
			return err
		}
		overtaken += late
		if err := r.tell(message{Kind: kindWord, Step: asked, Round: round}); err != nil {
			return err
		}
	}
	st.Summary = r.promise() + fmt.Sprintf(": seen in %d rounds of %d writes", orderRounds, orderWrites)
	if !r.ordered() {
		st.figure("overtaken-notices", float64(overtaken), "notices")
	}
	return nil
}

func (r *run) takeRound(ctx context.Context, round int) (overtaken int, err error) {
	whole := func(i int) error {
		b := r.in()[i*orderSize:][:orderSize]
		r.o.damage(StepOrder, b)
		err := compare(b, r.seed, StepOrder, round, i)
		var d *DamageError
		if errors.As(err, &d) {
			d.What = fmt.Sprintf("round %d: when its notice was there, write %d of %d", round+1, i+1, orderWrites)
		}
		return err
	}
	if r.ordered() {
		imm, err := r.notice(ctx)
		if err == nil && imm != number(round, orderWrites) {
			err = fmt.Errorf("round %d: notice %#x came where %#x was due: %w", round+1, imm, number(round, orderWrites), exchange.ErrVerification)
		}
		for i := 0; err == nil && i < orderWrites; i++ {
			err = whole(i)
		}
		return 0, err
	}
	var seen [orderWrites]bool
	last := -1
	for n := range orderWrites {
		imm, err := r.notice(ctx)
		if err != nil {
			return 0, fmt.Errorf("round %d: %d of %d notices came: %w", round+1, n, orderWrites, err)
		}
		i := int(imm & 0xffff)
		if imm>>16 != uint32(round) || i >= orderWrites || seen[i] {
			return 0, fmt.Errorf("round %d: notice %#x came, which is none of this round's, or came before: %w", round+1, imm, exchange.ErrVerification)
		}
		seen[i] = true
		if i < last {
			overtaken++
		}
		last = max(last, i)
		if err := whole(i); err != nil {
			return 0, err
		}
	}
	return overtaken, nil
}

// reads tells whether both NICs have them.
func (r *run) reads() bool { return r.result.Local.Reads && r.result.Remote.Reads }

// Rounds of the step read.
const (
	roundFilled = 1 // the listener has something to read
	roundRead   = 2 // the dialler has
)

// serveRead is the listener's part of the step read.
func (r *run) serveRead(ctx context.Context, st *Step) error {
	fill(r.out(), r.seed, StepRead, 0, 0)
	if err := r.tell(message{Kind: kindWord, Step: StepRead, Round: roundFilled}); err != nil {
		return err
	}
	st.Summary = "the peer read this side's memory"
	return r.looked(ctx, StepRead, roundRead)
}

// readAll is the dialler's.
func (r *run) readAll(ctx context.Context, st *Step) error {
	if err := r.looked(ctx, StepRead, roundFilled); err != nil {
		return err
	}
	sizes := append([]int{smallSize}, r.ladder()...)
	for _, bytes := range sizes {
		var ops []transfer.Op
		for at := 0; at < bytes; at += pieceSize {
			ops = append(ops, transfer.Op{
				Kind: transfer.OpRead, Peer: r.peer, Local: r.region.At(uint64(at), uint32(min(pieceSize, bytes-at))), Remote: r.theirs.At(uint64(halfSize + at)),
			})
		}
		if err := r.carry(ctx, ops); err != nil {
			return fmt.Errorf("a read of %d bytes: %w", bytes, err)
		}
		r.o.damage(StepRead, r.in()[:bytes])
		err := compare(r.in()[:bytes], r.seed, StepRead, 0, 0)
		var d *DamageError
		if errors.As(err, &d) {
			d.What = fmt.Sprintf("a read of %d bytes", bytes)
		}
		if err != nil {
			return err
		}
	}
	st.Summary = fmt.Sprintf("%d to %d bytes, compared byte by byte", sizes[0], sizes[len(sizes)-1])
	return r.tell(message{Kind: kindWord, Step: StepRead, Round: roundRead})
}

// back is both writes and the order in the other direction.
var back = []Name{StepSmall, StepLarge, StepOrder}

func (r *run) sendsBack(ctx context.Context, st *Step) error {
	for _, step := range back {
		if err := r.sends(ctx, st, StepBack, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	st.Summary = "writes and their order, from this side"
	return nil
}

func (r *run) takesBack(ctx context.Context, st *Step) error {
	for _, step := range back {
		if err := r.takes(ctx, st, StepBack, step); err != nil {
			return fmt.Errorf("%s in the other direction: %w", step, err)
		}
	}
	st.Summary = "small and large writes and their order in the other direction"
	return nil
}
