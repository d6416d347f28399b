//go:build lab

package efa

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestEFAUnsolicitedWritesAndUnknownSenders(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		dev := labDevice(t, labDevices(t)[0], o)
		caps := dev.Attr().Caps
		if caps&(CapUnsolicitedWrite|CapWrite) != CapUnsolicitedWrite|CapWrite {
			t.Skipf("needs RDMA write and unsolicited writes, a newer rdma-core or driver; here are %v", caps)
		}
		so := SRDOptions{Unsolicited: true, MaxRecv: 4, SGID: caps&CapCQWithSGID != 0}
		s := pairOn(t, [2]*Device{dev, dev}, 4096, [2]SRDOptions{so, so})
		a, z := s[0], s[1]
		z.receive(t, 1, 0, 64, 90)
		for i := range uint32(20) {
			a.b.WriteImm(a.peer, a.mr.At(0, 16), z.remote().At(0), i, 1)
			post(t, a.b)
			c := complete(t, z.ep, 1)[0]
			if c.Err() != nil || c.Flags != WithImm|Unsolicited || c.ID != 0 || c.Imm != i || c.Bytes != 16 || c.Op != OpRecvWrite {
				t.Fatalf("%+v", c)
			}
			complete(t, a.ep, 1)
		}
		a.b.Send(a.peer, a.mr.At(0, 3), 2)
		post(t, a.b)
		if c := complete(t, z.ep, 1)[0]; c.ID != 90 || c.Bytes != 3 || c.Flags != 0 {
			t.Errorf("the posted receive: %+v", c)
		}
		complete(t, a.ep, 1)
	})
}

// A peer on a second device, of which the receiver has no handle.
func TestEFAUnknownSendersTellTheirGID(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		names := labDevices(t)
		if len(names) < 2 {
			t.Skip("needs two devices: peerdirect lab run --efa 2")
		}
		var ep [2]*Endpoint
		var mr [2]*MR
		for i := range ep {
			dev := labDevice(t, names[i], o)
			if dev.Attr().Caps&CapCQWithSGID == 0 {
				t.Skipf("needs what the device or the library lacks: they have %v", dev.Attr().Caps)
			}
			mr[i] = must[*MR](t)(dev.Register(memoryFor(t, dev, 4096), LocalWrite))
			ep[i] = must[*Endpoint](t)(dev.CreateSRD(SRDOptions{SGID: true}))
		}
		r, b := ep[1].RecvBatch(), ep[0].Batch()
		t.Cleanup(r.Close)
		t.Cleanup(b.Close)
		r.Recv(mr[1].At(0, 64), 1)
		post(t, r)
		to := ep[1].Address()
		b.Send(must[*AH](t)(ep[0].Device().CreateAH(to.GID)).To(to.QPN, to.QKey), mr[0].At(0, 8), 1)
		post(t, b)
		if c := complete(t, ep[1], 1)[0]; c.Err() != nil || c.AH != UnknownAH || c.SGID != ep[0].Address().GID {
			t.Errorf("%+v, want %v", c, ep[0].Address().GID)
		}
	})
}

func TestEFACounters(t *testing.T) {
	dev := labDevice(t, labDevices(t)[0], OpenOptions{})
	if dev.Attr().Caps&CapCounters == 0 {
		t.Skipf("needs completion counters, rdma-core 65 (lab run --with acceptance); here are %v", dev.Attr().Caps)
	}
	for name, o := range map[string]CounterOptions{
		"the library's memory": {},
		"own memory":           {Done: &CounterMemory{Mapped: memoryFor(t, dev, 4096)[:8]}, Failed: &CounterMemory{Mapped: memoryFor(t, dev, 4096)[64:72]}},
	} {
		t.Run(name, func(t *testing.T) {
			c := must[*Counter](t)(dev.CreateCounter(o))
			s := pairOn(t, [2]*Device{dev, dev}, 4096, [2]SRDOptions{})
			a, z := s[0], s[1]
			if err := a.ep.AttachCounter(c, CounterWrite); err != nil {
				t.Fatal(err)
			}
			refused(t, c.Close(), ErrBusy, "srd")
			for range 5 {
				a.b.Write(a.peer, a.mr.At(0, 8), z.remote().At(0), 1)
			}
			a.b.Write(a.peer, a.mr.At(0, 8), RemoteSlice{Addr: 64, Left: 8, RKey: 0xdead}, 1)
			post(t, a.b)
			complete(t, a.ep, 6)
			eventually(t, func() error {
				done, failed, err := c.Read()
				if err != nil || done != 5 || failed != 1 {
					return fmt.Errorf("counted %d and %d, %v", done, failed, err)
				}
				return nil
			})
			if o.Done != nil && *(*uint64)(unsafe.Pointer(&o.Done.Mapped[0])) != 5 {
				t.Error("the counter's own memory has another count")
			}
			if err := c.Set(100, 200); err != nil {
				t.Fatal(err)
			}
			if err := c.Add(1, 2); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				if done, failed, err := c.Read(); err != nil || done != 101 || failed != 202 {
					return fmt.Errorf("counted %d and %d, %v", done, failed, err)
				}
				return nil
			})
		})
	}
}

// udmabuf is a page of memory as a dma-buf, and mapped (linux/udmabuf.h).
func udmabuf(t *testing.T) (fd int, mapped []byte) {
	t.Helper()
	exec.Command("modprobe", "udmabuf").Run()
	dev, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs a dma-buf to make a queue of: %v", err)
	}
	defer dev.Close()
	mem, err := unix.MemfdCreate("efa", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(mem)
	page := os.Getpagesize()
	if err := unix.Ftruncate(mem, int64(page)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(mem), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	create := struct {
		memfd, flags uint32
		offset, size uint64
	}{uint32(mem), 1, 0, uint64(page)} // 1: close on exec
	const udmabufCreate = 0x40187542
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), udmabufCreate, uintptr(unsafe.Pointer(&create)))
	if errno != 0 {
		t.Fatalf("UDMABUF_CREATE: %v", errno)
	}
	fd = int(r)
	t.Cleanup(func() { unix.Close(fd) })
	if mapped, err = unix.Mmap(mem, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mapped) })
	return fd, mapped
}

func TestEFACompletionQueueInADMABuf(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		dev := labDevice(t, labDevices(t)[0], o)
		fd, mapped := udmabuf(t)
		// Half of what a page holds: there may be two sub-CQs.
		cq, err := dev.CreateCQ(CQOptions{Depth: len(mapped) / cqeBytes / 2, Memory: &CQMemory{FD: fd, Mapped: mapped}})
		if dev.Attr().Caps&CapCQWithDMABuf == 0 {
			if err == nil || !errors.Is(err, ErrUnsupported) {
				t.Errorf("a device that lacks it: %v", err)
			}
			t.Skipf("needs completion queues in a dma-buf (CQ_WITH_EXT_MEM_DMABUF), a newer rdma-core or driver; here are %v", dev.Attr().Caps)
		}
		cq = must[*CQ](t)(cq, err)
		so := SRDOptions{CQ: cq, MaxSend: 16, MaxRecv: 16}
		s := pairOn(t, [2]*Device{dev, dev}, 4096, [2]SRDOptions{so, so})
		a, z := s[0], s[1]
		for round := range 20 { // past the queue's end
			z.receive(t, 16, 64, 64, 100)
			for i := range 16 {
				a.b.Send(a.peer, a.mr.At(0, 8), uint64(i))
			}
			post(t, a.b)
			if by := ended(t, cq, 32); by[StatusOK] != 32 {
				t.Fatalf("round %d: ended as %v", round, by)
			}
		}
	})
}
