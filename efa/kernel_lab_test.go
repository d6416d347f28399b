//go:build lab

package efa

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// labDevices are the EFA devices of the lab's guest, which names them in the
// environment.
func labDevices(t testing.TB) []string {
	t.Helper()
	names := strings.Split(os.Getenv("PEERDIRECT_EFA"), ",")
	if names[0] == "" {
		t.Skip("needs a guest with an EFA device: peerdirect lab run --efa 1")
	}
	return names
}

// labDevice opens a device; at the end nothing of the test's is left.
func labDevice(t testing.TB, name string, o OpenOptions) *Device {
	t.Helper()
	timer := time.AfterFunc(3*time.Minute, func() {
		debug.SetTraceback("all")
		panic(t.Name() + " hangs")
	})
	before := Live()
	dev, err := OpenWith(name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		timer.Stop()
		if err := dev.Close(); err != nil {
			t.Errorf("closing the device: %v", err)
		}
		if before["device"] > 0 {
			return // another is open, with what it has made since
		}
		for kind, n := range Live() {
			t.Errorf("%d objects of kind %s are left", n, kind)
		}
	})
	return dev
}

// paths are both ways of driving a device. The direct one is skipped, by the
// reason that the device gives, where the library or the device is not made for
// it.
func paths(t *testing.T, f func(t *testing.T, o OpenOptions)) {
	t.Run("direct", func(t *testing.T) {
		dev := labDevice(t, labDevices(t)[0], OpenOptions{})
		if p := dev.Path(); !p.Direct {
			t.Skipf("needs the direct path: %s", p.Reason)
		}
		f(t, OpenOptions{})
	})
	t.Run("library", func(t *testing.T) { f(t, OpenOptions{Library: true}) })
}

// labPair is a pair on the guest's first device, or on the first two.
func labPair(t *testing.T, size int, o OpenOptions, so SRDOptions) [2]*side {
	t.Helper()
	names := labDevices(t)
	devs := [2]*Device{labDevice(t, names[0], o), nil}
	devs[1] = devs[0]
	if len(names) > 1 {
		devs[1] = labDevice(t, names[1], o)
	}
	return pairOn(t, devs, size, [2]SRDOptions{so, so})
}

func TestEFAOpens(t *testing.T) {
	names := labDevices(t)
	all, err := Devices()
	if err != nil || len(all) != len(names) {
		t.Errorf("devices %v, %v; the lab says %v", all, err, names)
	}
	dev := labDevice(t, names[0], OpenOptions{})
	a := dev.Attr()
	t.Logf("%s: %+v, %v", dev.Name(), a, dev.Path())
	if a.MTU == 0 || a.GID.IsZero() || a.MaxSend == 0 || a.MaxRDMA == 0 || a.Part < 0xefa0 || a.Part > 0xefaf || dev.Device() != nil {
		t.Errorf("attributes %+v", a)
	}
	// The number of sub-CQs is found from a mapping's size; Linux's driver and
	// libefa know two on 0xefa0 alone.
	want := 1
	if a.Part == 0xefa0 {
		want = 2
	}
	if n, err := dev.ctl.(*kernel).subCQs(); dvHasRings() && (n != want || err != nil) {
		t.Errorf("%d sub-CQs, %v; want %d", n, err, want)
	}
	_, err = Open("no_such")
	refused(t, err, ErrNoDevice, "no_such", names[0])
	if len(names) > 1 {
		_, err = Open("")
		refused(t, err, errInvalid, "name one")
	}
	lib := labDevice(t, names[0], OpenOptions{Library: true})
	if p := lib.Path(); p.Direct || p.String() != "ibv_wr: asked for" {
		t.Errorf("path %v", p)
	}
}

