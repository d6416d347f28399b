package pages

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/peerdirect/peerdirect/transfer/engine"
)

// outgoing is the sender's side of the transfer to one receiver.
type outgoing struct {
	*session
	all   *sender
	first int // page of the sender's that is the receiver's first
	mover *mover
	sums  pageSums      // of the receiver's pages
	took  time.Duration // the last epoch
}

// agree proposes the transfer and learns where the pages go, or shows where they are.
func (s *outgoing) agree() error {
	s.tell(StageRegister)
	l := s.layout
	m := letter{kind: kindPropose, layout: l, iterations: uint32(s.rounds), read: s.all.o.Read,
		offset: uint64(l.SourceSlot(s.first)) * uint64(l.PageSize)}
	if m.read {
		if err := s.peer.Grant(granted, s.all.memory.region, engine.Read); err != nil {
			return err
		}
	} else {
		m.notices = uint32(notices(l, s.n.o.Batch))
	}
	if err := s.send(m); err != nil {
		return err
	}
	if _, err := s.next(kindAccept, 0); err != nil || m.read {
		return err
	}
	target, err := s.peer.Target(s.ctx, granted)
	if err != nil {
		return s.cause(err)
	}
	if target.Length() < l.Span() {
		return malformed("a region of %d bytes for pages that span %d", target.Length(), l.Span())
	}
	s.mover = newMover(s.session, l)
	s.mover.local, s.mover.remote, s.mover.offset = s.all.memory.region, target, m.offset
	return nil
}

// granted is the name of the region that pages are written into, or read from.
const granted = "pages"

// round moves an epoch's pages and learns how they compare. It is over when the peer
// has counted them all: on iWARP a write completes here before it is there.
func (s *outgoing) round() error {
	s.tell(StageTransfer)
	err := s.send(letter{kind: kindReady, epoch: uint32(s.epoch)})
	start := time.Now()
	if err == nil && s.mover != nil {
		err = s.mover.move()
	}
	if err == nil {
		_, err = s.next(kindArrived, s.epoch)
	}
	if err != nil {
		return err
	}
	s.took = time.Since(start)
	s.moving += s.took
	s.moved = s.layout.Bytes() * uint64(s.epoch+1)
	s.result.moved(s.layout, s.epoch+1, s.moving)
	if s.mover != nil {
		s.mover.enter()
	}
	s.tell(StageVerify)
	if err := s.sendSums(); err != nil {
		return err
	}
	m, err := s.next(kindVerdict, s.epoch)
	if err != nil {
		return err
	}
	bad, err := differing(m, s.layout.Pages, s.sums.digest())
	if err != nil {
		return err // nothing is verified by it
	}
	for i := range bad {
		bad[i] += s.first
	}
	s.result.verdict(bad, int(m.bad), s.sums.digest())
	return verifyError(bad, int(m.bad), s.layout)
}

// sendSums sends the checksums of the epoch's pages.
func (s *outgoing) sendSums() error {
	for first := 0; first < s.layout.Pages; first += sumsPerLetter {
		end := min(first+sumsPerLetter, s.layout.Pages)
		m := letter{kind: kindSums, epoch: uint32(s.epoch), first: uint32(first), sums: s.sums[4*first : 4*end]}
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// differing reads the page numbers of a verdict on so many pages, whose checksum is
// known here.
func differing(m *letter, pages int, digest [digestSize]byte) (bad []int, err error) {
	for b := m.listed; len(b) >= 4; b = b[4:] {
		bad = append(bad, int(binary.BigEndian.Uint32(b)))
	}
	switch {
	case int(m.bad) > pages || len(bad) > 0 && slices.Max(bad) >= pages:
		return nil, malformed("a verdict of %d bad pages of %d, the last page %d", m.bad, pages, slices.Max(append(bad, 0)))
	case m.bad == 0 && m.digest != digest:
		return nil, malformed("a verdict of no bad pages whose checksum is another")
	}
	return bad, nil
}

func verifyError(bad []int, count int, l Layout) error {
	if count == 0 {
		return nil
	}
	return &VerifyError{Bad: count, Pages: l.Pages, First: bad}
}
