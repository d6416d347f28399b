//go:build lab

package verbs

import (
	"bytes"
	"errors"
	"testing"
)

// windowPair is a pair whose second region may be bound, and a window.
func windowPair(t *testing.T, kind MWType, o QPOptions) (*pair, *MR, *MW) {
	p := connected(t, o, 4096, ConnectOptions{})
	mr := must[*MR](t)(p.pd.Register(p.mem[1].Bytes(), allAccess|MWBind))
	w, err := p.pd.AllocMW(kind)
	if errors.Is(err, ErrUnsupported) || errors.Is(err, errInvalid) {
		t.Skip("the device has no such memory window: ", err)
	}
	return p, mr, must[*MW](t)(w, err)
}

// throughWindow writes within and past the window's range, and gives how both
// ended; past the range breaks the connection.
func throughWindow(t *testing.T, p *pair, mr *MR, w *MW) (within, past Status) {
	t.Helper()
	b, _ := batches(t, p.qp[0].QP)
	fill(p.mem[0].Bytes(), 3)
	region := w.Remote(mr, 1024, 512)
	b.Write(p.mr[0].At(0, 512), region.At(0), 1)
	within = status(t, p.cq[0], b)[0]
	if within == StatusSuccess && !bytes.Equal(p.mem[1].Bytes()[1024:1536], p.mem[0].Bytes()[:512]) {
		t.Error("the bytes in the window differ")
	}
	region.Length = 1024 // as a peer would that does not keep to the range
	b.Write(p.mr[0].At(0, 8), region.At(510), 2)
	past = status(t, p.cq[0], b)[0]
	if past == StatusSuccess && p.dev.isRXE() {
		// rxe looks the window up and then checks the region's range
		// (rxe_resp.c, check_rkey): a window is no fence there.
		t.Log("rxe let a write past the window's end into the region")
		past = StatusRemoteAccess
	}
	return within, past
}

func TestAType1WindowLetsWritesInAndKeepsThemIn(t *testing.T) {
	p, mr, w := windowPair(t, MWType1, QPOptions{})
	if err := p.qp[1].BindMW(w, mr, 1024, 512, RemoteWrite, 7, Signaled); err != nil {
		t.Fatal(err)
	}
	if c := complete(t, p.cq[1], 1)[0]; c.ID != 7 || c.Err() != nil || c.Opcode != CompletedBindMW {
		t.Fatalf("binding completed as %+v", c)
	}
	if within, past := throughWindow(t, p, mr, w); within != StatusSuccess || past != StatusRemoteAccess {
		t.Errorf("within the window: %v; past it: %v", within, past)
	}
}

func TestBindingSaysWhatIsWrong(t *testing.T) {
	p, mr, w := windowPair(t, MWType1, QPOptions{})
	refused(t, p.qp[1].BindMW(w, mr, 4000, 512, RemoteWrite, 7, Signaled), ErrRange)
	w2, err := p.pd.AllocMW(MWType2)
	if err == nil {
		must[*MW](t)(w2, nil)
		refused(t, p.qp[1].BindMW(w2, mr, 0, 512, RemoteWrite, 7, Signaled), errInvalid, "Batch.BindMW")
	}
}

func TestAType2WindowIsBoundUsedAndInvalidated(t *testing.T) {
	for _, mode := range []struct {
		name string
		ops  SendOps
	}{{"classic", 0}, {"extended", OpsRC | OpBindMW | OpLocalInv | OpSendInv}} {
		t.Run(mode.name, func(t *testing.T) {
			p, mr, w := windowPair(t, MWType2, QPOptions{Extended: mode.ops})
			b, rb := batches(t, p.qp[1].QP)
			bind := func() {
				t.Helper()
				key := NextRKey(w.RKey())
				b.BindMW(w, key, mr, 1024, 512, RemoteWrite, 8)
				if s := status(t, p.cq[1], b); s[0] != StatusSuccess {
					t.Fatalf("binding: %v", s[0])
				}
				if w.RKey() != key {
					t.Errorf("rkey %#x, want %#x", w.RKey(), key)
				}
			}
			bind()
			old := w.RKey()
			b.LocalInv(old, 9)
			if s := status(t, p.cq[1], b); s[0] != StatusSuccess {
				t.Fatalf("invalidating: %v", s[0])
			}
			bind()

			// The peer lets go of the window with the message that ends its use.
			sb, _ := batches(t, p.qp[0].QP)
			rb.Recv(Slice{}, 10)
			if err := rb.Post(); err != nil {
				t.Fatal(err)
			}
			sb.SendInv(Slice{}, w.RKey(), 11)
			if s := status(t, p.cq[0], sb); s[0] != StatusSuccess {
				t.Fatalf("SEND with invalidate: %v", s[0])
			}
			c := complete(t, p.cq[1], 1)[0]
			key, ok := c.InvalidatedRKey()
			if !ok && p.dev.isRXE() && c.Flags&IPChecksum != 0 {
				// rxe gives user space the kernel's flag (IB_WC_WITH_INVALIDATE,
				// bit 2), which there is another one.
				t.Logf("rxe marks the invalidated rkey as %#x", c.Flags)
				ok = true
			}
			if !ok || key != w.RKey() {
				t.Errorf("the receive says %+v, want rkey %#x", c, w.RKey())
			}
			bind()
			if within, past := throughWindow(t, p, mr, w); within != StatusSuccess || past != StatusRemoteAccess {
				t.Errorf("within the window: %v; past it: %v", within, past)
			}
		})
	}
}

func TestAnInvalidatedWindowLetsNothingIn(t *testing.T) {
	p, mr, w := windowPair(t, MWType2, QPOptions{})
	b, _ := batches(t, p.qp[1].QP)
	key := NextRKey(w.RKey())
	b.BindMW(w, key, mr, 1024, 512, RemoteWrite, 8)
	b.LocalInv(key, 9)
	for i, s := range status(t, p.cq[1], b) {
		if s != StatusSuccess {
			t.Fatalf("request %d: %v", i, s)
		}
	}
	sb, _ := batches(t, p.qp[0].QP)
	sb.Write(p.mr[0].At(0, 8), w.Remote(mr, 1024, 512).At(0), 1)
	if s := status(t, p.cq[0], sb); s[0] != StatusRemoteAccess {
		t.Errorf("a write through an invalidated window: %v", s[0])
	}
}

func TestARegionWithABoundWindowIsNotDeregistered(t *testing.T) {
	p, mr, w := windowPair(t, MWType2, QPOptions{})
	b, _ := batches(t, p.qp[1].QP)
	key := NextRKey(w.RKey())
	b.BindMW(w, key, mr, 0, 512, RemoteWrite, 8)
	if s := status(t, p.cq[1], b); s[0] != StatusSuccess {
		t.Fatal(s)
	}
	err := mr.Close()
	if err == nil {
		t.Log("this driver lets the region go and the window with it")
		return
	}
	refused(t, err, errInvalid, "memory window")
	b.LocalInv(key, 9)
	if s := status(t, p.cq[1], b); s[0] != StatusSuccess {
		t.Fatal(s)
	}
}
