package efa

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerdirect/peerdirect/efa/device"
)

const patience = 20 * time.Second

// fabric is a network for a test; at the end nothing of it is left.
func fabric(t testing.TB, o device.FabricOptions) *device.Fabric {
	t.Helper()
	before, goroutines := Live(), runtime.NumGoroutine()
	f := device.NewFabric(o)
	t.Cleanup(func() {
		f.Close()
		for kind, n := range Live() {
			if n != before[kind] {
				t.Errorf("%d objects of kind %s are left, there were %d", n, kind, before[kind])
			}
		}
		for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines; {
			if time.Now().After(end) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines are left, there were %d:\n%s", runtime.NumGoroutine(), goroutines, buf[:runtime.Stack(buf, true)])
			}
			time.Sleep(time.Millisecond)
		}
	})
	return f
}

// must closes what a test made, in the reverse order of making.
func must[T interface{ Close() error }](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return v
	}
}

// refused checks an error's class, and that its text says what a person needs.
func refused(t testing.TB, err error, class error, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got %v, want %v", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}

// side is one end of a pair: an endpoint with a region and its batches.
type side struct {
	dev  *Device
	ep   *Endpoint
	mem  []byte
	mr   *MR
	peer *Dest // the other end
	b    *Batch
	r    *RecvBatch
}

func (s *side) remote() RemoteRegion { return s.mr.Remote() }

const allAccess = LocalWrite | RemoteWrite | RemoteRead

// accessOf is all that the device can give.
func accessOf(d *Device) Access {
	a := LocalWrite
	if d.Attr().Caps&CapRead != 0 {
		a |= RemoteRead
	}
	if d.Attr().Caps&CapWrite != 0 {
		a |= RemoteWrite
	}
	return a
}

// pairOn makes two endpoints that know each other.
func pairOn(t testing.TB, devs [2]*Device, size int, o [2]SRDOptions) [2]*side {
	t.Helper()
	var s [2]*side
	for i, d := range devs {
		s[i] = &side{dev: d, mem: memoryFor(t, d, size)}
		s[i].mr = must[*MR](t)(d.Register(s[i].mem, accessOf(d)))
		s[i].ep = must[*Endpoint](t)(d.CreateSRD(o[i]))
		s[i].b, s[i].r = s[i].ep.Batch(), s[i].ep.RecvBatch()
		t.Cleanup(s[i].b.Close)
		t.Cleanup(s[i].r.Close)
	}
	for i := range s {
		a := s[1-i].ep.Address()
		s[i].peer = must[*AH](t)(s[i].dev.CreateAH(a.GID)).To(a.QPN, a.QKey)
	}
	return s
}

// embeddedPair is a pair on two devices of one fabric.
func embeddedPair(t testing.TB, size int, o SRDOptions) [2]*side {
	t.Helper()
	return embeddedPairOf(t, size, device.FabricOptions{Seed: 1}, device.Options{}, [2]SRDOptions{o, o})
}

func embeddedPairOf(t testing.TB, size int, fo device.FabricOptions, do device.Options, o [2]SRDOptions) [2]*side {
	t.Helper()
	f := fabric(t, fo)
	var devs [2]*Device
	for i := range devs {
		devs[i] = must[*Device](t)(Embedded(f, do))
	}
	return pairOn(t, devs, size, o)
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*13 + byte(i>>8) + seed
	}
}

// complete polls until n completions came, or fails the test.
func complete(t testing.TB, q interface {
	Poll([]Completion) (int, error)
}, n int) []Completion {
	t.Helper()
	end := time.Now().Add(patience)
	out := make([]Completion, n)
	for got := 0; got < n; {
		k, err := q.Poll(out[got:])
		if err != nil {
			t.Fatal(err)
		}
		if got += k; k == 0 {
			if time.Now().After(end) {
				t.Fatalf("%d of %d completions after %v", got, n, patience)
			}
			runtime.Gosched()
		}
	}
	return out
}

// nothing checks that no completion is left over.
func nothing(t testing.TB, s *side) {
	t.Helper()
	time.Sleep(5 * time.Millisecond)
	var c [1]Completion
	if n, err := s.ep.Poll(c[:]); n != 0 || err != nil {
		t.Errorf("one completion too many: %+v, %v", c[0], err)
	}
	if n := s.ep.CQ().Stray(); n != 0 {
		t.Errorf("%d completions belonged to nobody", n)
	}
}

func post(t testing.TB, b interface{ Post() error }) {
	t.Helper()
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
}

// receive posts receives of size bytes each, from offset on, with ids from id on.
func (s *side) receive(t testing.TB, n, offset, size int, id uint64) {
	t.Helper()
	for i := range n {
		s.r.Recv(s.mr.At(uint64(offset+i*size), uint32(size)), id+uint64(i))
	}
	post(t, s.r)
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// memory is of the Go heap, which the race detector watches and only the
// embedded device takes.
func memory(t testing.TB, size int) []byte { return aligned(size, 4096) }

// memoryFor is memory that the device takes.
func memoryFor(t testing.TB, d *Device, size int) []byte {
	t.Helper()
	if d.Device() != nil {
		return memory(t, size)
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// eventually tries until f has no complaint.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
