package pages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa"
	"github.com/peerdirect/peerdirect/efa/device"
	"github.com/peerdirect/peerdirect/internal/marker"
	"github.com/peerdirect/peerdirect/transfer"
	"github.com/peerdirect/peerdirect/transfer/control"
)

// TestAPageThatNeverCameIsFound leaves a page of an earlier round in place: its
// bytes are right for their place, and stale.
func TestAPageThatNeverCameIsFound(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	l := Layout{PageSize: 256, Pages: 50, Stride: 2, Seed: 9}
	var first, stale []byte
	slot := l.TargetSlots()(7)
	_, received, err := inside(t.Context(), e, 1, 0, Options{}, SendOptions{Layout: l, Iterations: 2}, ListenOptions{corrupt: func(mem []byte) {
		page := mem[slot*256:][:256]
		if first == nil {
			first = append(first, page...)
			return
		}
		stale = append(stale, page...)
		copy(page, first)
	}}, nil)
	if !errors.Is(err, ErrVerification) || fmt.Sprint(received.Bad) != "[7]" || string(first) == string(stale) {
		t.Errorf("%v", err)
	}
}

func TestWhoeverIsInterruptedTellsTheOther(t *testing.T) {
	for _, side := range []string{RoleSender, RoleReceiver} {
		for _, read := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/read=%v", side, read), func(t *testing.T) {
				e := embedded(t, transfer.EmbeddedOptions{NICs: 2})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				sending, receiving := ctx, context.Background()
				if side == RoleReceiver {
					sending, receiving = receiving, sending
				}
				l := listen(t, open(t, Options{Rail: e.Node(0)}), "127.0.0.1:0", ListenOptions{})
				got := make(chan outcome, 1)
				go func() {
					r, err := l.Receive(receiving)
					got <- outcome{r, err}
				}()
				what := endless
				what.Read = read
				mine := send(sending, open(t, Options{Rail: e.Node(1), Tell: during(cancel)}), l.Addr().String(), what)
				theirs := within(t, time.Minute, got)
				if side == RoleReceiver {
					mine, theirs = theirs, mine
				}
				if !errors.Is(mine.err, ErrCancelled) {
					t.Errorf("the interrupted side: %v", mine.err)
				}
				if theirs.err == nil || !strings.Contains(theirs.err.Error(), ErrCancelled.Error()) || theirs.result == nil || theirs.result.Error == "" {
					t.Errorf("the other side: %v", theirs.err)
				}
			})
		}
	}
}

// TestANICThatGoesSilentIsDoneWithout: of two, the other carries on, the pages are
// verified, and the results say what was lost.
func TestANICThatGoesSilentIsDoneWithout(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{NICs: 2, PeerTimeout: 200 * time.Millisecond})
	var silent *device.Device
	what := SendOptions{Layout: Layout{PageSize: 4096, Pages: 400, Stride: 2, Seed: 2}, Iterations: 4}
	o := Options{Tell: during(func() { silent.Faults().Set(device.FaultPlan{Unresponsive: true}) })}
	sent, received, err := Inside(t.Context(), e, 1, 0, o, what, func(_, receiver *Node) {
		for _, d := range e.Fabric().Devices() {
			if receiver.Rails()[1].GID == efa.GID(d.GID()).String() {
				silent = d
			}
		}
	})
	if err != nil || !sent.Verified || !received.Verified || sent.Iterations != 4 {
		t.Fatalf("%v\n%s\n%s", err, show(sent), show(received))
	}
	if sent.Rails[1].Losses == 0 {
		t.Errorf("%+v", sent.Rails)
	}
}

// TestAFabricThatFallsSilentEndsBothSides, by the engine's own fences and times.
func TestAFabricThatFallsSilentEndsBothSides(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{NICs: 2, PeerTimeout: 100 * time.Millisecond})
	o := Options{Timeout: 5 * time.Second, Tell: during(func() { e.Fabric().Faults().Set(device.FaultPlan{Unresponsive: true}) })}
	sent, received, err := Inside(t.Context(), e, 1, 0, o, endless, nil)
	if err == nil || errors.Is(err, ErrVerification) || sent == nil || received == nil || sent.Error == "" || received.Error == "" {
		t.Errorf("%v\n%s\n%s", err, show(sent), show(received))
	}
}