func TestEFAOperations(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		for _, p := range []struct {
			name string
			o    SRDOptions
		}{
			{"64-byte entries", SRDOptions{MaxSend: 16, MaxRecv: 16, MaxSendSGE: 2}},
			{"128-byte entries", SRDOptions{MaxSend: 16, MaxRecv: 16, MaxSendSGE: 2, MaxInline: 80, InlineWrite: true}},
		} {
			t.Run(p.name, func(t *testing.T) {
				dev := labDevice(t, labDevices(t)[0], o)
				if a := dev.Attr(); p.o.MaxInline > max(a.MaxInline, a.MaxInlineEx) || p.o.InlineWrite && a.Caps&CapWrite == 0 {
					t.Skipf("needs what the device or the library lacks: they have %d inline bytes, capabilities %v", max(a.MaxInline, a.MaxInlineEx), a.Caps)
				}
				s := labPair(t, 1<<20, o, p.o)
				if s[0].ep.Path().Direct == o.Library {
					t.Fatalf("path %v", s[0].ep.Path())
				}
				operations(t, s, p.o)
			})
		}
	})
}

func TestEFAErrorsAndFlush(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		so := SRDOptions{MaxSend: 64, MaxRecv: 32}
		s := labPair(t, 1<<16, o, so)
		a, z := s[0], s[1]
		if a.dev.Attr().Caps&CapRead != 0 {
			far := z.remote().At(0)
			far.RKey ^= 0x10000
			a.b.Read(a.peer, a.mr.At(0, 8), far, 5)
			post(t, a.b)
			if c := complete(t, a.ep, 1)[0]; c.Status != StatusRemoteAddress || c.ID != 5 {
				t.Errorf("a wrong remote key: %+v", c)
			}
		}
		bad := a.mr.At(0, 8)
		bad.LKey ^= 0x10000
		a.b.Send(a.peer, bad, 6)
		post(t, a.b)
		if c := complete(t, a.ep, 1)[0]; c.Status != StatusInvalidLKey {
			t.Errorf("a wrong local key: %+v", c)
		}
		a.receive(t, 32, 0, 64, 1000)
		for i := range 64 {
			a.b.Send(a.peer, a.mr.At(0, 8), uint64(i)) // nobody receives
		}
		post(t, a.b)
		if err := a.ep.Fail(); err != nil {
			t.Fatal(err)
		}
		if by := ended(t, a.ep, 64+32); by[StatusFlushed] < 32 {
			t.Errorf("ended as %v", by)
		}
		if st, err := a.ep.State(); st != StateError || err != nil {
			t.Errorf("state %v, %v", st, err)
		}
		a.b.Send(a.peer, a.mr.At(0, 8), 1)
		if a.b.Post() == nil {
			t.Error("an endpoint in error takes requests")
		}
	})
}

func TestEFAWraps(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		s := labPair(t, 4096, o, SRDOptions{MaxSend: 16, MaxRecv: 16})
		a, z := s[0], s[1]
		next := uint64(0)
		out := make([]Completion, 64)
		for round := range 300 {
			n := 1 + round%16
			z.receive(t, n, 64, 64, 1<<20)
			for range n {
				a.b.Send(a.peer, a.mr.At(0, 8), next)
				next++
			}
			post(t, a.b)
			sum := uint64(0)
			for _, c := range append(complete(t, a.ep, n), complete(t, z.ep, n)...) {
				if c.Err() != nil {
					t.Fatalf("round %d: %+v", round, c)
				}
				if c.Op == OpSend {
					sum += c.ID
				}
			}
			if want := uint64(n) * (2*next - uint64(n) - 1) / 2; sum != want {
				t.Fatalf("round %d: ids add up to %d, want %d", round, sum, want)
			}
		}
		if n, _ := a.ep.Poll(out); n != 0 {
			t.Errorf("%d completions too many", n)
		}
	})
}

