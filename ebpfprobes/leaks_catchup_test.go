package ebpfprobes

import (
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/peerdirect/peerdirect/ebpfprobes/internal/objects"
)

// birthRing is a session that reads a ring of the kernel, and what sends so many bytes.
func birthRing(t *testing.T) (s *LeakSession, send func(size int)) {
	t.Helper()
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 20})
	if errors.Is(err, os.ErrPermission) {
		t.Skip("needs CAP_BPF: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ring.Close() })
	s = &LeakSession{done: make(chan struct{}), read: make(chan struct{}, 1)}
	s.stacks.reset()
	if s.reader, err = ringbuf.NewReader(ring); err != nil {
		t.Fatal(err)
	}
	return s, func(size int) {
		t.Helper()
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMapPtr(asm.R1, ring.FD()),
			asm.Mov.Imm(asm.R2, int32(size)),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRingbufReserve.Call(),
			asm.JEq.Imm(asm.R0, 0, "full"),
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRingbufSubmit.Call(),
			asm.Mov.Imm(asm.R0, 1),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("full"),
			asm.Return(),
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if sent, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil || sent != 1 {
			t.Fatalf("%d were sent: %v", sent, err)
		}
	}
}

// TestCatchUp: what was sent before a report has been read when it is made, however often
// and whatever it was.
func TestCatchUp(t *testing.T) {
	s, send := birthRing(t)
	go s.collect()
	birth := int(unsafe.Sizeof(objects.LifecycleBirth{}))
	var sent int64
	for i := range 300 {
		size := []int{16, birth, 100}[i%3]
		send(size)
		sent += ringBytes(size)
		if i%7 == 0 {
			continue // several at once
		}
		if err := s.catchUp(); err != nil || s.taken.Load() != sent {
			t.Fatalf("%d: %d bytes were read of %d: %v", i, s.taken.Load(), sent, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.catchUp(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCatchUpDoesNotWaitForEver for a reader that has to wait itself.
func TestCatchUpDoesNotWaitForEver(t *testing.T) {
	s, send := birthRing(t)
	s.stacks.mu.Lock()
	go s.collect()
	send(int(unsafe.Sizeof(objects.LifecycleBirth{})))
	caught := make(chan error)
	go func() { caught <- s.catchUp() }()
	select {
	case err := <-caught:
		if err != nil || s.taken.Load() != 0 {
			t.Errorf("%v, %d bytes were read", err, s.taken.Load())
		}
	case <-time.After(50 * mostWait):
		t.Error("waits for ever")
	}
	s.stacks.mu.Unlock()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
