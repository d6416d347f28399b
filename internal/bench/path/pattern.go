package path

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/peerdirect/peerdirect/transfer/report"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// poison is in the destination before a copy, and stays in the guard behind it.
const poison = 0xa5

// guard is how many bytes behind the copies are looked at as well.
const guard = 4 << 10

// shift is how far apart the two GPUs' patterns are, so that neither stands for the
// other.
const shift = 4093

// pattern is what both GPUs' memory is filled from.
func pattern(n uint64) []byte {
	b := make([]byte, n+shift)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], 0x9e3779b97f4a7c15)
	rand.NewChaCha8(seed).Read(b)
	return b
}

// MismatchError: a byte came that was not sent. exchange.ErrVerification is in it.
type MismatchError struct {
	Lane      string // "cuda:0 to cuda:1"
	Way       Way
	Size      uint64 // of a copy
	Copy      int    // of those back to back; -1: behind the last one
	Offset    uint64 // in the copy, or behind the last one
	Got, Want byte
}

func (e *MismatchError) Error() string {
	where := fmt.Sprintf("copies of %v, %s: ", report.Bytes(e.Size), e.Way)
	if e.Copy < 0 {
		return fmt.Sprintf("%s, %sthe byte at offset %d behind the last is %#02x, which nobody was to write (%#02x)", e.Lane, where, e.Offset, e.Got, e.Want)
	}
	text := fmt.Sprintf("%s, %sthe byte at offset %d (%#x) of copy %d is %#02x, not %#02x", e.Lane, where, e.Offset, e.Offset, e.Copy, e.Got, e.Want)
	if e.Got == poison {
		text += "; it is what was there before"
	}
	return text
}

func (e *MismatchError) Unwrap() error { return exchange.ErrVerification }

// differs gives the first offset where two equally long pieces differ; -1 if none.
func differs(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
