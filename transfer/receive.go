package transfer

import (
	"encoding/binary"
	"fmt"
	"time"
)

// receiver is the side that the pages go to.
type receiver struct {
	*session
	maxBytes uint64
	memory   *memory
	layout   Layout
	target   func(int) int
	order    []uint32 // of the pages in the memory
	rounds   uint32

	epoch   uint32
	arrived arrivals
	begun   time.Time // when the epoch's first sign came
	last    time.Time // when its last notice came
	rate    rateLog

	theirs pageSums // of this epoch
	chunks []bool   // of them, which messages have come
	left   int      // chunks that have not
	mine   pageSums

	proposed *message
	bye      bool

	// corrupt is a test's: it may damage the pages before they are compared.
	corrupt func(mem []byte)
}

func newReceiver(base *session, maxBytes uint64) *receiver {
	r := &receiver{session: base, maxBytes: maxBytes, rate: newRateLog()}
	r.handler = r
	return r
}

func (r *receiver) run() error {
	if err := r.agree(); err != nil {
		return err
	}
	var failed error
	for r.epoch < r.rounds && failed == nil {
		r.tell(r.progress(StageTransfer))
		if err := r.gather(); err != nil {
			return err
		}
		r.moving += r.last.Sub(r.begun)
		r.result.moved(r.layout, int(r.epoch)+1, r.moving)
		r.result.Rate = r.rate.rate()
		var err error
		if failed, err = r.compare(); err != nil {
			return err
		}
	}
	r.tell(r.progress(StageDone))
	r.part()
	return failed
}

// agree waits for what the peer wants and gives it memory, within limits.
func (r *receiver) agree() (err error) {
	if err := r.until(func() bool { return r.proposed != nil }); err != nil {
		return err
	}
	r.layout, r.rounds = r.proposed.layout, r.proposed.iterations
	r.result.layout(r.layout)
	if span := r.layout.Span(); span > r.maxBytes {
		return fmt.Errorf("%w: the pages span %d bytes, %d are allowed (--max-bytes)", ErrLimit, span, r.maxBytes)
	}
	r.tell(r.progress(StageRegister))
	if r.memory, err = newMemory(r.options.Memory, r.layout.Span()); err != nil {
		return err
	}
	region, err := r.memory.register(r.rail)
	if err != nil {
		return err
	}
	r.target = r.layout.TargetSlots()
	r.order = r.memory.order(r.layout, r.target)
	r.theirs, r.mine = newPageSums(r.layout.Pages), newPageSums(r.layout.Pages)
	r.chunks = make([]bool, (r.layout.Pages+sumsPerMessage-1)/sumsPerMessage)
	r.expect()
	r.creditAt = r.rail.Receives() / 2
	return r.send(&message{kind: kindAccept, region: region.Descriptor(), receives: uint32(r.rail.Receives())}, false)
}

// gather waits until all of the epoch's pages are placed, says so, and waits
// for their checksums.
func (r *receiver) gather() error {
	for r.arrived.count(r.epoch) < uint64(r.layout.Pages) {
		if err := r.advance(); err != nil {
			return err
		}
	}
	if err := r.send(&message{kind: kindArrived, epoch: r.epoch}, false); err != nil {
		return err
	}
	for r.left > 0 {
		if err := r.advance(); err != nil {
			return err
		}
	}
	return nil
}

// expect begins an epoch: its checksums have not come. Counts of pages are not
// touched: notices of the new epoch may have.
func (r *receiver) expect() {
	clear(r.chunks)
	r.left = len(r.chunks)
	r.begun = time.Time{}
}

// advance handles what comes and gives the peer back what it may send.
func (r *receiver) advance() error {
	if err := r.step(); err != nil {
		return err
	}
	if r.freed < r.creditAt {
		return nil
	}
	n := r.freed
	r.freed = 0
	return r.send(&message{kind: kindCredit, credit: uint32(n)}, false)
}

