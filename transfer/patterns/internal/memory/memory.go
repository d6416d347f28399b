// Package memory has host memory that is registered with an engine, for the
// records that the patterns keep beside what they move.
package memory

import (
	"errors"

	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
)

// Block is host memory that is registered with an engine.
type Block struct {
	Bytes  []byte
	Region *engine.Region

	buf *verbs.Buffer
}

// Allocate allocates and registers memory, which is zero.
func Allocate(e *engine.Engine, bytes int) (*Block, error) {
	buf, err := verbs.NewBuffer(bytes, verbs.BufferOptions{})
	if err != nil {
		return nil, err
	}
	region, err := e.Register(buf.Bytes())
	if err != nil {
		return nil, errors.Join(err, buf.Close())
	}
	return &Block{Bytes: buf.Bytes(), Region: region, buf: buf}, nil
}

// Close deregisters and frees the memory: nothing lands in it any more. It may be
// called on a nil Block, and again.
func (b *Block) Close() error {
	if b == nil {
		return nil
	}
	if err := b.Region.Close(); err != nil {
		return err
	}
	return b.buf.Close()
}
