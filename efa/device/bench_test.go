package device

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// benchPair is two embedded devices, with an endpoint each and a region in this
// process's memory.
func benchPair(b testing.TB, size int) (*pair, region, region) {
	o := Options{Memory: ProcessMemory()}
	f := NewFabric(FabricOptions{})
	b.Cleanup(f.Close)
	p := &pair{f: f}
	for _, e := range []**endpoint{&p.a, &p.b} {
		h := newHost(b, f, o)
		h.mem.base = uint64(uintptr(unsafe.Pointer(&h.mem.buf[0])))
		h.mem.next = -h.mem.base & 4095
		*e = h.endpoint(epOptions{depth: 1024, scq: h.cqueue(4096, wire.CreateCQ{})})
	}
	p.ab, p.ba = p.a.to(p.b), p.b.to(p.a)
	reg := func(h *host) region {
		mem := make([]byte, size)
		addr := uint64(uintptr(unsafe.Pointer(&mem[0])))
		mr := must(h.d.RegisterMR(MROptions{PD: h.pd, IOVA: addr, Length: uint64(size), Pages: []uint64{addr}, Access: allAccess, Keep: mem}))(b)
		return region{mr, addr, mem}
	}
	return p, reg(p.a.host), reg(p.b.host)
}

// TestProcessMemory: embedded devices reach ordinary memory of this process, which
// they keep alive.
func TestProcessMemory(t *testing.T) {
	p, src, dst := benchPair(t, 1<<18)
	fill(src.b, 1)
	for i := range 10 {
		clear(dst.b)
		p.a.post(p.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, len(src.b)), dst.addr, dst.RKey))
		runtime.GC()
		p.a.scq.expect(uint16(i), wire.CompOK)
		if !bytes.Equal(src.b, dst.b) {
			t.Fatal("the bytes differ")
		}
	}
}

// drain polls n completions without copies.
func (q *cqueue) drain(n int) {
	depth := uint32(q.info.SubCQDepth)
	for idle := 0; n > 0; {
		off := int(q.cc[0]&(depth-1)) * q.size
		w := wire.CQEWord(atomic.LoadUint32((*uint32)(unsafe.Pointer(&q.ring[off]))))
		if w.Phase() != (q.cc[0]&depth == 0) {
			if idle++; idle < 10_000 {
				runtime.Gosched()
			} else {
				time.Sleep(20 * time.Microsecond) // as next does
			}
			continue
		}
		idle = 0
		if w.Status() != wire.CompOK {
			panic(w.Status())
		}
		q.cc[0]++
		n--
	}
}

// BenchmarkWrite posts writes and polls their completions through the rings: one at
// a time, and in batches with one doorbell each.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64, 4096, 64 << 10, 1 << 20} {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("%d/batch%d", size, batch), func(b *testing.B) {
				p, src, dst := benchPair(b, size)
				w := p.ab.rdma(wire.IORDMAWrite, 1, src.at(0, size), dst.addr, dst.RKey)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for left := b.N; left > 0; left -= batch {
					n := min(batch, left)
					for range n {
						p.a.put(w)
					}
					p.a.ring()
					p.a.scq.drain(n)
				}
			})
		}
	}
}

// BenchmarkSend posts a receive, a send, and polls both completions.
func BenchmarkSend(b *testing.B) {
	p, src, dst := benchPair(b, 4096)
	w := p.ab.send(1, src.at(0, 64))
	const batch = 32
	parts := []int{0, 64}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= batch {
		n := min(batch, left)
		for range n {
			p.b.recv(1, dst, parts...)
			p.a.put(w)
		}
		p.a.ring()
		p.b.scq.drain(n)
		p.a.scq.drain(n)
	}
}

// BenchmarkCopy is what the copy alone costs, to compare.
func BenchmarkCopy(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := make([]byte, size), make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				copy(x, y)
			}
		})
	}
}
