//go:build lab

package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// newer makes a pair for an operation of newer libraries and kernels.
func newer(t *testing.T, op SendOps, access Access) (*pair, *MR) {
	dev := device(t)
	rdma(t, dev)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	cq, err := dev.CreateCQ(CQOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateRC(QPOptions{CQ: cq, Extended: OpsRC | op, Access: allAccess | access})
	if errors.Is(err, ErrUnsupported) || errors.Is(err, errInvalid) {
		t.Skip("the provider has no such operation: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	qp.Close()
	p := connected(t, QPOptions{Extended: OpsRC | op, Access: allAccess | access}, 4096, ConnectOptions{})
	mr, err := p.pd.Register(p.mem[1].Bytes(), allAccess|access)
	if errors.Is(err, ErrUnsupported) || errors.Is(err, errInvalid) {
		t.Skip("the kernel has no such access: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, must[*MR](t)(mr, nil)
}

func TestAnAtomicWriteWritesEightBytes(t *testing.T) {
	p, mr := newer(t, OpAtomicWrite, 0)
	if a, err := p.dev.Attr(); err != nil || !a.Caps.Has(CapAtomicWrite) {
		t.Skip("the library knows it, the device does not")
	}
	b, _ := batches(t, p.qp[0].QP)
	b.AtomicWrite(0x1122334455667788, mr.Remote().At(64), 1)
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
	c := complete(t, p.cq[0], 1)[0]
	if c.Err() != nil || c.Opcode != CompletedAtomicWrite {
		t.Fatalf("completion %+v", c)
	}
	if v := binary.NativeEndian.Uint64(p.mem[1].Bytes()[64:]); v != 0x1122334455667788 {
		t.Errorf("the peer has %#x", v)
	}
	b.AtomicWrite(1, mr.Remote().At(4090), 2)
	refused(t, b.Post(), ErrRange)
}

func TestAFlushFollowsTheWrites(t *testing.T) {
	p, mr := newer(t, OpFlush, FlushGlobal)
	b, _ := batches(t, p.qp[0].QP)
	fill(p.mem[0].Bytes(), 4)
	b.Write(p.mr[0].At(0, 4096), mr.Remote().At(0), 1).Unsignaled()
	b.Flush(mr.Remote().At(0), 4096, false, PlaceGlobal, 2)
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
	c := complete(t, p.cq[0], 1)[0]
	if c.ID != 2 || c.Err() != nil || c.Opcode != CompletedFlush {
		t.Fatalf("completion %+v", c)
	}
	if !bytes.Equal(p.mem[0].Bytes(), p.mem[1].Bytes()) {
		t.Error("the bytes differ")
	}
	b.Flush(mr.Remote().At(0), 4096, true, PlaceGlobal, 3)
	if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
		t.Errorf("flush of the whole region: %v", s[0])
	}
}

func TestAnOperationThatWasNotAskedForIsRefused(t *testing.T) {
	p := connected(t, QPOptions{Extended: OpWrite}, 4096, ConnectOptions{})
	b, _ := batches(t, p.qp[0].QP)
	b.Read(p.mr[0].At(0, 8), p.mr[1].Remote().At(0), 1)
	refused(t, b.Post(), ErrUnsupported, "RDMA_WRITE", "QPOptions.Extended")
	q := connected(t, QPOptions{}, 4096, ConnectOptions{})
	c, _ := batches(t, q.qp[0].QP)
	c.AtomicWrite(1, q.mr[1].Remote().At(0), 1)
	refused(t, c.Post(), ErrUnsupported)
	c.Write(q.mr[0].At(0, 8), q.mr[1].Remote().At(0), 2)
	if s := status(t, q.cq[0], c); s[0] != StatusSuccess {
		t.Errorf("after a refused batch: %v", s[0])
	}
}

func TestOnDemandPagingFaultsPagesIn(t *testing.T) {
	p := connected(t, QPOptions{}, 4096, ConnectOptions{})
	a, err := p.dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	big := must[*Buffer](t)(NewBuffer(1<<20, BufferOptions{}))
	mr, err := p.pd.Register(big.Bytes(), allAccess|OnDemand)
	if !a.ODP.Supported {
		if err == nil {
			must[*MR](t)(mr, nil)
		}
		refused(t, err, ErrUnsupported, "on-demand paging")
		return
	}
	must[*MR](t)(mr, err)
	b, _ := batches(t, p.qp[0].QP)
	fill(p.mem[0].Bytes(), 5)
	b.Write(p.mr[0].At(0, 4096), mr.Remote().At(512<<10), 1)
	if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
		t.Fatalf("writing into pages that were never touched: %v", s[0])
	}
	if !bytes.Equal(big.Bytes()[512<<10:512<<10+4096], p.mem[0].Bytes()) {
		t.Error("the bytes differ")
	}
	if err := mr.Advise(AdvicePrefetchWrite, 0, 64<<10, true); err != nil && !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	refused(t, mr.Advise(AdvicePrefetch, 1<<20, 1, true), ErrRange)
}

// TestWhatTheDeviceLacksIsUnsupported goes through what no software device
// has: each either works, or says that it is unsupported, and leaves nothing.
func TestWhatTheDeviceLacksIsUnsupported(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{}))
	mem := must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
	closing := func(c interface{ Close() error }, err error) error {
		if err == nil {
			err = c.Close()
		}
		return err
	}
	qp := must[*QP](t)(pd.CreateQP(QPOptions{CQ: cq}))
	for name, try := range map[string]func() error{
		"XRC domain": func() error { x, err := dev.OpenXRCD(nil, 0); return closing(x, err) },
		"XRC sender": func() error { q, err := pd.CreateXRCSender(QPOptions{CQ: cq}); return closing(q, err) },
		"XRC receive queue": func() error {
			x, err := dev.OpenXRCD(nil, 0)
			if err != nil {
				return err
			}
			defer x.Close()
			s, err := pd.CreateSRQ(SRQOptions{Type: SRQXRC, CQ: cq, XRCD: x})
			return closing(s, err)
		},
		"tag matching": func() error {
			s, err := pd.CreateSRQ(SRQOptions{Type: SRQTagMatching, CQ: cq, MaxTags: 8, MaxTagOps: 8})
			return closing(s, err)
		},
		"device memory": func() error { m, err := dev.AllocDM(4096, 0); return closing(m, err) },
		"thread domain": func() error { td, err := dev.AllocTD(); return closing(td, err) },
		"parent domain": func() error { p, err := pd.AllocParentDomain(nil); return closing(p, err) },
		"counters":      func() error { c, err := dev.CreateCounters(); return closing(c, err) },
		"flow": func() error {
			f, err := qp.CreateFlow(FlowOptions{Specs: []FlowSpec{FlowEthernet{}}})
			return closing(f, err)
		},
		"raw packets":        func() error { q, err := pd.CreateRawPacket(QPOptions{CQ: cq}); return closing(q, err) },
		"work queue":         func() error { w, err := pd.CreateWQ(WQOptions{CQ: cq}); return closing(w, err) },
		"ECE":                func() error { _, err := qp.ECE(); return err },
		"rate limit":         func() error { return qp.SetRateLimit(RateLimit{Kbps: 1000}) },
		"null region":        func() error { m, err := pd.NullMR(); return closing(m, err) },
		"implicit on-demand": func() error { m, err := pd.RegisterOnDemand(LocalWrite); return closing(m, err) },
		"timestamps":         func() error { q, err := dev.CreateCQ(CQOptions{WC: WCStandard | WCTimestamp}); return closing(q, err) },
		"wall clock":         func() error { q, err := dev.CreateCQ(CQOptions{WC: WCStandard | WCWallclock}); return closing(q, err) },
		"ibv_reg_mr_ex": func() error {
			m, err := pd.RegisterWith(RegisterOptions{Mem: mem.Bytes(), Access: LocalWrite})
			return closing(m, err)
		},
		"DMA handle":         func() error { h, err := dev.AllocDMAHandle(DMAHandleOptions{}); return closing(h, err) },
		"provider buffer":    func() error { b, err := pd.AllocBuffer(4096); return closing(b, err) },
		"completion counter": func() error { c, err := dev.CreateCompletionCounter(false); return closing(c, err) },
		"counter caps":       func() error { _, err := dev.CompletionCounterCaps(); return err },
		"port speed":         func() error { _, err := dev.PortSpeed(1); return err },
		"import": func() error {
			fd, err := dupFD(dev.CommandFD())
			if err != nil {
				return err
			}
			d, err := ImportDevice(fd)
			if err != nil {
				os.NewFile(uintptr(fd), "").Close()
			}
			return closing(d, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			switch err := try(); {
			case err == nil:
				t.Log("works")
			case errors.Is(err, ErrUnsupported):
				t.Log(err)
			default:
				t.Errorf("neither works nor is unsupported: %v", err)
			}
		})
	}
}
