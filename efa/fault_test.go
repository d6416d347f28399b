package efa

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/efa/wire"
)

func TestWhatCannotBeRightIsNotPosted(t *testing.T) {
	s := embeddedPairOf(t, 4096, device.FabricOptions{}, device.Options{MaxRDMASize: 2048}, [2]SRDOptions{})
	a, z := s[0], s[1]
	closedMR, err := a.dev.Register(memory(t, 64), LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := a.dev.CreateAH(GID{15: 1})
	if err != nil {
		t.Fatal(err)
	}
	to := gone.To(1, 1)
	for _, c := range []interface{ Close() error }{closedMR, gone, gone} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ok, there := a.mr.At(0, 8), z.remote().At(0)
	for name, c := range map[string]struct {
		add   func()
		class error
		words string
	}{
		"outside the region":        {func() { a.b.Write(a.peer, a.mr.At(4090, 8), there, 1) }, ErrRange, "not in its region"},
		"an offset that wraps":      {func() { a.b.Write(a.peer, a.mr.At(^uint64(0), 8), there, 1) }, ErrRange, "not in its region"},
		"a closed region":           {func() { a.b.Read(a.peer, closedMR.At(0, 8), there, 1) }, ErrRange, "closed"},
		"over the remote region":    {func() { a.b.Write(a.peer, ok, z.remote().At(4090), 1) }, ErrRange, "has 6 from there on"},
		"outside the remote region": {func() { a.b.Write(a.peer, ok, z.remote().At(5000), 1) }, ErrRange, "has 0"},
		"over max_rdma_size":        {func() { a.b.Write(a.peer, a.mr.At(0, 2049), there, 1) }, ErrRange, "max_rdma_size"},
		"a send outside":            {func() { a.b.Send(a.peer, a.mr.At(4096, 1), 1) }, ErrRange, "not in its region"},
		"too many buffers":          {func() { a.b.SendV(a.peer, []Slice{ok, ok}, 1) }, ErrRange, "MaxSendSGE"},
		"inline without room":       {func() { a.b.SendInline(a.peer, []byte{1}, 1) }, ErrRange, "MaxInline"},
		"inline write":              {func() { a.b.WriteInline(a.peer, nil, there, 1) }, ErrUnsupported, "InlineWrite"},
		"a closed handle":           {func() { a.b.Write(to, ok, there, 1) }, ErrClosed, "address handle"},
	} {
		t.Run(name, func(t *testing.T) {
			a.b.Write(a.peer, ok, there, 1)
			c.add()
			a.b.Write(a.peer, ok, there, 2)
			err := a.b.Post()
			refused(t, err, c.class, c.words, "nothing was posted", a.dev.Name())
			var pe *PostError
			if !errors.As(err, &pe) || pe.Posted != 0 || a.b.Len() != 0 {
				t.Errorf("%v, %d left in the batch", err, a.b.Len())
			}
			nothing(t, a)
			// The batch and the queue are as before.
			a.b.Write(a.peer, ok, there, 3)
			post(t, a.b)
			if c := complete(t, a.ep, 1)[0]; c.Err() != nil || c.ID != 3 {
				t.Errorf("afterwards: %+v", c)
			}
		})
	}
}

func TestFullQueuesRefuseAndRecover(t *testing.T) {
	s := embeddedPair(t, 4096, SRDOptions{MaxSend: 8, MaxRecv: 8})
	a, z := s[0], s[1]
	local, remote := a.mr.At(0, 8), z.remote().At(0)
	for range a.ep.MaxSend() + 1 {
		a.b.Write(a.peer, local, remote, 1)
	}
	refused(t, a.b.Post(), ErrQueueFull, "8 requests")
	for round := range 5 {
		if n := a.ep.Room(); n != 8 {
			t.Fatalf("room for %d", n)
		}
		for i := range 8 {
			a.b.Write(a.peer, local, remote, uint64(i))
		}
		post(t, a.b)
		a.b.Write(a.peer, local, remote, 99)
		refused(t, a.b.Post(), ErrQueueFull, "poll completions first")
		if n := a.ep.Room(); n != 0 {
			t.Fatalf("round %d: room for %d in a full queue", round, n)
		}
		complete(t, a.ep, 8)
	}
	z.receive(t, 8, 0, 8, 0)
	z.r.Recv(z.mr.At(0, 8), 9)
	refused(t, z.r.Post(), ErrQueueFull)
	for range 9 {
		z.r.Recv(z.mr.At(0, 8), 9)
	}
	refused(t, z.r.Post(), ErrQueueFull, "8 receives")
	for range 8 {
		a.b.Send(a.peer, local, 1)
	}
	post(t, a.b)
	complete(t, z.ep, 8)
	z.receive(t, 8, 0, 8, 0)
	complete(t, a.ep, 8)
}

func TestWhatTheDeviceRefusesCompletesWithItsStatus(t *testing.T) {
	s := embeddedPairOf(t, 65536, device.FabricOptions{}, device.Options{PeerTimeout: 100 * time.Millisecond}, [2]SRDOptions{})
	a, z := s[0], s[1]
	readOnly := must[*MR](t)(z.dev.Register(memory(t, 4096), RemoteRead))
	writeOnly := must[*MR](t)(z.dev.Register(memory(t, 4096), RemoteWrite))
	noLocal := must[*MR](t)(a.dev.Register(memory(t, 4096), RemoteRead))
	nobody := must[*AH](t)(a.dev.CreateAH(GID{0: 0xfe, 1: 0x80, 15: 9})).To(1, 1)
	ok, there := a.mr.At(0, 8), z.remote().At(0)
	bad := ok
	bad.LKey ^= 0x10000
	far := there
	far.RKey++
	past := z.remote()
	past.Length += 100
	for name, c := range map[string]struct {
		add  func()
		want Status
	}{
		"a wrong local key":     {func() { a.b.Write(a.peer, bad, there, 1) }, StatusInvalidLKey},
		"a wrong remote key":    {func() { a.b.Write(a.peer, ok, far, 1) }, StatusRemoteAddress},
		"past the remote end":   {func() { a.b.Write(a.peer, a.mr.At(0, 50), past.At(65536-10), 1) }, StatusRemoteAddress},
		"write where read only": {func() { a.b.Write(a.peer, ok, readOnly.Remote().At(0), 1) }, StatusRemoteAddress},
		"read where write only": {func() { a.b.Read(a.peer, ok, writeOnly.Remote().At(0), 1) }, StatusRemoteAddress},
		"read into read only":   {func() { a.b.Read(a.peer, noLocal.At(0, 8), there, 1) }, StatusInvalidLKey},
		"a send over the MTU":   {func() { a.b.Send(a.peer, a.mr.At(0, uint32(a.dev.Attr().MTU)+1), 1) }, StatusBadLength},
		"no such endpoint":      {func() { a.b.Write(a.peer.AH().To(a.peer.QPN()+1, 5), ok, there, 1) }, StatusRemoteBadQPN},
		"nobody there":          {func() { a.b.Write(nobody, ok, there, 1) }, StatusUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			c.add()
			post(t, a.b)
			got := complete(t, a.ep, 1)[0]
			var ce *CompletionError
			if got.Status != c.want || got.ID != 1 || !errors.As(got.Err(), &ce) || ce.Status != c.want {
				t.Fatalf("%+v, want %v", got, c.want)
			}
			// An error of one request does not stop the endpoint.
			a.b.Write(a.peer, ok, there, 2)
			post(t, a.b)
			if c := complete(t, a.ep, 1)[0]; c.Err() != nil || c.ID != 2 {
				t.Errorf("afterwards: %+v", c)
			}
		})
	}
}