func TestATransferSurvivesWhatSRDRepairs(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{NICs: 3})
	e.Fabric().Faults().Set(device.FaultPlan{Seed: 9, Loss: 0.02, Duplicate: 0.02, Delay: 0.05, AckLoss: 0.02, RNR: 0.02})
	sent, received, err := Inside(t.Context(), e, 1, 0, Options{}, SendOptions{Layout: Layout{PageSize: 16 << 10, Pages: 200, Stride: 2, Seed: 4}, Iterations: 3}, nil)
	if err != nil || !sent.Verified || !received.Verified || sent.Checksum != received.Checksum {
		t.Errorf("%v\n%s\n%s", err, show(sent), show(received))
	}
	if n := e.Fabric().Faults().Counts().Total(); n < 50 {
		t.Errorf("only %d faults were injected", n)
	}
}

// TestFewerNICsOnOneSide: the smaller number is used.
func TestFewerNICsOnOneSide(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{NICs: 4})
	l := listen(t, open(t, Options{Rail: e.Node(0).(transfer.NICs)[:3]}), "127.0.0.1:0", ListenOptions{})
	got := receive(l)
	sent := send(t.Context(), open(t, Options{Rail: e.Node(1), Workers: 2}), l.Addr().String(), SendOptions{Layout: Layout{PageSize: 4096, Pages: 64, Stride: 2, Seed: 1}})
	r := within(t, time.Minute, got)
	if sent.err != nil || r.err != nil || sent.result.Conditions.NICs != 3 || r.result.Conditions.NICs != 3 || !r.result.Verified {
		t.Errorf("%v, %v\n%s\n%s", sent.err, r.err, show(sent.result), show(r.result))
	}
}

// TestSilenceEnds a transfer whose peer is there.
func TestSilenceEnds(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	l := listen(t, open(t, Options{Rail: e.Node(0), Timeout: 5 * time.Second, Control: control.Options{Lease: time.Minute}}), "127.0.0.1:0", ListenOptions{})
	got := receive(l)
	c, err := control.Dial(t.Context(), l.Addr().String(), known(t), control.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t, Options{Rail: e.Node(1)}).connect(t.Context(), c, true, nil) // and then nothing
	if err != nil {
		t.Fatal(err)
	}
	<-s.ctx.Done() // it is told why, and leaves
	s.close(nil)
	if r := within(t, time.Minute, got); !errors.Is(r.err, ErrTimeout) || !strings.Contains(r.err.Error(), "--timeout") {
		t.Errorf("%v", r.err)
	}
}

// While a tracer is attached, transfers arrive and fail as they do without.
func TestTransfersAreMarked(t *testing.T) {
	if !marker.Built {
		t.Skip("built without cgo: there are no marks")
	}
	_, _, semaphore := marker.Sites()
	atomic.StoreUint32(semaphore, 1) // as the kernel does
	t.Cleanup(func() { atomic.StoreUint32(semaphore, 0) })
	what := SendOptions{Layout: Layout{PageSize: 4096, Pages: 300, Stride: 2, Seed: 3}, Iterations: 2}
	e := embedded(t, transfer.EmbeddedOptions{NICs: 2})
	sent, received, err := Inside(t.Context(), e, 1, 0, Options{}, what, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !sent.Verified || !received.Verified || sent.Bytes != 2*what.Layout.Bytes() {
		t.Errorf("%s\n%s", show(sent), show(received))
	}
	e.Fabric().Faults().Set(device.FaultPlan{Abort: 1})
	if _, _, err := Inside(t.Context(), e, 1, 0, Options{Timeout: 2 * time.Second}, what, nil); err == nil {
		t.Error("operations that are given up were no obstacle")
	}
}

// TestInsideEndsWhenOneSideDoesNotMeet: the receiver's side fails after the sender has
// connected, and nobody comes any more.
func TestInsideEndsWhenOneSideDoesNotMeet(t *testing.T) {
	e := embedded(t, transfer.EmbeddedOptions{})
	broken := errors.New("by the test")
	ended := make(chan outcome, 1)
	go func() {
		_, received, err := inside(t.Context(), e, 1, 0, Options{Timeout: 5 * time.Second}, endless, ListenOptions{MaxBytes: MaxSpan, fail: broken}, nil)
		ended <- outcome{received, err}
	}()
	if got := within(t, time.Minute, ended); got.result != nil || !errors.Is(got.err, broken) {
		t.Errorf("%v, %s", got.err, show(got.result))
	}
}
