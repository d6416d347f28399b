package pages

import (
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
func (s pageSums) compute(mem []byte, l Layout, slot func(int) int) {
	for i := range l.Pages {
		at := slot(i) * l.PageSize
		s.sum(i, mem[at:at+l.PageSize])
	}
}

// fill writes bytes into the source pages that tell seed, epoch, page and place
// apart: a page that is missing, stale or in another's slot has another sum.
func fill(mem []byte, l Layout, epoch uint32) {
	for i := range l.Pages {
		at := l.SourceSlot(i) * l.PageSize
		fillPage(mem[at:at+l.PageSize], l, epoch, i)
	}
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
