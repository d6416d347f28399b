package collective

import (
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/peerdirect/peerdirect/dmabuf"
	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// apart is memory of an exporter of which only the copies are used.
type apart struct {
	dmabuf.Memory
	mem []byte
}

func (a *apart) ReadAt(p []byte, off int64) (int, error)  { return copy(p, a.mem[off:]), nil }
func (a *apart) WriteAt(p []byte, off int64) (int, error) { return copy(a.mem[off:], p), nil }
func (a *apart) Close() error                             { return nil }

type exporter struct{ dmabuf.Exporter }

func (exporter) Name() string { return "apart" }

func (exporter) Allocate(size uint64) (dmabuf.Memory, error) {
	return &apart{mem: make([]byte, size)}, nil
}

// TestVectors: values are of all magnitudes and none is infinite; what is wanted is
// the sum in its order, in whatever pieces it is made.
func TestVectors(t *testing.T) {
	v := run{number: 3, op: AllReduce, nodes: 3, n: 1000}
	whole, pieces := make([]float32, v.n), make([]float32, v.n)
	v.want(whole, 0)
	for at := 0; at < v.n; at += 77 {
		v.want(pieces[at:min(at+77, v.n)], at)
	}
	reordered := 0
	for i := range whole {
		x := [3]float32{value(seed(3, 0), i), value(seed(3, 1), i), value(seed(3, 2), i)}
		p := 0
		for from, to := v.part(p); i < from || i >= to; from, to = v.part(p) {
			p++
		}
		if want := (x[(p+1)%3] + x[(p+2)%3]) + x[p]; whole[i] != want || pieces[i] != want {
			t.Fatalf("element %d of part %d is %g and %g, want %g", i, p, whole[i], pieces[i], want)
		}
		if whole[i] != (x[p]+x[(p+1)%3])+x[(p+2)%3] {
			reordered++
		}
		for _, f := range x {
			if a := math.Abs(float64(f)); a < 1.0/8 || a >= 32 {
				t.Fatalf("element %d is %g", i, f)
			}
		}
	}
	if reordered < v.n/10 {
		t.Errorf("another order gives another sum for %d of %d elements only", reordered, v.n)
	}
}

// TestCheck finds each wrong element, in memory of either kind.
func TestCheck(t *testing.T) {
	for _, from := range []dmabuf.Exporter{nil, exporter{}} {
		m, err := newMemory(from, 4*(block+10))
		if err != nil {
			t.Fatal(err)
		}
		defer m.close()
		v := run{number: 1, op: AllGather, nodes: 2, n: block + 10}
		want := make([]float32, v.n)
		v.want(want, 0)
		if err := m.fill(v, 0); err != nil {
			t.Fatal(err)
		}
		if err := m.check(v, 0); !errors.Is(err, exchange.ErrVerification) || !strings.Contains(err.Error(), "element 32773 ") {
			t.Errorf("%s: the other's part is not there: %v", memoryName(from), err)
		}
		store := func(x []float32) {
			if m.mem != nil {
				m.mem.WriteAt(bytesOf(x), 0)
			} else {
				copy(m.floats(v.n), x)
			}
		}
		store(want)
		if err := m.check(v, 0); err != nil {
			t.Error(err)
		}
		want[v.n-1] = math.Nextafter32(want[v.n-1], 100)
		store(want)
		if err := m.check(v, 0); !errors.Is(err, exchange.ErrVerification) {
			t.Errorf("%s: the last element is wrong: %v", memoryName(from), err)
		}
	}
}

// TestTCP does operations over sockets, with memory of both kinds.
func TestTCP(t *testing.T) {
	const nodes = 3
	for _, from := range []dmabuf.Exporter{nil, exporter{}} {
		rings := make([]*tcpRing, nodes)
		for rank := range rings {
			m, err := newMemory(from, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer m.close()
			rings[rank] = newTCP(rank, nodes, m, patience)
			defer rings[rank].close()
		}
		for rank, r := range rings {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if r.next, err = net.Dial("tcp", l.Addr().String()); err != nil {
				t.Fatal(err)
			}
			if rings[(rank+1)%nodes].prev, err = l.Accept(); err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
		for number, n := range []int{0, 1, 5, 1000, 250_000} {
			for _, op := range operations {
				v := run{number: uint64(number + 1), op: op, nodes: nodes, n: n}
				errs := make([]error, nodes)
				var all sync.WaitGroup
				for rank, r := range rings {
					all.Go(func() {
						if errs[rank] = r.mem.fill(v, rank); errs[rank] == nil {
							errs[rank] = errors.Join(r.do(t.Context(), v), r.mem.check(v, rank))
						}
					})
				}
				all.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Fatalf("%s, %d elements: %v", memoryName(from), n, err)
				}
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	if pci, node := placeOf(t.TempDir(), "efa_0"); pci != "" || node != nil {
		t.Errorf("a device that is not there is at %q, %v", pci, node)
	}
}