func TestATargetThatDoesNotKnowTheInitiatorRefusesRDMA(t *testing.T) {
	s := embeddedPair(t, 4096, SRDOptions{})
	a, z := s[0], s[1]
	if err := z.peer.AH().Close(); err != nil {
		t.Fatal(err)
	}
	a.b.Write(a.peer, a.mr.At(0, 8), z.remote().At(0), 1)
	post(t, a.b)
	if c := complete(t, a.ep, 1)[0]; c.Status != StatusUnknownPeer {
		t.Errorf("%+v", c)
	}
}

// ended counts how often each id completed.
func ended(t *testing.T, q interface {
	Poll([]Completion) (int, error)
}, n int) map[Status]int {
	t.Helper()
	seen, by := map[uint64]bool{}, map[Status]int{}
	for _, c := range complete(t, q, n) {
		if seen[c.ID] {
			t.Fatalf("request %d completed twice", c.ID)
		}
		seen[c.ID] = true
		by[c.Status]++
	}
	return by
}

func TestAFailedEndpointFlushesEverythingOnce(t *testing.T) {
	for _, p := range profiles[:2] {
		t.Run(p.name, func(t *testing.T) {
			o := SRDOptions{MaxSend: 256, MaxRecv: 64}
			s := embeddedPairOf(t, 1<<20, device.FabricOptions{Seed: 5}, p.dev, [2]SRDOptions{o, o})
			a, z := s[0], s[1]
			a.receive(t, 64, 0, 64, 1000)
			for i := range 256 {
				if i%2 == 0 {
					a.b.Write(a.peer, a.mr.At(0, 1<<20), z.remote().At(0), uint64(i))
				} else {
					a.b.Send(a.peer, a.mr.At(0, 8), uint64(i)) // nobody receives
				}
			}
			post(t, a.b)
			if err := a.ep.Fail(); err != nil {
				t.Fatal(err)
			}
			by := ended(t, a.ep, 256+64)
			t.Logf("ended as %v", by)
			if by[StatusFlushed] < 64+128 {
				t.Errorf("%d flushed, the receives and unreceived sends are %d", by[StatusFlushed], 64+128)
			}
			nothing(t, a)
			if st, err := a.ep.State(); st != StateError || err != nil {
				t.Errorf("state %v, %v", st, err)
			}
			a.b.Write(a.peer, a.mr.At(0, 8), z.remote().At(0), 1)
			refused(t, a.b.Post(), ErrState, "close it")
			a.r.Recv(a.mr.At(0, 8), 1)
			refused(t, a.r.Post(), ErrState)
			if !errors.Is((&Completion{Status: StatusFlushed}).Err(), ErrFlushed) {
				t.Error("a flushed request is not ErrFlushed")
			}
		})
	}
}