// compare checks every page against the checksum that was sent, and tells.
func (r *receiver) compare() (failed, err error) {
	r.tell(r.progress(StageVerify))
	if r.corrupt != nil {
		if err := r.memory.damage(r.corrupt); err != nil {
			return nil, err
		}
	}
	if err := r.memory.sum(r.mine, r.layout, r.order, r.target); err != nil {
		return nil, err
	}
	bad := differences(r.mine, r.theirs)
	r.result.PageOK = make([]bool, r.layout.Pages)
	for i := range r.result.PageOK {
		r.result.PageOK[i] = true
	}
	var listed []byte
	for i, page := range bad {
		r.result.PageOK[page] = false
		if i < maxListed {
			listed = binary.BigEndian.AppendUint32(listed, uint32(page))
		}
	}
	count := len(bad)
	bad = bad[:min(len(bad), maxListed)]
	m := message{kind: kindVerdict, epoch: r.epoch, bad: uint32(count), listed: listed, digest: r.mine.digest()}
	r.result.verdict(bad, count, m.digest)
	// The peer begins the next epoch when it has the verdict: be there first.
	r.arrived.forget(r.epoch)
	r.epoch++
	r.expect()
	return verifyError(bad, count, r.layout), r.send(&m, false)
}

// part waits for the peer to say that it is over, and says so too. The pages
// are compared: a peer that leaves without a word has failed after the fact.
func (r *receiver) part() {
	for !r.bye {
		if r.advance() != nil {
			return
		}
	}
	if r.send(&message{kind: kindBye}, false) == nil {
		r.until(func() bool { return !r.outbox.busy() })
	}
}

func (r *receiver) message(m *message) error {
	switch {
	case m.kind == kindPropose && r.proposed == nil:
		keep := *m
		r.proposed = &keep
		return nil
	case r.proposed == nil:
	case m.kind == kindBegin && m.epoch <= r.epoch+1:
		// It may come after what it announces.
		if m.epoch == r.epoch {
			r.begin()
		}
		return nil
	case m.kind == kindSums && m.epoch == r.epoch:
		return r.sums(m)
	case m.kind == kindBye:
		r.bye = true
		return nil
	}
	return malformed("%v of epoch %d at the wrong time", m.kind, m.epoch)
}

// sums keeps a message's checksums; each must come once and whole.
func (r *receiver) sums(m *message) error {
	n := len(m.sums) / 4
	chunk := int(m.first) / sumsPerMessage
	if int(m.first)%sumsPerMessage != 0 || chunk >= len(r.chunks) || r.chunks[chunk] ||
		n != min(sumsPerMessage, r.layout.Pages-int(m.first)) {
		return malformed("checksums of %d pages from %d on, out of turn", n, m.first)
	}
	r.chunks[chunk] = true
	r.left--
	copy(r.theirs[4*m.first:], m.sums)
	return nil
}

func (r *receiver) begin() {
	if r.begun.IsZero() {
		r.begun = time.Now()
	}
}

// notice counts pages that are placed.
func (r *receiver) notice(imm uint32) error {
	if r.proposed == nil {
		return malformed("a notice before a proposal")
	}
	if err := r.arrived.add(imm, r.epoch, uint64(r.layout.Pages)); err != nil {
		return err
	}
	r.begin()
	r.last = time.Now()
	r.result.Notices++
	pages := imm & (1<<noticeCountBits - 1)
	r.rate.add(r.moving+r.last.Sub(r.begun), uint64(pages)*uint64(r.layout.PageSize))
	r.tell(r.progress(StageTransfer))
	return nil
}

func (r *receiver) done(uint64) {}

func (r *receiver) progress(stage Stage) Progress {
	l := r.layout
	return Progress{
		Stage: stage, Iteration: int(r.epoch), Total: l.Bytes() * uint64(r.rounds),
		Bytes: uint64(r.epoch)*l.Bytes() + r.arrived.count(r.epoch)*uint64(l.PageSize),
	}
}

// listedPages reads the page numbers of a verdict.
func listedPages(b []byte) []int {
	var pages []int
	for ; len(b) >= 4; b = b[4:] {
		pages = append(pages, int(binary.BigEndian.Uint32(b)))
	}
	return pages
}
