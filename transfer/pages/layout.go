package pages

import (
	"errors"
	"fmt"
	"math/bits"
)

// Bounds of a layout.
const (
	MinPageSize = 64       // bytes
	MaxPageSize = 64 << 20 // bytes
	MaxPages    = 1<<24 - 1
	MaxSpan     = 1 << 46 // bytes from the first page to the end of the last slot
)

// maxSegment is how far neighbouring pages are joined into one WRITE, bytes.
// A device takes up to 1 GiB, but a segment is the unit that progress, flow
// control and several queues work with.
const maxSegment = 1 << 20

// ErrLayout is a layout that cannot be: errors.Is finds it.
var ErrLayout = errors.New("impossible layout")

// Layout says which pages are moved: every Stride-th slot of the source, into
// slots of the target that the seed scatters them to. Both regions have
// Pages*Stride slots of PageSize bytes. No two pages share a slot.
type Layout struct {
	PageSize int    // bytes, a power of two
	Pages    int    // how many are moved
	Stride   int    // slots from one source page to the next; 1 leaves no gap
	Seed     uint64 // of the scatter; 0 keeps every page at its source's offset
}

// Validate tells what is wrong with a layout, whoever it came from.
func (l Layout) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrLayout, fmt.Sprintf(format, args...))
	}
	switch {
	case l.PageSize < MinPageSize || l.PageSize > MaxPageSize || l.PageSize&(l.PageSize-1) != 0:
		return wrong("a page of %d bytes: it is a power of two from %d to %d", l.PageSize, MinPageSize, MaxPageSize)
	case l.Pages < 1 || l.Pages > MaxPages:
		return wrong("%d pages: there are 1 to %d", l.Pages, MaxPages)
	case l.Stride < 1 || l.Stride > MaxSpan:
		return wrong("a stride of %d pages: it is at least 1", l.Stride)
	}
	// Pages and PageSize have at most 50 bits together, their product with the
	// stride may have more than 64.
	if hi, span := bits.Mul64(uint64(l.Pages)*uint64(l.PageSize), uint64(l.Stride)); hi != 0 || span > MaxSpan {
		return wrong("%d pages of %d bytes at a stride of %d span more than %d bytes", l.Pages, l.PageSize, l.Stride, int64(MaxSpan))
	}
	return nil
}

// Slots is how many pages fit into each region.
func (l Layout) Slots() int { return l.Pages * l.Stride }

// Span is the size of each region in bytes.
func (l Layout) Span() uint64 { return uint64(l.Slots()) * uint64(l.PageSize) }

// Bytes is what is moved.
func (l Layout) Bytes() uint64 { return uint64(l.Pages) * uint64(l.PageSize) }

// SourceSlot is where page i lies in the source.
func (l Layout) SourceSlot(i int) int { return i * l.Stride }

// TargetSlots gives the function that tells where page i lies in the target.
func (l Layout) TargetSlots() func(i int) int {
	if l.Seed == 0 {
		return l.SourceSlot
	}
	p := newPermutation(uint64(l.Slots()), l.Seed)
	return func(i int) int { return int(p.at(uint64(i))) }
}

// Run is a stretch that is contiguous in both regions: one WRITE.
type Run struct {
	Source uint64 // offset in bytes
	Target uint64
	Length uint32 // bytes
	Pages  int
}

// Cursor walks a layout run by run. It allocates nothing.
type Cursor struct {
	layout Layout
	perm   permutation
	limit  uint32
	page   int    // the next one
	target uint64 // its place, computed when the run before it ended
}

// Runs starts at the first page. The layout must be valid.
func (l Layout) Runs() Cursor {
	c := Cursor{layout: l, limit: uint32(max(maxSegment, l.PageSize))}
	if l.Seed != 0 {
		c.perm = newPermutation(uint64(l.Slots()), l.Seed)
	}
	c.target = c.place(0)
	return c
}

func (c *Cursor) place(page int) uint64 {
	slot := uint64(c.layout.SourceSlot(page))
	if c.layout.Seed != 0 {
		slot = c.perm.at(uint64(page))
	}
	return slot * uint64(c.layout.PageSize)
}

// Next gives the next run, false after the last.
func (c *Cursor) Next() (Run, bool) {
	if c.page >= c.layout.Pages {
		return Run{}, false
	}
	size := uint32(c.layout.PageSize)
	r := Run{
		Source: uint64(c.layout.SourceSlot(c.page)) * uint64(size),
		Target: c.target, Length: size, Pages: 1,
	}
	for {
		if c.page++; c.page == c.layout.Pages {
			return r, true
		}
		c.target = c.place(c.page)
		if c.layout.Stride != 1 || c.target != r.Target+uint64(r.Length) || r.Length+size > c.limit {
			return r, true
		}
		r.Length += size
		r.Pages++
	}
}
