package pages

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// incoming is the receiver's side of a transfer.
type incoming struct {
	*session
	maxBytes uint64
	memory   *memory
	target   func(int) int
	order    []uint32 // of the pages in the memory
	wants    *letter  // what was proposed
	mover    *mover   // where this side reads
	come     uint64   // notices of the epochs before
	theirs   pageSums // of this epoch
	mine     pageSums
	leave    func() // gives the place back

	// corrupt is a test's: it may damage the pages before they are compared.
	corrupt func(mem []byte)
}

func (r *incoming) run() error {
	if err := r.agree(); err != nil {
		return err
	}
	for r.epoch = range r.rounds {
		if err := r.round(); err != nil {
			if isVerify(err) {
				r.part()
			}
			return err
		}
	}
	r.tell(StageDone)
	r.part()
	return nil
}

// agree waits for what the peer wants and gives it memory, within limits.
func (r *incoming) agree() (err error) {
	if r.wants, err = r.next(kindPropose, 0); err != nil {
		return err
	}
	l := r.wants.layout
	r.layout, r.rounds = l, int(r.wants.iterations)
	r.result.layout(l)
	if span := l.Span(); span > r.maxBytes {
		return fmt.Errorf("%w: the pages span %d bytes, %d are allowed (--max-bytes)", ErrLimit, span, r.maxBytes)
	}
	if r.wants.read && !r.n.engine.Rails()[0].Reads {
		return fmt.Errorf("the pages are to be read, and %s reads nothing: have them written", r.n.engine.Rails()[0].Device)
	}
	r.tell(StageRegister)
	r.keep()
	defer r.kept()
	if r.memory, err = newMemory(r.ctx, r.n.o.Memory, l.Span()); err != nil {
		return err
	}
	if err := r.memory.register(r.n.engine); err != nil {
		return err
	}
	r.target = l.TargetSlots()
	r.order = r.memory.order(l, r.target)
	r.theirs, r.mine = newPageSums(l.Pages), newPageSums(l.Pages)
	r.kept()
	if !r.wants.read {
		if err := r.peer.Grant(granted, r.memory.region, engine.Write); err != nil {
			return r.cause(err)
		}
		return r.send(letter{kind: kindAccept})
	}
	target, err := r.peer.Target(r.ctx, granted)
	if err != nil {
		return r.cause(err)
	}
	if r.wants.offset > target.Length() {
		return malformed("pages from byte %d on of a region of %d", r.wants.offset, target.Length())
	}
	r.mover = newMover(r.session, l)
	r.mover.local, r.mover.remote, r.mover.offset, r.mover.read = r.memory.region, target, r.wants.offset, true
	return r.send(letter{kind: kindAccept})
}

// round takes an epoch's pages in and compares them.
func (r *incoming) round() error {
	r.tell(StageTransfer)
	if _, err := r.next(kindReady, r.epoch); err != nil {
		return err
	}
	start := time.Now()
	move := r.gather
	if r.mover != nil {
		move = r.mover.move
	}
	if err := move(); err != nil {
		return err
	}
	r.moving += time.Since(start)
	r.moved = r.layout.Bytes() * uint64(r.epoch+1)
	r.result.moved(r.layout, r.epoch+1, r.moving)
	r.result.Rate = r.rate.rate()
	if r.mover != nil {
		r.mover.enter()
	}
	if err := r.send(letter{kind: kindArrived, epoch: uint32(r.epoch)}); err != nil {
		return err
	}
	r.tell(StageVerify)
	if err := r.takeSums(); err != nil {
		return err
	}
	return r.compare()
}

// gather waits until all of the epoch's pages are in place. Each notice is of a batch;
// how many pages those had that came is not known before the last.
func (r *incoming) gather() error {
	c := r.peer.Counter(number)
	all := uint64(r.wants.notices)
	bytes := func(n uint64) uint64 { return r.layout.Bytes() * n / all }
	start := time.Now()
	for n := uint64(0); n < all; {
		if err := c.Wait(r.ctx, r.come+n+1); err != nil {
			return r.cause(err)
		}
		r.alive()
		more := c.Count() - r.come
		if more > all {
			return malformed("%d notices of an epoch that has %d", more, all)
		}
		r.rate.add(r.moving+time.Since(start), bytes(more)-bytes(n))
		r.moved += bytes(more) - bytes(n)
		n = more
		r.tell(StageTransfer)
	}
	r.come += all
	r.result.Notices = r.come
	return nil
}

// takeSums takes the epoch's checksums, which come in order.
func (r *incoming) takeSums() error {
	for first := 0; first < r.layout.Pages; first += sumsPerLetter {
		m, err := r.next(kindSums, r.epoch)
		if err != nil {
			return err
		}
		if n := len(m.sums) / 4; int(m.first) != first || n != min(sumsPerLetter, r.layout.Pages-first) {
			return malformed("checksums of %d pages from %d on, out of turn", n, m.first)
		}
		copy(r.theirs[4*first:], m.sums)
	}
	return nil
}

// compare checks every page against the checksum that was sent, and tells.
func (r *incoming) compare() error {
	r.keep()
	defer r.kept()
	if r.corrupt != nil {
		if err := r.memory.damage(r.corrupt); err != nil {
			return err
		}
	}
	if err := r.memory.sum(r.ctx, r.mine, r.layout, r.order, r.target); err != nil {
		return err
	}
	r.kept()
	bad := differences(r.mine, r.theirs)
	r.result.PageOK = make([]bool, r.layout.Pages)
	for i := range r.result.PageOK {
		r.result.PageOK[i] = true
	}
	for _, page := range bad {
		r.result.PageOK[page] = false
	}
	count := len(bad)
	bad = bad[:min(len(bad), maxListed)]
	m := letter{kind: kindVerdict, epoch: uint32(r.epoch), bad: uint32(count), digest: r.mine.digest()}
	for _, page := range bad {
		m.listed = binary.BigEndian.AppendUint32(m.listed, uint32(page))
	}
	r.result.verdict(bad, count, m.digest)
	if err := r.send(m); err != nil {
		return err
	}
	return verifyError(bad, count, r.layout)
}

// part waits for the peer to say that it is over: it has the verdict then. The pages
// are compared, so a peer that leaves without a word has failed after the fact.
func (r *incoming) part() {
	r.next(kindBye, 0)
}
