package efa

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// rings is an endpoint over memory that nobody else looks at: what posting and
// polling cost, without a device that takes its time.
func rings(depth int, wide bool) *Endpoint {
	send := wqMemory{ring: pointerTo(aligned(depth*64, 4096)), entry: 64, count: depth, maxBatch: depth, wideIDs: wide, bell: bell{register: pointerTo(aligned(8, 64))}}
	recv := wqMemory{ring: pointerTo(aligned(depth*16, 4096)), entry: 16, count: depth, maxBatch: depth, bell: bell{register: pointerTo(aligned(8, 64))}}
	ep := &Endpoint{dev: &Device{a: Attr{MaxRDMA: 1 << 30}}, blocks: 1, sends: depth, recvs: depth, opts: SRDOptions{MaxRecvSGE: 1, MaxSendSGE: 1}}
	ep.send, ep.recv = newWorkQueue(&send, depth, 1), newWorkQueue(&recv, depth, 1)
	ring := newCQRing(&cqMemory{ring: pointerTo(aligned(4*depth*cqeBytes, 4096)), entry: cqeBytes, count: 4 * depth}, false)
	ring.attach(qpSlot{7, ep.send, ep.recv})
	ep.cq = &CQ{dev: ep.dev, ring: ring}
	ep.rcq = ep.cq
	return ep
}

func pointerTo(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

// completeAll writes completions of everything that was posted, as a device
// would, n of them.
func completeAll(ep *Endpoint, n int, queue wire.QueueType) {
	r, q := ep.cq.ring, ep.send
	if queue == wire.RecvQueue {
		q = ep.recv
	}
	for i := range uint32(n) {
		e := r.entry(r.at + i)
		id := uint64(i)
		if !q.wide {
			at := q.posted - uint32(n) + i
			id = uint64(q.free[at&q.mask] | q.gen)
		}
		if queue == wire.RecvQueue {
			e.Base().SetRecv(7, 8, 3, 9, 5)
			e.SetLengthHi(0)
		} else {
			e.Base().SetSend(7, id)
		}
		e.Base().SetWord(wire.MakeCQEWord(uint16(id), wire.CompOK,
			wire.MakeCQEFlags((r.at+i)&r.size == 0, queue, wire.IORDMAWrite, false, false)))
	}
}

var idKinds = []struct {
	name string
	wide bool
}{{"64-bit", true}, {"16-bit", false}}

func benchRegion() (*Dest, Slice, RemoteSlice) {
	ah := &AH{}
	ah.word.Store(3 << 32)
	return ah.To(9, 0x1234), Slice{Addr: 4096, Length: 8, LKey: 77}, RemoteSlice{Addr: 8192, Left: 1 << 20, RKey: 78}
}

// BenchmarkPost posts RDMA writes, n a batch, to rings that nobody reads.
func BenchmarkPost(b *testing.B) {
	for _, k := range idKinds {
		for _, n := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", k.name, n), func(b *testing.B) {
				ep := rings(4096, k.wide)
				batch := ep.Batch()
				to, local, remote := benchRegion()
				b.ReportAllocs()
				for b.Loop() {
					for i := range n {
						batch.Write(to, local, remote, uint64(i))
					}
					if batch.Post() != nil {
						b.Fatal("post")
					}
					// All completed: the ids are where they were.
					ep.send.completed.Store(ep.send.posted)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/write")
			})
		}
	}
}

// BenchmarkPoll polls completions that are there already, n a call.
func BenchmarkPoll(b *testing.B) {
	for _, k := range idKinds {
		for _, n := range []int{1, 4, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", k.name, n), func(b *testing.B) {
				const depth = 4096
				ep := rings(depth, k.wide)
				out := make([]Completion, n)
				left := 0
				b.ReportAllocs()
				for b.Loop() {
					if left == 0 {
						b.StopTimer()
						ep.send.posted = ep.send.done + depth
						completeAll(ep, depth, wire.SendQueue)
						left = depth
						b.StartTimer()
					}
					got, err := ep.Poll(out)
					if err != nil || got != n {
						b.Fatal(got, err)
					}
					left -= got
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/completion")
			})
		}
	}
}

// BenchmarkPollEmpty polls a queue that has nothing.
func BenchmarkPollEmpty(b *testing.B) {
	ep := rings(64, true)
	out := make([]Completion, 16)
	b.ReportAllocs()
	for b.Loop() {
		if n, _ := ep.Poll(out); n != 0 {
			b.Fatal(n)
		}
	}
}

// BenchmarkPostRecv posts receives, n a batch, to a ring that nobody reads.
func BenchmarkPostRecv(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ep := rings(4096, true)
			batch := ep.RecvBatch()
			_, local, _ := benchRegion()
			b.ReportAllocs()
			for b.Loop() {
				for i := range n {
					batch.Recv(local, uint64(i))
				}
				if batch.Post() != nil {
					b.Fatal("post")
				}
				ep.recv.completed.Store(ep.recv.posted)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/receive")
		})
	}
}

// BenchmarkEmbedded posts and polls RDMA writes of 8 bytes on two devices of
// this process, depth of them in flight: the device's work is in it.
func BenchmarkEmbedded(b *testing.B) {
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			s := embeddedPair(b, 4096, SRDOptions{MaxSend: 256})
			a, z := s[0], s[1]
			local, remote := a.mr.At(0, 8), z.remote().At(0)
			out := make([]Completion, 64)
			b.ReportAllocs()
			for b.Loop() {
				for i := range depth {
					a.b.Write(a.peer, local, remote, uint64(i))
				}
				if err := a.b.Post(); err != nil {
					b.Fatal(err)
				}
				for left := depth; left > 0; {
					n, _ := a.ep.Poll(out)
					left -= n
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/write")
		})
	}
}

func TestPostingAndPollingAllocateNothing(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			o := p.ep
			o.MaxSendSGE = 2
			s := embeddedPairOf(t, 4096, device.FabricOptions{}, p.dev, [2]SRDOptions{o, o})
			a, z := s[0], s[1]
			local, remote := a.mr.At(0, 8), z.remote().At(0)
			both := []Slice{local, a.mr.At(64, 8)}
			out := make([]Completion, 8)
			if n := testing.AllocsPerRun(200, func() {
				z.r.Recv(z.mr.At(1024, 64), 1)
				z.r.Recv(z.mr.At(1088, 64), 2)
				if z.r.Post() != nil {
					t.Fatal("post receive")
				}
				a.b.Write(a.peer, local, remote, 1)
				a.b.Read(a.peer, local, remote, 2)
				a.b.SendV(a.peer, both, 3)
				a.b.WriteImm(a.peer, local, remote, 5, 4)
				if a.b.Post() != nil {
					t.Fatal("post")
				}
				for left := 4; left > 0; {
					n, _ := a.ep.Poll(out)
					left -= n
					runtime.Gosched() // there is one processor here, for the device, too
				}
				for left := 2; left > 0; {
					n, _ := z.ep.Poll(out)
					left -= n
					runtime.Gosched()
				}
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