func TestAHandleClosedInFlight(t *testing.T) {
	s := embeddedPair(t, 1<<22, SRDOptions{})
	a, z := s[0], s[1]
	ah, err := a.dev.CreateAH(GID{0: 0xfe, 1: 0x80, 15: 9})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		a.b.Write(ah.To(1, 1), a.mr.At(0, 1<<20), z.remote().At(0), uint64(i))
		a.b.Write(a.peer, a.mr.At(0, 1<<12), z.remote().At(0), uint64(100+i))
	}
	post(t, a.b)
	if err := ah.Close(); err != nil {
		t.Fatal(err)
	}
	by := ended(t, a.ep, 128)
	if by[StatusInvalidAH] != 64 || by[StatusOK] != 64 {
		t.Errorf("ended as %v, want half invalid handles", by)
	}
}

func TestIDsAndRingsWrap(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			o := p.ep
			o.MaxSend, o.MaxRecv = 4, 4
			s := embeddedPairOf(t, 4096, device.FabricOptions{Seed: 7}, p.dev, [2]SRDOptions{o, o})
			a, z := s[0], s[1]
			rng := rand.New(rand.NewPCG(1, 2))
			total, next := 70_000, uint64(0) // past the 16-bit counters
			if testing.Short() {
				total = 5_000
			}
			open := map[uint64]bool{}
			out := make([]Completion, 3)
			for done := 0; done < total; {
				n := rng.IntN(a.ep.Room() + 1)
				for range n {
					id := next<<17 | 1<<60 // too long for 16 bits
					next++
					open[id] = true
					a.b.Write(a.peer, a.mr.At(uint64(rng.IntN(8)), 8), z.remote().At(0), id)
				}
				post(t, a.b)
				k, err := a.ep.Poll(out[:1+rng.IntN(3)])
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range out[:k] {
					if c.Err() != nil || !open[c.ID] {
						t.Fatalf("%+v", c)
					}
					delete(open, c.ID)
				}
				done += k
			}
			complete(t, a.ep, len(open))
			nothing(t, a)
		})
	}
}

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
			if mr[k], err = d.Register(memory(t, 1<<20), allAccess); err != nil {
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
				b.Write(to[k], mr[k].At(0, 1<<20), mr[1-k].Remote().At(0), 1)
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
	_, err = pd.RegisterDMABuf(0, 0, 4096, 0, LocalWrite)
	refused(t, err, ErrUnsupported, "map the dma-buf")
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
