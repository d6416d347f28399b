package collective

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/engine"
	"github.com/peerdirect/peerdirect/verbs"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// memory is where a node's vector lies: in the process, or with an exporter.
type memory struct {
	buf     *verbs.Buffer
	mem     dmabuf.Memory
	size    uint64
	scratch []float32 // of memory of an exporter
}

func newMemory(from dmabuf.Exporter, size uint64) (*memory, error) {
	m := &memory{size: size}
	var err error
	if from == nil {
		m.buf, err = verbs.NewBuffer(int(size), verbs.BufferOptions{Populate: true})
	} else {
		m.mem, err = from.Allocate((size + 4095) &^ 4095)
		m.scratch = make([]float32, min(size/4, block))
	}
	if err != nil {
		return nil, fmt.Errorf("memory for %d bytes: %w", size, err)
	}
	return m, nil
}

func (m *memory) close() error {
	switch {
	case m == nil:
		return nil
	case m.mem != nil:
		return m.mem.Close()
	}
	return m.buf.Close()
}

func (m *memory) register(e *engine.Engine) (*engine.Region, error) {
	if m.mem != nil {
		return e.RegisterMemory(m.mem, 0, m.size)
	}
	return e.Register(m.host())
}

// host is the memory if it is the process's.
func (m *memory) host() []byte {
	if m.mem != nil {
		return nil
	}
	return m.buf.Bytes()[:m.size]
}

// floats is the first n elements of memory of the process.
func (m *memory) floats(n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&m.buf.Bytes()[0])), n)
}

// block is how many elements are made or compared at once.
const block = 64 << 10

// value is element i of a node's vector in a run: of eight magnitudes, so that sums
// depend on their order.
func value(seed uint64, i int) float32 {
	h := (uint64(i) + seed) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h >>= 32
	return math.Float32frombits(uint32(h)&0x807fffff | (124+uint32(h)>>23&7)<<23)
}

// seed tells the vectors of a run's nodes apart.
func seed(run uint64, rank int) uint64 { return (run*maxNodes + uint64(rank)) << 36 }

// run is the vectors of an operation.
type run struct {
	number uint64
	op     string
	nodes  int
	n      int // elements
}

func (v run) part(p int) (from, to int) { return p * v.n / v.nodes, (p + 1) * v.n / v.nodes }

// want makes what the elements from at on are after the operation.
func (v run) want(into []float32, at int) {
	for p := range v.nodes {
		from, to := v.part(p)
		from, to = max(from, at), min(to, at+len(into))
		if from >= to {
			continue
		}
		x := into[from-at : to-at]
		if v.op == AllGather {
			s := seed(v.number, p)
			for i := range x {
				x[i] = value(s, from+i)
			}
			continue
		}
		for hop := 1; hop <= v.nodes; hop++ {
			s := seed(v.number, (p+hop)%v.nodes)
			if hop == 1 {
				for i := range x {
					x[i] = value(s, from+i)
				}
				continue
			}
			for i := range x {
				x[i] += value(s, from+i)
			}
		}
	}
}

// fill makes a node's vector before an operation: of an all-gather the node's part,
// and zeros.
func (m *memory) fill(v run, rank int) error {
	from, to := v.part(rank)
	s := seed(v.number, rank)
	return m.blocks(v.n, func(x []float32, at int) error {
		for i := range x {
			x[i] = 0
			if k := at + i; v.op == AllReduce || k >= from && k < to {
				x[i] = value(s, k)
			}
		}
		if m.mem == nil {
			return nil
		}
		_, err := m.mem.WriteAt(bytesOf(x), 4*int64(at))
		return err
	})
}

// check compares the vector with the result, bit for bit.
func (m *memory) check(v run, rank int) error {
	want := make([]float32, min(v.n, block))
	return m.blocks(v.n, func(x []float32, at int) error {
		if m.mem != nil {
			if n, err := m.mem.ReadAt(bytesOf(x), 4*int64(at)); n < 4*len(x) {
				return err
			}
		}
		want := want[:len(x)]
		v.want(want, at)
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
				return fmt.Errorf("%s of %d elements among %d nodes: at node %d element %d is %g (%#08x) and should be %g (%#08x): %w",
					v.op, v.n, v.nodes, rank, at+i, x[i], math.Float32bits(x[i]), want[i], math.Float32bits(want[i]), exchange.ErrVerification)
			}
		}
		return nil
	})
}

func (m *memory) blocks(n int, f func(x []float32, at int) error) error {
	for at := 0; at < n; at += block {
		k := min(block, n-at)
		var x []float32
		if m.mem != nil {
			x = m.scratch[:k]
		} else {
			x = m.floats(n)[at : at+k]
		}
		if err := f(x, at); err != nil {
			return err
		}
	}
	return nil
}

func bytesOf(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

func memoryName(e dmabuf.Exporter) string {
	if e == nil {
		return transfer.HostMemory
	}
	return e.Name()
}
