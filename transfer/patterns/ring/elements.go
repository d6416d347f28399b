package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unsafe"
)

// Memory is memory outside of the process, an accelerator's (dmabuf.Memory): bytes
// go in and out by copies.
type Memory interface {
	// ReadAt and WriteAt copy out of the memory and into it, as io.ReaderAt and
	// io.WriterAt do.
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
}

// elements are a vector that slots are filled from and emptied into.
type elements interface {
	length() int
	load(into []float32, from int) error
	// take takes a chunk that came: it is added, or is what the elements become.
	take(s *Spent, chunk []float32, from int, sum bool) error
}

// inside is a vector in the process.
type inside []float32

func (x inside) length() int { return len(x) }

func (x inside) load(into []float32, from int) error {
	copy(into, x[from:])
	return nil
}

func (x inside) take(s *Spent, chunk []float32, from int, sum bool) error {
	begun := time.Now()
	if to := x[from : from+len(chunk)]; sum {
		add(to, chunk, to)
		s.Sum += time.Since(begun)
	} else {
		copy(to, chunk)
		s.Copy += time.Since(begun)
	}
	return nil
}

// add is the reduction: what comes is the sum so far. The three are of one length.
func add(sum, came, own []float32) {
	came, own = came[:len(sum)], own[:len(sum)]
	for i := range sum {
		sum[i] = came[i] + own[i]
	}
}

// outside is a vector elsewhere. Sums are made in the process: bytes are copied
// out, added to, and copied in.
type outside struct {
	mem Memory
	n   int
	sum []float32
}

func (x *outside) length() int { return x.n }

func (x *outside) load(into []float32, from int) error { return readAt(x.mem, into, from) }

func (x *outside) take(s *Spent, chunk []float32, from int, sum bool) error {
	begun := time.Now()
	if sum {
		if len(x.sum) < len(chunk) {
			x.sum = make([]float32, len(chunk))
		}
		own := x.sum[:len(chunk)]
		if err := readAt(x.mem, own, from); err != nil {
			return err
		}
		copied := time.Now()
		s.Copy += copied.Sub(begun)
		add(own, chunk, own)
		chunk, begun = own, time.Now()
		s.Sum += begun.Sub(copied)
	}
	err := writeAt(x.mem, chunk, from)
	s.Copy += time.Since(begun)
	return err
}

func readAt(m Memory, into []float32, from int) error {
	b := bytesOf(into)
	if n, err := m.ReadAt(b, 4*int64(from)); n < len(b) {
		return fmt.Errorf("copying %d bytes out of the vector's memory: %w", len(b), err)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func writeAt(m Memory, x []float32, from int) error {
	if _, err := m.WriteAt(bytesOf(x), 4*int64(from)); err != nil {
		return fmt.Errorf("copying %d bytes into the vector's memory: %w", 4*len(x), err)
	}
	return nil
}

func bytesOf(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// Staged is a vector in memory outside of the process, every byte of which is copied:
// into a registered slot before it is sent, and out of one after it came.
type Staged struct {
	r *Ring
	x outside
}

// Staged names such a vector.
func (r *Ring) Staged(m Memory) *Staged { return &Staged{r: r, x: outside{mem: m}} }

// AllGather is Ring.AllGather of the first n elements.
func (s *Staged) AllGather(ctx context.Context, n int) error {
	s.x.n = n
	return s.r.staged(ctx, allGather, &s.x)
}

// AllReduce is Ring.AllReduce of the first n elements.
func (s *Staged) AllReduce(ctx context.Context, n int) error {
	s.x.n = n
	return s.r.staged(ctx, allReduce, &s.x)
}
