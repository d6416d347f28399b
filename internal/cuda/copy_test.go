package cuda

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// need gives contexts on so many GPUs, or skips and names what is missing.
func need(t *testing.T, gpus int) (devices []Device, contexts []Context) {
	t.Helper()
	if err := Start(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	n, err := Devices()
	if err != nil || n < gpus {
		t.Skipf("needs %d NVIDIA GPUs: the driver shows %d, %v", gpus, n, err)
	}
	for i := range gpus {
		d, err := GetDevice(i)
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := d.CreateContext()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ok(t, ctx.Destroy()) })
		devices, contexts = append(devices, d), append(contexts, ctx)
	}
	return devices, contexts
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

// end waits until a stream is done.
func end(t *testing.T, s Stream) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); ; {
		done, err := s.Done(16)
		ok(t, err)
		if done {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the stream does not end")
		}
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// TestStreams: down in one stream, up in another that waits for it, on one GPU.
func TestStreams(t *testing.T) {
	_, ctx := need(t, 1)
	const size = 8<<20 + 3
	c := ctx[0]
	host := must(c.AllocPinned(size))(t)
	mapped := must(unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))(t)
	ok(t, c.Pin(mapped))
	if err := c.Pin(mapped); err == nil {
		t.Error("pinned twice")
	} else {
		t.Log(err)
	}
	from, to := must(c.Alloc(size))(t), must(c.Alloc(size))(t)
	down, up := must(c.NewStream())(t), must(c.NewStream())(t)
	full := must(c.NewEvent())(t)
	want := random(size)
	for _, through := range [][]byte{host, mapped[:size]} {
		ok(t, c.CopyToDevice(from, want))
		ok(t, up.Wait(full)) // never recorded, or long passed
		ok(t, up.Fill(to, 0xa5, size))
		ok(t, down.CopyToHost(through, from))
		ok(t, full.Record(down))
		ok(t, up.Wait(full))
		ok(t, up.CopyToDevice(to, through))
		end(t, up)
		end(t, down)
		got := make([]byte, size)
		ok(t, c.CopyToHost(got, to))
		if !bytes.Equal(got, want) {
			t.Error("bytes differ")
		}
		ok(t, up.Fill(to+1, 7, 2))
		end(t, up)
		ok(t, c.CopyToHost(got[:4], to))
		if !bytes.Equal(got[:4], []byte{want[0], 7, 7, want[3]}) {
			t.Errorf("filled %v", got[:4])
		}
	}
	ok(t, full.Destroy())
	ok(t, down.Destroy())
	ok(t, up.Destroy())
	ok(t, c.Free(from))
	ok(t, c.Free(to))
	ok(t, c.Unpin(mapped))
	ok(t, unix.Munmap(mapped))
	ok(t, c.FreePinned(host))
}

// TestPeers: between two GPUs, without access and with it, by either's stream.
func TestPeers(t *testing.T) {
	d, ctx := need(t, 2)
	can := must(d[0].CanAccess(d[1]))(t)
	self, err := d[0].CanAccess(d[0])
	t.Logf("reaches its peer: %v; itself: %v, %v", can, self, err)
	for _, a := range []PeerAttribute{PeerRank, 2, PeerAtomics, 4} {
		v, err := d[0].PeerAttribute(a, d[1])
		t.Logf("attribute %d of the link: %d, %v", a, v, err)
	}
	const size = 4<<20 + 1
	from, to := must(ctx[0].Alloc(size))(t), must(ctx[1].Alloc(size))(t)
	streams := []Stream{must(ctx[0].NewStream())(t), must(ctx[1].NewStream())(t)}
	want := random(size)
	ok(t, ctx[0].CopyToDevice(from, want))
	for _, access := range []bool{false, true} {
		if access {
			if !can {
				t.Skip("needs two GPUs with peer access")
			}
			ok(t, ctx[0].EnablePeer(ctx[1]))
			ok(t, ctx[0].EnablePeer(ctx[1])) // it is so already
			ok(t, ctx[1].EnablePeer(ctx[0]))
		}
		for i, s := range streams {
			ok(t, streams[1].Fill(to, 0xa5, size))
			end(t, streams[1])
			ok(t, s.CopyPeer(to, ctx[1], from, ctx[0], size))
			end(t, s)
			got := make([]byte, size)
			ok(t, ctx[1].CopyToHost(got, to))
			if !bytes.Equal(got, want) {
				t.Errorf("access %v, stream of GPU %d: bytes differ", access, i)
			}
		}
	}
	ok(t, ctx[0].DisablePeer(ctx[1]))
	ok(t, ctx[1].DisablePeer(ctx[0]))
	if err := ctx[0].DisablePeer(ctx[1]); err == nil {
		t.Error("disabled twice")
	} else {
		t.Log(err)
	}
}
