package efa

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/device"
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
			if testing.Short() || p.ep.MaxInline > 0 {
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
				if k == 0 {
					runtime.Gosched()
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
