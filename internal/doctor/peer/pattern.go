package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// fill writes the bytes that a piece has: all differ by test, step, round and piece, so
// that nothing old passes for new.
func fill(b []byte, seed uint64, step Name, round, piece int) {
	var key [32]byte
	h := fnv.New64a()
	h.Write([]byte(step))
	le := binary.LittleEndian
	le.PutUint64(key[:], seed)
	le.PutUint64(key[8:], h.Sum64())
	le.PutUint64(key[16:], uint64(round))
	le.PutUint64(key[24:], uint64(piece))
	rand.NewChaCha8(key).Read(b)
}

// compare looks whether memory has a piece's bytes, and clears it for the next. It was
// clear before.
func compare(got []byte, seed uint64, step Name, round, piece int) error {
	want := make([]byte, len(got))
	fill(want, seed, step, round, piece)
	defer clear(got)
	if bytes.Equal(got, want) {
		return nil
	}
	e := &DamageError{What: fmt.Sprintf("a write of %d bytes", len(got)), Bytes: len(got), First: -1, Untouched: true}
	for i := range got {
		if got[i] == want[i] {
			continue
		}
		if e.First < 0 {
			e.First, e.Got, e.Want = i, got[i], want[i]
		}
		e.Wrong++
		e.Untouched = e.Untouched && got[i] == 0
	}
	return e
}
