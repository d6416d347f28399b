package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
)

// plain is memory of which only the copies in and out are used, and counted.
type plain struct {
	dmabuf.Memory
	mem    []byte
	copies int
}

func (p *plain) ReadAt(b []byte, off int64) (int, error) {
	p.copies++
	return copy(b, p.mem[off:]), nil
}

func (p *plain) WriteAt(b []byte, off int64) (int, error) {
	p.copies++
	return copy(p.mem[off:off+int64(len(b))], b), nil
}

// TestCopiedMemoryHoldsTheSame: pages that are written and read in pieces through
// an exporter are those that are written and read in place.
func TestCopiedMemoryHoldsTheSame(t *testing.T) {
	for _, l := range []Layout{
		{PageSize: 64, Pages: 1, Stride: 1},
		{PageSize: 64, Pages: 50_000, Stride: 3, Seed: 7},
		{PageSize: 4096, Pages: 1000, Stride: 2, Seed: 3},
		{PageSize: 4096, Pages: 700, Stride: 1},
		{PageSize: 64 << 10, Pages: 40, Stride: 5, Seed: 1},
		{PageSize: 4 << 20, Pages: 3, Stride: 2, Seed: 9},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			const epoch = 3
			host, err := newMemory(t.Context(), nil, l.Span())
			if err != nil {
				t.Fatal(err)
			}
			defer host.close()
			p := &plain{mem: make([]byte, l.Span())}
			copied := &memory{exported: p}
			for _, m := range []*memory{host, copied} {
				if err := m.fill(t.Context(), l, epoch); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(host.host.Bytes(), p.mem) {
				t.Fatal("what was written differs")
			}
			for name, slot := range map[string]func(int) int{"source": l.SourceSlot, "target": l.TargetSlots()} {
				p.copies = 0
				a, b := newPageSums(l.Pages), newPageSums(l.Pages)
				order := []uint32(nil)
				if name == "target" {
					order = copied.order(l, slot)
				}
				if err := errors.Join(host.sum(t.Context(), a, l, nil, slot), copied.sum(t.Context(), b, l, order, slot)); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(a, b) {
					t.Errorf("the sums of the %s differ in pages %v", name, differences(b, a)[:1])
				}
				if most := int(l.Span()/min(l.Span(), chunkSize/2)) + 2*l.Pages*l.PageSize/chunkSize + 1; p.copies > most {
					t.Errorf("%d copies, %d are enough", p.copies, most)
				}
			}
		})
	}
}

// used is an exporter whose memory still holds what was in it.
type used struct {
	dmabuf.Exporter
	given *usedMemory
}

func (u used) Allocate(size uint64) (dmabuf.Memory, error) {
	u.given.mem = bytes.Repeat([]byte{0xa5}, int(size))
	return u.given, nil
}

type usedMemory struct {
	plain
	refuse error
	closed bool
}

func (u *usedMemory) WriteAt(b []byte, off int64) (int, error) {
	if u.refuse != nil {
		return 0, u.refuse
	}
	return u.plain.WriteAt(b, off)
}

func (u *usedMemory) Close() error {
	u.closed = true
	return nil
}

// TestNoPageOfAnEarlierTransferIsLeft: it would pass for one that arrived.
func TestNoPageOfAnEarlierTransferIsLeft(t *testing.T) {
	for _, size := range []uint64{64, 4096, chunkSize, 3*chunkSize + 64} {
		u := used{given: new(usedMemory)}
		m, err := newMemory(t.Context(), u, size)
		if err != nil {
			t.Fatal(err)
		}
		if left := bytes.Count(u.given.mem[:size], []byte{0xa5}); left > 0 {
			t.Errorf("%d of %d bytes are old", left, size)
		}
		if err := m.close(); err != nil || !u.given.closed {
			t.Errorf("%v", err)
		}
	}
	u := used{given: &usedMemory{refuse: errors.ErrUnsupported}}
	if m, err := newMemory(t.Context(), u, 4096); !errors.Is(err, errors.ErrUnsupported) || m != nil || !u.given.closed {
		t.Errorf("memory that no CPU reaches: %v, closed %v", err, u.given.closed)
	}
}

// absent is an exporter that is not there.
type absent struct{ dmabuf.Exporter }

func (absent) Name() string { return "absent" }
func (absent) Available() error {
	return &dmabuf.Error{Op: "open", Exporter: "absent", Err: dmabuf.ErrNoDevice}
}

// TestMemoryThatIsNotThere is told before anybody is dialled or waited for.
func TestMemoryThatIsNotThere(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	_, opening := Open(Options{Rail: e.Node(0), Memory: absent{}})
	_, _, inside := Inside(t.Context(), e, 1, 0, Options{Memory: absent{}}, SendOptions{Layout: Layout{PageSize: 64, Pages: 1, Stride: 1}}, nil)
	for _, err := range []error{opening, inside} {
		if !errors.Is(err, dmabuf.ErrNoDevice) {
			t.Errorf("%v", err)
		}
	}
}

// TestWorkOnMemoryEnds: filling, comparing and clearing many pages ends with the
// context.
func TestWorkOnMemoryEnds(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelled)
	l := Layout{PageSize: 4096, Pages: 1000, Stride: 1}
	host, err := newMemory(t.Context(), nil, l.Span())
	if err != nil {
		t.Fatal(err)
	}
	defer host.close()
	p := &plain{mem: make([]byte, l.Span())}
	for _, m := range []*memory{host, {exported: p}} {
		if err := m.fill(ended, l, 1); !errors.Is(err, ErrCancelled) {
			t.Errorf("fill: %v", err)
		}
		if err := m.sum(ended, newPageSums(l.Pages), l, nil, l.SourceSlot); !errors.Is(err, ErrCancelled) {
			t.Errorf("sum: %v", err)
		}
	}
	u := used{given: new(usedMemory)}
	if _, err := newMemory(ended, u, 4096); !errors.Is(err, ErrCancelled) || !u.given.closed {
		t.Errorf("clear: %v", err)
	}
	if p.copies+u.given.copies > 0 {
		t.Errorf("%d copies for one who had gone", p.copies+u.given.copies)
	}
}
