package device

import (
	"encoding/binary"
	"math/bits"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// maxPages is how many page addresses all of a function's regions have together
// at most. A guest could otherwise register one page over and over until this
// process has no memory left: a list costs it nothing once it is registered.
const maxPages = 1 << 25

// regMR carries out REG_MR: the pages come in the command, or in memory as one
// list, or as pages of a list that a chain of chunks names.
func (f *Function) regMR(desc wire.AQDesc, payload, resp []byte) error {
	op := wire.OpRegMR.String()
	var c wire.RegMR
	c.Decode(payload)
	o := MROptions{PD: c.PD, IOVA: c.IOVA, Length: c.Length, PageShift: c.PageShift, Access: c.Access}
	if c.PhysMode {
		// No translation: the region is where its address says.
		o.PageShift, o.Pages = 0, []uint64{c.IOVA}
	} else {
		// Nothing is read or allocated before the size is known to be sane.
		n, err := f.pageCount(op, &c)
		if err != nil {
			return err
		}
		if f.allPages+n > maxPages {
			return exhausted(op, "%d pages on top of %d; all regions together have at most %d", n, f.allPages, maxPages)
		}
		switch desc.Flags & (wire.AQCtrlData | wire.AQCtrlDataIndirect) {
		case 0:
			if n > wire.InlinePages {
				return illegal(op, "%d pages in a command that has room for %d", n, wire.InlinePages)
			}
			o.Pages = append(o.Pages, c.Pages[:n]...)
		case wire.AQCtrlData:
			o.Pages, err = f.pageList(op, c.Pages.Buffer(), n)
		case wire.AQCtrlData | wire.AQCtrlDataIndirect:
			o.Pages, err = f.pageChunks(op, c.Pages.Buffer(), n)
		default:
			err = malformed(wire.OpRegMR, "a list that is indirect, but not there")
		}
		if err != nil {
			return err
		}
	}
	info, err := f.dev.RegisterMR(o)
	if err != nil {
		return err
	}
	f.pages[info.LKey] = len(o.Pages)
	f.allPages += len(o.Pages)
	r := wire.RegMRResp{
		LKey: info.LKey, RKey: info.RKey,
		// There is one way to memory.
		Validity: wire.ICRecv | wire.ICRDMARead | wire.ICRDMARecv,
	}
	r.Encode(resp)
	return nil
}

// deregMR carries out DEREG_MR.
func (f *Function) deregMR(lkey uint32) error {
	err := f.dev.DeregisterMR(lkey)
	if err == nil {
		f.allPages -= f.pages[lkey]
		delete(f.pages, lkey)
	}
	return err
}

// pageCount gives how many pages a region has. The command's own count is never
// filled by the driver.
func (f *Function) pageCount(op string, c *wire.RegMR) (int, error) {
	if f.dev.Attr().Device.PageSizeCap>>c.PageShift&1 == 0 {
		return 0, illegal(op, "pages of 2^%d bytes are not supported", c.PageShift)
	}
	mask := uint64(1)<<c.PageShift - 1
	end, carry := bits.Add64(c.IOVA&mask, c.Length, 0)
	if c.Length == 0 || carry != 0 {
		return 0, illegal(op, "%d bytes at %#x", c.Length, c.IOVA)
	}
	n := end >> c.PageShift
	if end&mask != 0 {
		n++
	}
	if most := f.dev.opts.MaxMRPages; n > uint64(most) {
		return 0, illegal(op, "%d pages; a region has at most %d", n, most)
	}
	return int(n), nil
}

// pageList reads a list of n page addresses that is contiguous in memory.
func (f *Function) pageList(op string, b wire.CtrlBuffer, n int) ([]uint64, error) {
	if uint64(b.Length) < uint64(n)*8 {
		return nil, illegal(op, "%d pages in a list of %d bytes", n, b.Length)
	}
	l := pageReader{memory: f.opts.Memory, pages: make([]uint64, 0, n)}
	if !l.read(b.Addr, n) {
		return nil, illegal(op, "the page list at %#x is not mapped", b.Addr)
	}
	return l.pages, nil
}

// pageChunks reads a list of n page addresses through a chain of chunks: each
// names up to PointersPerChunk pages of the list, of 512 addresses each. How many
// are read follows from n alone, so a chain that closes in itself does no harm.
func (f *Function) pageChunks(op string, b wire.CtrlBuffer, n int) ([]uint64, error) {
	const perPage = wire.SizeChunkPage / 8
	l := pageReader{memory: f.opts.Memory, pages: make([]uint64, 0, n)}
	var chunk [wire.SizeChunk]byte
	for left := (n + perPage - 1) / perPage; left > 0; {
		here := min(left, wire.PointersPerChunk)
		if uint64(b.Length) < uint64(here)*8+wire.SizeCtrlBuffer {
			return nil, illegal(op, "%d pointers in a chunk of %d bytes", here, b.Length)
		}
		need := here * 8
		if left > here {
			need = wire.ChunkLink + wire.SizeCtrlBuffer
			if b.Length < uint32(need) {
				return nil, illegal(op, "a chunk of %d bytes has no room for its link", b.Length)
			}
		}
		if !fetch(f.opts.Memory, b.Addr, chunk[:need]) {
			return nil, illegal(op, "the chunk of the page list at %#x is not mapped", b.Addr)
		}
		for i := range here {
			at := binary.LittleEndian.Uint64(chunk[i*8:])
			if !l.read(at, min(perPage, n-len(l.pages))) {
				return nil, illegal(op, "page %#x of the page list is not mapped", at)
			}
		}
		if left -= here; left > 0 {
			b.Decode(chunk[wire.ChunkLink:])
		}
	}
	return l.pages, nil
}

// pageReader collects page addresses from memory.
type pageReader struct {
	memory Memory
	pages  []uint64
	buf    [wire.SizeChunkPage]byte
}

// read appends n addresses at addr; false if they are not mapped.
func (l *pageReader) read(addr uint64, n int) bool {
	for n > 0 {
		b := l.buf[:min(n*8, len(l.buf))]
		if !fetch(l.memory, addr, b) {
			return false
		}
		for i := 0; i < len(b); i += 8 {
			l.pages = append(l.pages, binary.LittleEndian.Uint64(b[i:]))
		}
		addr += uint64(len(b))
		n -= len(b) / 8
	}
	return true
}