func TestEFAWaits(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		s := labPair(t, 4096, o, SRDOptions{Notify: true})
		a, z := s[0], s[1]
		short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := z.ep.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waiting for nothing: %v", err)
		}
		for i := range 50 {
			z.receive(t, 1, 0, 64, uint64(i))
			go func() {
				time.Sleep(time.Duration(i%3) * time.Millisecond)
				a.b.Send(a.peer, a.mr.At(0, 8), uint64(i))
				if err := a.b.Post(); err != nil {
					t.Error(err)
				}
			}()
			for _, e := range []*Endpoint{z.ep, a.ep} {
				if err := e.Wait(within(t, patience)); err != nil {
					t.Fatalf("round %d: %v", i, err)
				}
				if c := complete(t, e, 1)[0]; c.Err() != nil || c.ID != uint64(i) {
					t.Fatalf("round %d: %+v", i, c)
				}
			}
		}
	})
}

func TestEFADatagrams(t *testing.T) {
	paths(t, func(t *testing.T, o OpenOptions) {
		dev := labDevice(t, labDevices(t)[0], o)
		a := must[*Endpoint](t)(dev.CreateUD(UDOptions{}))
		z := must[*Endpoint](t)(dev.CreateUD(UDOptions{}))
		mem := memoryFor(t, dev, 4096)
		mr := must[*MR](t)(dev.Register(mem, LocalWrite))
		r, b := z.RecvBatch(), a.Batch()
		t.Cleanup(r.Close)
		t.Cleanup(b.Close)
		r.Recv(mr.At(1024, 512), 5)
		post(t, r)
		to := must[*AH](t)(dev.CreateAH(dev.Attr().GID)).To(z.QPN(), z.Address().QKey)
		b.SendImm(to, mr.At(0, 100), 77, 6)
		post(t, b)
		if c := complete(t, a, 1)[0]; c.Err() != nil || c.ID != 6 {
			t.Fatalf("%+v", c)
		}
		if c := complete(t, z, 1)[0]; c.Err() != nil || c.ID != 5 || c.Imm != 77 || c.SrcQPN != a.QPN() {
			t.Fatalf("%+v", c)
		}
	})
}

// What libefa, the kernel or the device lacks is ErrUnsupported and says so;
// what they have works.
func TestEFACapabilities(t *testing.T) {
	dev := labDevice(t, labDevices(t)[0], OpenOptions{})
	a := dev.Attr()
	mr := must[*MR](t)(dev.Register(memoryFor(t, dev, 4096), LocalWrite))
	has := func(what string, err error) bool {
		t.Helper()
		if err == nil {
			t.Logf("%s: there", what)
			return true
		}
		refused(t, err, ErrUnsupported, dev.Name())
		t.Logf("%s: %v", what, err)
		return false
	}
	ic, err := mr.Interconnects()
	has(fmt.Sprintf("interconnects %+v", ic), err)
	for name, o := range map[string]SRDOptions{
		"unsolicited writes": {Unsolicited: true},
		"inline writes":      {InlineWrite: true, MaxInline: 16},
		"service level":      {ServiceLevel: 8},
		"hints":              {Hints: true},
		"senders' GIDs":      {SGID: true},
	} {
		ep, err := dev.CreateSRD(o)
		if has(name, err) {
			if o.Hints {
				b := ep.Batch()
				b.Hint()
				b.Close()
			}
			if err := ep.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	c, err := dev.CreateCounter(CounterOptions{})
	if has("counters", err) {
		if a.Caps&CapCounters == 0 {
			t.Error("a counter without the capability")
		}
		if _, _, err := c.Read(); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	_, err = dev.CreateSRD(SRDOptions{MaxSend: a.MaxSend + 1})
	refused(t, err, errInvalid, "MaxSend")
	pd, err := dev.PD()
	if err != nil {
		t.Fatal(err)
	}
	_, err = pd.RegisterDMABuf(-1, 0, 4096, 0, LocalWrite)
	if !errors.Is(err, unix.EBADF) && !errors.Is(err, ErrUnsupported) {
		t.Errorf("a dma-buf of no descriptor: %v", err)
	}
}
