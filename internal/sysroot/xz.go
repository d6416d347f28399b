package sysroot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// maxDictionary bounds what unpacking xz takes: xz -9 has 64 MiB.
const maxDictionary = 64 << 20

// unxz gives what an xz stream holds.
func unxz(r *bufio.Reader) (io.Reader, error) {
	head, _ := r.Peek(64)
	if n := dictionary(head); n > maxDictionary {
		return nil, fmt.Errorf("compressed by xz with a dictionary of %d MiB: xz -dk it, and give the tar", n>>20)
	}
	plain, err := xz.NewReader(r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("compressed by xz, and cut: %w", err)
	}
	return plain, err
}

// dictionary gives the size that the first block of an xz stream asks for, in
// bytes, where its filter is the usual one, LZMA2; else 0 (the .xz file format
// 1.2.1, sections 3.1 and 5.3.1).
func dictionary(head []byte) int64 {
	const (
		streamHeader = 12
		lzma2        = 0x21
	)
	if len(head) < streamHeader+2 {
		return 0
	}
	flags, rest := head[streamHeader+1], head[streamHeader+2:]
	for _, sized := range [...]byte{0x40, 0x80} { // of the packed and the unpacked size, if they are told
		if flags&sized != 0 {
			_, n := binary.Uvarint(rest)
			if n <= 0 {
				return 0
			}
			rest = rest[n:]
		}
	}
	if flags&3 != 0 || len(rest) < 3 || rest[0] != lzma2 || rest[1] != 1 {
		return 0
	}
	n, err := lzma.DecodeDictCap(rest[2])
	if err != nil {
		return 0
	}
	return n
}
