package verbs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// unconnected is a queue pair that no device has, for building batches.
func unconnected(o QPOptions) *QP {
	o.defaults()
	q := &QP{dev: &Device{info: DeviceInfo{Name: "test0"}}, opts: o, maxSend: o.MaxSend, maxRecv: o.MaxRecv}
	if err := q.attach("test", "qp RC 1"); err != nil {
		panic(err)
	}
	q.detach() // it has its name, and is not counted
	return q
}

func TestABatchIsAChainOfRequests(t *testing.T) {
	q := unconnected(QPOptions{MaxSend: 4, MaxSendSGE: 2})
	b := q.Batch()
	defer b.Close()
	s := Slice{Addr: 0x1000, Length: 64, LKey: 5}
	r := RemoteRegion{Addr: 0x2000, Length: 128, RKey: 6}
	b.WriteImm(s, r.At(8), 0x01020304, 11).Flags(Solicited)
	b.WriteV([]Slice{s, {Addr: 0x3000, Length: 8, LKey: 7}}, r.At(0), 12).Unsignaled()
	b.CompareSwap(Slice{Addr: 1, Length: 8}, r.At(16), 21, 22, 13)
	b.Send(Slice{}, 14)
	if b.Len() != 4 || b.err != nil {
		t.Fatalf("%d requests, %v", b.Len(), b.err)
	}
	w := b.wrs
	if w[0].id != 11 || w[0].opcode != uint32(WriteImm) || w[0].flags != uint32(Signaled|Solicited) ||
		w[0].imm != 0x04030201 || w[0].u0 != 0x2008 || w[0].u1 != 6 || w[0].numSGE != 1 || *w[0].sges != (sge{0x1000, 64, 5}) {
		t.Errorf("WRITE with immediate: %+v", w[0])
	}
	if w[1].numSGE != 2 || w[1].flags != 0 || unsafe.Slice(w[1].sges, 2)[1] != (sge{0x3000, 8, 7}) || !b.gathers {
		t.Errorf("gathered WRITE: %+v", w[1])
	}
	if w[2].u0 != 0x2010 || w[2].u1 != 21 || w[2].u2 != 22 || w[2].u3 != 6 {
		t.Errorf("compare and swap: %+v", w[2])
	}
	if w[3].numSGE != 0 || w[3].imm != 0 {
		t.Errorf("SEND of nothing: %+v", w[3])
	}
	for i := range 3 {
		if w[i].next != &w[i+1] {
			t.Errorf("request %d does not lead to the next", i)
		}
	}

	b.Send(s, 15) // a fifth: refused, and everything with it
	var pe *PostError
	err := b.Post()
	if !errors.As(err, &pe) || pe.Posted != 0 || !errors.Is(err, ErrQueueFull) || b.Len() != 0 {
		t.Errorf("got %v", err)
	}
	if err := b.Post(); err != nil {
		t.Errorf("posting nothing: %v", err)
	}
	b.Send(s, 16)
	if err := b.Post(); !errors.Is(err, ErrClosed) {
		t.Errorf("posting to a queue pair that is closed: %v", err)
	}
}

func TestAPeerOfADriversQueuePairIsNamedBesideTheRemoteAddress(t *testing.T) {
	b := unconnected(QPOptions{Type: TypeDriver, MaxSendSGE: 2}).Batch()
	defer b.Close()
	ah := &AH{}
	s, r := Slice{Addr: 1, Length: 64}, RemoteRegion{Addr: 0x2000, Length: 128, RKey: 6}
	b.Write(s, r.At(8), 1).ToPeer(ah, 7, 9)
	b.SendV([]Slice{s, s}, 2).ToPeer(ah, 7, 9)
	w := b.wrs
	if w[0].u0 != 0x2008 || w[0].u1 != 6 || w[0].mwRKey != 7 || w[0].srqn != 9 {
		t.Errorf("WRITE: %+v", w[0])
	}
	if w[1].opcode != uint32(Send) || w[1].numSGE != 2 || w[1].u1 != 7|9<<32 || w[1].mwRKey != 7 || w[1].srqn != 9 {
		t.Errorf("gathered SEND: %+v", w[1])
	}
	if err := b.err; err != nil {
		t.Error(err)
	}
	rb := unconnected(QPOptions{}).RecvBatch()
	defer rb.Close()
	rb.Recv(s, 1)
	rb.Recv(Slice{bad: true, Length: 1}, 2)
	if rb.Reset(); rb.Len() != 0 || rb.err != nil {
		t.Errorf("%d receives are left, %v", rb.Len(), rb.err)
	}
}

