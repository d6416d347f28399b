package pages

import (
	"errors"
	"fmt"
	"testing"

	"github.com/peerdirect/peerdirect/transfer"
)

func TestPagesArriveBetweenEmbeddedNodes(t *testing.T) {
	for _, nics := range []int{1, 4} {
		for _, read := range []bool{false, true} {
			for name, c := range map[string]struct {
				o    Options
				what SendOptions
			}{
				"Scattered":  {what: SendOptions{Layout: Layout{PageSize: 64 << 10, Pages: 64, Stride: 2, Seed: 1}, Iterations: 3}},
				"SmallPages": {Options{Batch: 64, Depth: 512}, SendOptions{Layout: Layout{PageSize: 64, Pages: 3000, Stride: 3, Seed: 7}}},
				"Contiguous": {what: SendOptions{Layout: Layout{PageSize: 4096, Pages: 1000, Stride: 1}}},
				"Near":       {Options{Near: true}, SendOptions{Layout: Layout{PageSize: 4096, Pages: 300, Stride: 2, Seed: 1}}},
				"OnePage":    {Options{Batch: 1, Depth: 1}, SendOptions{Layout: Layout{PageSize: 64, Pages: 1, Stride: 1}}},
			} {
				t.Run(fmt.Sprintf("%s/%d/read=%v", name, nics, read), func(t *testing.T) {
					e := embedded(t, transfer.EmbeddedOptions{NICs: nics, Seed: 1})
					c.what.Read = read
					sent, received, err := Inside(t.Context(), e, 1, 0, c.o, c.what, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range []*Result{sent, received} {
						k := r.Conditions
						if !r.Verified || r.Bytes != c.what.Layout.Bytes()*uint64(max(c.what.Iterations, 1)) || r.Seconds <= 0 ||
							k.NICs != nics || k.Transport != "EFA SRD" || !k.Embedded || k.Path != "direct" || len(r.Rails) != nics {
							t.Error(show(r))
						}
					}
					mover, other := sent, received
					if read {
						mover, other = received, sent
					}
					var moved uint64
					for _, x := range mover.Rails {
						moved += x.Bytes
					}
					// The NICs carry the messages, too, with 16 bytes for each.
					if moved < mover.Bytes || moved > mover.Bytes+2*mover.MessagesSent+256 || mover.Latency == nil || other.Latency != nil {
						t.Errorf("%d bytes by the NICs: %s", moved, show(mover))
					}
					if sent.Checksum != received.Checksum || sent.Notices != received.Notices ||
						sent.LinkSent+received.LinkReceived != 0 || sent.ControlSent == 0 || sent.ControlSent > 16<<10 ||
						sent.MessagesSent != received.MessagesReceived || received.MessagesSent != sent.MessagesReceived {
						t.Errorf("%s\n%s", show(sent), show(received))
					}
				})
			}
		}
	}
}

func TestADamagedPageIsNamed(t *testing.T) {
	for _, read := range []bool{false, true} {
		e := embedded(t, transfer.EmbeddedOptions{NICs: 2})
		l := Layout{PageSize: 4096, Pages: 100, Stride: 2, Seed: 3}
		at := l.TargetSlots()(42)*4096 + 1000
		sent, received, err := inside(t.Context(), e, 0, 1, Options{}, SendOptions{Layout: l, Read: read, Iterations: 2},
			ListenOptions{corrupt: func(mem []byte) { mem[at] ^= 4 }}, nil)
		var v *VerifyError
		if !errors.As(err, &v) || !errors.Is(err, ErrVerification) || fmt.Sprint(v.First) != "[42]" {
			t.Errorf("%v", err)
		}
		for _, r := range []*Result{sent, received} {
			if r.BadPages != 1 || r.Verified || r.Iterations != 1 || fmt.Sprint(r.Bad) != "[42]" {
				t.Error(show(r))
			}
		}
		if received.PageOK[42] || !received.PageOK[41] {
			t.Error("the receiver does not know which page it was")
		}
	}
}
