package pages

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// castagnoli is made at its first use: at the start of every command it would be
// a tenth of a millisecond.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// pageSums are the CRC-32C of each page, 4 bytes each and big-endian, in the
// order of pages: as they go over the wire.
type pageSums []byte

func newPageSums(pages int) pageSums { return make(pageSums, 4*pages) }

func (s pageSums) set(page int, sum uint32) { binary.BigEndian.PutUint32(s[4*page:], sum) }
func (s pageSums) at(page int) uint32       { return binary.BigEndian.Uint32(s[4*page:]) }

// digest is the one sum for all: the SHA-256 of the pages' sums.
func (s pageSums) digest() [digestSize]byte { return sha256.Sum256(s) }

// sum enters a page's bytes.
func (s pageSums) sum(page int, bytes []byte) { s.set(page, crc32.Checksum(bytes, castagnoli())) }

// compute sums the pages that lie in mem at the slots given.
func (s pageSums) compute(ctx context.Context, mem []byte, l Layout, slot func(int) int) error {
	return l.each(ctx, func(i int) {
		at := slot(i) * l.PageSize
		s.sum(i, mem[at:at+l.PageSize])
	})
}

// each calls f for each page, until the context ends: all of them may take minutes.
func (l Layout) each(ctx context.Context, f func(page int)) error {
	look := max(1, chunkSize/l.PageSize) // a page may be 64 bytes
	for i := range l.Pages {
		if i%look == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f(i)
	}
	return nil
}

// fill writes bytes into the source pages that tell seed, epoch, page and place
// apart: a page that is missing, stale or in another's slot has another sum.
func fill(ctx context.Context, mem []byte, l Layout, epoch uint32) error {
	return l.each(ctx, func(i int) {
		at := l.SourceSlot(i) * l.PageSize
		fillPage(mem[at:at+l.PageSize], l, epoch, i)
	})
}

func fillPage(page []byte, l Layout, epoch uint32, i int) {
	state := mix(l.Seed ^ uint64(epoch)<<32 ^ uint64(i))
	for len(page) >= 8 {
		state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(page, state^state>>29)
		page = page[8:]
	}
}

// differences lists the pages whose sums differ.
func differences(got, want pageSums) (bad []int) {
	for i := range len(want) / 4 {
		if got.at(i) != want.at(i) {
			bad = append(bad, i)
		}
	}
	return bad
}
