package engine

import (
	"fmt"
)

// Segment is a run of bytes: at Local in this side's region, at Remote in the
// peer's.
type Segment struct {
	Local, Remote uint64 // bytes from the regions' begin
	Length        uint64 // bytes
}

// Pages names pages in a region by their numbers: page n begins at
// Offset + n*Stride and has Size bytes.
type Pages struct {
	Offset uint64
	Stride uint64 // bytes from page to page; default Size
	Index  []uint32
}

// work is what a transfer moves, seen piece by piece. It is shared by the jobs
// of a transfer: each has a range of its units (segments, pages).
type work struct {
	segments []Segment // either these
	local    Pages     // or pages
	remote   Pages
	size     uint64 // of a page, bytes
	most     uint64 // bytes of a piece
}

func (w *work) units() int {
	if w.size == 0 {
		return len(w.segments)
	}
	return len(w.local.Index)
}

// unit is a segment, or a page.
func (w *work) unit(i int) Segment {
	if w.size == 0 {
		return w.segments[i]
	}
	return Segment{
		Local:  w.local.Offset + uint64(w.local.Index[i])*w.local.Stride,
		Remote: w.remote.Offset + uint64(w.remote.Index[i])*w.remote.Stride,
		Length: w.size,
	}
}

// check finds what is outside of the regions, before anything is posted, and
// tells how many bytes there are.
func (w *work) check(local, remote uint64) (bytes uint64, err error) {
	var here, there uint64 // where pages begin
	if w.size != 0 {
		here, there = w.local.Offset, w.remote.Offset
		if len(w.local.Index) != len(w.remote.Index) {
			return 0, fmt.Errorf("%d pages here and %d at the peer", len(w.local.Index), len(w.remote.Index))
		}
		for _, p := range []*Pages{&w.local, &w.remote} {
			if p.Stride == 0 {
				p.Stride = w.size
			}
			if p.Stride < w.size || p.Stride > 1<<32 || p.Offset > 1<<63 {
				return 0, fmt.Errorf("pages of %d bytes, %d apart from offset %d on: they overlap, or no region holds them", w.size, p.Stride, p.Offset)
			}
		}
	}
	outside := func(i int, whose string, at, length, of uint64) error {
		return fmt.Errorf("%w: %d bytes from offset %d on of the %s region's %d (number %d of the list)", ErrRange, length, at, whose, of, i)
	}
	for i := range w.units() {
		u := w.unit(i)
		switch { // a page number that is too high may come around, to below the offset
		case u.Local < here || u.Local > local || u.Length > local-u.Local:
			return 0, outside(i, "local", u.Local, u.Length, local)
		case u.Remote < there || u.Remote > remote || u.Length > remote-u.Remote:
			return 0, outside(i, "peer's", u.Remote, u.Length, remote)
		}
		bytes += u.Length
	}
	return bytes, nil
}

// cursor walks a range of a work's units, piece by piece.
type cursor struct {
	unit, end int
	at        uint64 // bytes of the unit that were given
}

// next gives the next piece, false after the last.
func (c *cursor) next(w *work, s *Segment) bool {
	for c.unit < c.end {
		u := w.unit(c.unit)
		if c.at == 0 && u.Length <= w.most {
			c.unit++
			*s = u
		} else {
			n := min(u.Length-c.at, w.most)
			*s = Segment{u.Local + c.at, u.Remote + c.at, n}
			if c.at += n; c.at == u.Length {
				c.unit++
				c.at = 0
			}
		}
		if s.Length > 0 {
			return true
		}
	}
	return false
}
