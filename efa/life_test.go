package efa

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

func TestClosingWithWorkInFlight(t *testing.T) {
	f := fabric(t, device.FabricOptions{Seed: 1})
	for i := range 20 {
		var devs [2]*Device
		for k := range devs {
			var err error
			if devs[k], err = Embedded(f, device.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		var ep [2]*Endpoint
		var mr [2]*MR
		var to [2]*Dest
		for k, d := range devs {
			var err error
			if ep[k], err = d.CreateSRD(SRDOptions{Notify: true}); err != nil {
				t.Fatal(err)
			}
			if mr[k], err = d.Register(memory(t, 2<<20), allAccess); err != nil {
				t.Fatal(err)
			}
		}
		for k, d := range devs {
			ah, err := d.CreateAH(devs[1-k].Attr().GID)
			if err != nil {
				t.Fatal(err)
			}
			to[k] = ah.To(ep[1-k].QPN(), ep[1-k].Address().QKey)
			b := ep[k].Batch()
			for range 100 {
				// Into the other half: what a device reads, the peer must not write.
				b.Write(to[k], mr[k].At(0, 1<<20), mr[1-k].Remote().At(1<<20), 1)
			}
			post(t, b)
		}
		refused(t, devs[0].Close(), ErrBusy, "pd")
		for k := range devs {
			closers := []interface{ Close() error }{ep[k], mr[k], to[k].AH(), devs[k]}
			if i%2 == 1 {
				closers[0], closers[1] = closers[1], closers[0]
			}
			for _, c := range closers {
				for range 2 { // again, for nothing
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := ep[k].Poll(make([]Completion, 1)); !errors.Is(err, ErrClosed) {
				t.Errorf("polling a closed endpoint: %v", err)
			}
			b := ep[k].Batch()
			b.Write(to[k], Slice{Length: 1}, RemoteSlice{Left: 1}, 1)
			refused(t, b.Post(), ErrClosed)
		}
	}
}

func TestAResetDeviceLetsItsObjectsClose(t *testing.T) {
	s := embeddedPair(t, 4096, SRDOptions{Notify: true})
	a := s[0]
	a.dev.Device().Reset()
	_, err := a.ep.State()
	if err == nil {
		t.Error("an endpoint that a reset took has a state")
	}
	// What is made after it lives beside what was before.
	ep, err := a.dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	if err := ep.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWaiting(t *testing.T) {
	s := embeddedPair(t, 4096, SRDOptions{Notify: true})
	a, z := s[0], s[1]
	// Nothing comes: the context ends it.
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := a.ep.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for nothing: %v", err)
	}
	ctx := within(t, patience)
	for i := range 200 {
		go func() {
			if i%3 == 0 {
				time.Sleep(time.Millisecond)
			}
			a.b.Write(a.peer, a.mr.At(0, 8), z.remote().At(0), uint64(i))
			if err := a.b.Post(); err != nil {
				t.Error(err)
			}
		}()
		var c [4]Completion
		for {
			if err := a.ep.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			n, err := a.ep.Poll(c[:])
			if err != nil {
				t.Fatal(err)
			}
			if n > 1 || n == 1 && (c[0].Err() != nil || c[0].ID != uint64(i)) {
				t.Fatalf("%d: %d completions, %+v", i, n, c[0])
			}
			if n == 1 {
				break
			}
		}
	}
	// Closing ends a wait.
	cq := must[*CQ](t)(a.dev.CreateCQ(CQOptions{Depth: 4, Notify: true}))
	done := make(chan error)
	go func() { done <- cq.Wait(ctx) }()
	time.Sleep(10 * time.Millisecond)
	if err := cq.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting on a closed queue: %v", err)
	}
	quiet := must[*CQ](t)(a.dev.CreateCQ(CQOptions{Depth: 4}))
	refused(t, quiet.Wait(ctx), ErrUnsupported, "Notify")
}

func TestEndpointsShareAQueueThatHasRoom(t *testing.T) {
	dev := must[*Device](t)(Embedded(fabric(t, device.FabricOptions{}), device.Options{}))
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{Depth: 64}))
	recv := must[*CQ](t)(dev.CreateCQ(CQOptions{Depth: 32}))
	o := SRDOptions{CQ: cq, RecvCQ: recv, MaxSend: 16, MaxRecv: 8}
	var eps [4]*Endpoint
	for i := range eps {
		eps[i] = must[*Endpoint](t)(dev.CreateSRD(o))
	}
	_, err := dev.CreateSRD(o)
	refused(t, err, ErrQueueFull, "make it deeper", "room for 0")
	refused(t, cq.Close(), ErrBusy, "srd")
	mr := must[*MR](t)(dev.Register(memory(t, 4096), allAccess))
	ah := must[*AH](t)(dev.CreateAH(dev.Attr().GID))
	for i, ep := range eps {
		r := ep.RecvBatch()
		for k := range 8 {
			r.Recv(mr.At(uint64(i*8+k)*64, 64), uint64(i*100+k))
		}
		post(t, r)
	}
	for i, ep := range eps {
		b := ep.Batch()
		to := eps[(i+1)%4]
		for k := range 8 {
			b.Send(ah.To(to.QPN(), to.Address().QKey), mr.At(0, 4), uint64(i*100+k))
			b.Write(ah.To(to.QPN(), to.Address().QKey), mr.At(0, 4), mr.Remote().At(2048), uint64(i*100+50+k))
		}
		post(t, b)
	}
	by := ended(t, cq, 64)
	if by[StatusOK] != 64 {
		t.Errorf("sends ended as %v", by)
	}
	if by := ended(t, recv, 32); by[StatusOK] != 32 {
		t.Errorf("receives ended as %v", by)
	}
	// A closed endpoint's room is another's.
	if err := eps[0].Close(); err != nil {
		t.Fatal(err)
	}
	must[*Endpoint](t)(dev.CreateSRD(o))
}

func TestWhatADeviceLacksIsNamed(t *testing.T) {
	f := fabric(t, device.FabricOptions{})
	two := must[*Device](t)(Embedded(f, device.Options{SubCQs: 2}))
	if p := two.Path(); p.Direct || p.Reason == "" {
		t.Errorf("path %+v", p)
	}
	_, err := two.CreateSRD(SRDOptions{})
	refused(t, err, ErrUnsupported, "2 sub-CQs")

	plain := must[*Device](t)(Embedded(f, device.Options{Caps: device.CapsNone, MaxInline: 32}))
	a := plain.Attr()
	if a.Caps != CapCQWithSGID || a.MaxInlineEx != 32 || a.Part != 0 {
		t.Errorf("%+v", a)
	}
	for name, c := range map[string]struct {
		o     SRDOptions
		class error
		words string
	}{
		"unsolicited":   {SRDOptions{Unsolicited: true}, ErrUnsupported, "unsolicited"},
		"inline writes": {SRDOptions{InlineWrite: true}, ErrUnsupported, "no writes"},
		"depth":         {SRDOptions{MaxSend: a.MaxSend + 1}, errInvalid, "MaxSend"},
		"receives":      {SRDOptions{MaxRecv: a.MaxRecv/2 + 1, MaxRecvSGE: 2}, errInvalid, "MaxRecv"},
		"buffers":       {SRDOptions{MaxSendSGE: 3}, errInvalid, "MaxSendSGE"},
		"inline":        {SRDOptions{MaxInline: 33}, errInvalid, "MaxInline"},
		"negative":      {SRDOptions{MaxSend: -1}, errInvalid, "MaxSend"},
		"half a pair":   {SRDOptions{RecvCQ: must[*CQ](t)(plain.CreateCQ(CQOptions{}))}, errInvalid, "RecvCQ without CQ"},
		"another's PD":  {SRDOptions{PD: must[*PD](t)(two.AllocPD())}, errInvalid, "another device"},
	} {
		t.Run(name, func(t *testing.T) {
			before := Live()
			_, err := plain.CreateSRD(c.o)
			refused(t, err, c.class, c.words)
			for kind, n := range Live() {
				if n != before[kind] && kind != "pd" {
					t.Errorf("%d objects of kind %s are left of a failed creation", n-before[kind], kind)
				}
			}
		})
	}
	_, err = plain.CreateCounter(CounterOptions{})
	refused(t, err, ErrUnsupported)
	pd, err := plain.PD()
	if err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	_, err = pd.RegisterDMABuf(int(from.Fd()), 0, 4096, 0, LocalWrite)
	refused(t, err, ErrUnsupported, "can map")
	_, err = plain.Register(nil, LocalWrite)
	refused(t, err, errInvalid, "one byte")
	_, err = plain.CreateCQ(CQOptions{Depth: 1 << 20})
	refused(t, err, errInvalid, "limit")
	_, err = plain.CreateCQ(CQOptions{Unsolicited: true})
	refused(t, err, ErrUnsupported, "UNSOLICITED_WRITE_RECV")
	_, err = plain.CreateCQ(CQOptions{Memory: &CQMemory{}})
	refused(t, err, ErrUnsupported, "DMABUF")
	mr := must[*MR](t)(plain.Register(memory(t, 4096), LocalWrite))
	if ic, err := mr.Interconnects(); err != nil || ic.Valid != 0 {
		t.Errorf("interconnects %+v, %v", ic, err)
	}
}

// A queue pair's number comes back; completions of the old one are not the new
// one's.
func TestAnOldEndpointsCompletionsAreNobodys(t *testing.T) {
	dev := must[*Device](t)(Embedded(fabric(t, device.FabricOptions{}), device.Options{MaxQPs: 1, Caps: wire.CapRDMAWrite | wire.CapRDMARead}))
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{Depth: 1024}))
	mr := must[*MR](t)(dev.Register(memory(t, 4096), allAccess))
	ah := must[*AH](t)(dev.CreateAH(dev.Attr().GID))
	for range 300 {
		ep, err := dev.CreateSRD(SRDOptions{CQ: cq, MaxSend: 4, MaxRecv: 4})
		if err != nil {
			t.Fatal(err)
		}
		b := ep.Batch()
		b.Write(ah.To(ep.QPN(), ep.Address().QKey), mr.At(0, 8), mr.Remote().At(8), 1)
		post(t, b)
		eventually(t, func() error {
			if !cq.ring.isNew(cq.ring.at) {
				return errors.New("no completion came")
			}
			return nil
		})
		if err := ep.Close(); err != nil {
			t.Fatal(err)
		}
		var c [4]Completion
		if n, err := cq.Poll(c[:]); n != 0 || err != nil {
			t.Fatalf("%+v, %v", c[:n], err)
		}
	}
	if n := cq.Stray(); n != 300 {
		t.Errorf("%d strays, want 300", n)
	}
}