func TestRequestsThatCannotBeRightAreCaughtWhenPosted(t *testing.T) {
	region := &MR{length: 100}
	if s := region.At(0, 1); !s.bad {
		t.Error("a slice of a closed region is good")
	}
	r := RemoteRegion{Addr: 0x2000, Length: 128}
	s := Slice{Addr: 1, Length: 64}
	for name, add := range map[string]func(*Batch){
		"local slice":   func(b *Batch) { b.Send(region.At(90, 20), 1) },
		"remote end":    func(b *Batch) { b.Write(s, r.At(65), 1) },
		"remote offset": func(b *Batch) { b.Read(s, r.At(129), 1) },
		"gather":        func(b *Batch) { b.WriteV([]Slice{s, s}, r.At(1), 1) },
		"atomic":        func(b *Batch) { b.FetchAdd(Slice{Length: 8}, r.At(121), 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := unconnected(QPOptions{MaxSendSGE: 2}).Batch()
			defer b.Close()
			b.Send(s, 0)
			add(b)
			b.Send(s, 2)
			if err := b.Post(); !errors.Is(err, ErrRange) {
				t.Errorf("got %v", err)
			}
			if b.Len() != 0 || b.err != nil {
				t.Error("the batch was not emptied")
			}
		})
	}
	if s := r.At(128); s.Left != 0 || s.Addr != 0x2080 {
		t.Errorf("the end of a region: %+v", s)
	}
}

func TestBuildingABatchAllocatesNothing(t *testing.T) {
	b := unconnected(QPOptions{MaxSendSGE: 2}).Batch()
	defer b.Close()
	s, r := Slice{Addr: 1, Length: 64}, RemoteRegion{Length: 1 << 20}
	both := []Slice{s, s}
	if n := testing.AllocsPerRun(100, func() {
		for i := range 16 {
			b.Write(s, r.At(uint64(i)), uint64(i)).Unsignaled()
		}
		b.WriteV(both, r.At(0), 17)
		b.SendImm(s, 1, 18)
		b.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkBuildBatch is what 16 WRITEs cost before they are posted.
func BenchmarkBuildBatch(b *testing.B) {
	batch := unconnected(QPOptions{}).Batch()
	defer batch.Close()
	s, r := Slice{Addr: 1, Length: 64}, RemoteRegion{Length: 1 << 20}
	b.ReportAllocs()
	for b.Loop() {
		for i := range 16 {
			batch.Write(s, r.At(64), uint64(i))
		}
		batch.Reset()
	}
}

func TestBuffersAreMappedMemory(t *testing.T) {
	for _, length := range []int{0, -1} {
		if _, err := NewBuffer(length, BufferOptions{}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
	b, err := NewBuffer(5000, BufferOptions{Populate: true})
	if err != nil {
		t.Fatal(err)
	}
	mem := b.Bytes()
	if len(mem) != 5000 || cap(mem) != 5000 || uintptr(unsafe.Pointer(&mem[0]))%4096 != 0 {
		t.Errorf("%d bytes of %d at %p", len(mem), cap(mem), &mem[0])
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if b.Bytes() != nil {
		t.Error("a closed buffer has bytes")
	}
}

// TestBuffersOnANode: pages come from the node that is asked for, where the kernel
// tells of it.
func TestBuffersOnANode(t *testing.T) {
	if _, err := NewBuffer(100, BufferOptions{Node: -3}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("node -4: %v", err)
	}
	if _, err := NewBuffer(100, BufferOptions{Node: 1025}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("node 1024: %v", err)
	}
	b, err := NewBuffer(5000, BufferOptions{Node: 1, Populate: true})
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("needs mbind, which the container forbids: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		return // a kernel without NUMA
	}
	if at := fmt.Sprintf("%x prefer", uintptr(unsafe.Pointer(&b.Bytes()[0]))); !strings.Contains(string(maps), at) {
		t.Errorf("no policy of the buffer at %s", at)
	}
}
