package transfer

import "fmt"

// Writes are the operations that move a layout's pages, a batch at a time.
type Writes struct {
	from   *Region
	to     Descriptor
	peer   Peer
	cursor Cursor
}

// Pages gives the writes that move a layout's pages from a region into a
// peer's.
func Pages(from *Region, peer Peer, to Descriptor, l Layout) (*Writes, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if from.Length() < l.Span() || to.Length < l.Span() {
		return nil, fmt.Errorf("%w: the pages span %d bytes, the regions have %d and %d", ErrRange, l.Span(), from.Length(), to.Length)
	}
	return &Writes{from: from, to: to, peer: peer, cursor: l.Runs()}, nil
}

// Fill puts the next writes into ops, one for each contiguous run, all with
// the same ID. It tells how many writes and how many pages they are; no writes
// means the end.
func (w *Writes) Fill(ops []Op, id uint64) (n, pages int) {
	for n < len(ops) {
		run, ok := w.cursor.Next()
		if !ok {
			break
		}
		ops[n] = Op{
			Kind: OpWrite, Peer: w.peer, ID: id,
			Local: w.from.At(run.Source, run.Length), Remote: w.to.At(run.Target),
		}
		pages += run.Pages
		n++
	}
	return n, pages
}

// Rewind starts again at the first page.
func (w *Writes) Rewind() { w.cursor = w.cursor.layout.Runs() }
