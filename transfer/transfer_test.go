package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/verbs/exchange"
)

// run is a transfer over two fake rails.
type run struct {
	net      *fakeNet
	send     SendOptions
	maxBytes uint64
	receives int
	nics     int // joined; 0 is a rail alone
	corrupt  func([]byte)
	sendCtx  context.Context
	recvCtx  context.Context
	tell     func(Progress)

	sent, received       *Result
	sendError, recvError error
}

func (r *run) run(t *testing.T) {
	t.Helper()
	if r.net == nil {
		r.net = newFakeNet()
	}
	if r.sendCtx == nil {
		r.sendCtx = context.Background()
	}
	if r.recvCtx == nil {
		r.recvCtx = context.Background()
	}
	r.send.Timeout = 30 * time.Second
	r.send.Tell = r.tell
	if err := r.send.defaults(); err != nil {
		t.Fatal(err)
	}
	dialer, acceptor := conversation(t)
	o := Options{Timeout: 30 * time.Second}
	o.defaults()
	done := make(chan struct{})
	go func() {
		defer close(done)
		recv := newReceiver(newSession(r.recvCtx, o, acceptor, RoleReceiver), r.maxBytes)
		recv.corrupt = r.corrupt
		err := recv.use(r.rail(t, 3))
		if err == nil {
			err = recv.run()
		}
		r.recvError = recv.close(err, recv.memory)
		r.received = recv.result
	}()
	s := newSender(newSession(r.sendCtx, r.send.Options, dialer, RoleSender), r.send)
	err := s.use(r.rail(t, 4))
	if err == nil {
		err = s.run()
	}
	r.sendError = s.close(err, s.memory)
	r.sent = s.result
	<-done
}

func (r *run) rail(t *testing.T, seed uint64) Rail {
	o := fakeOptions{receives: r.receives}
	if r.nics == 0 {
		return r.net.rail(seed, o)
	}
	o.depth = 5
	return joinFakes(t, r.net, r.nics, o)
}

func TestPagesArriveOverAnUnorderedRail(t *testing.T) {
	for _, layout := range []Layout{
		{PageSize: 64, Pages: 1, Stride: 1},
		{PageSize: 4096, Pages: 100, Stride: 3, Seed: 42},
		{PageSize: 64, Pages: 5000, Stride: 2, Seed: 7}, // several messages of checksums
		{PageSize: 4096, Pages: 777, Stride: 1},         // neighbours: few, long writes
	} {
		for _, c := range []struct{ receives, nics int }{{minReceives, 0}, {100, 0}, {minReceives, 4}} {
			t.Run(fmt.Sprintf("%+v/%+v", layout, c), func(t *testing.T) {
				r := run{send: SendOptions{Layout: layout, Iterations: 3, Batch: 4, Depth: 32}, maxBytes: math.MaxInt64, receives: c.receives, nics: c.nics}
				r.run(t)
				if r.sendError != nil || r.recvError != nil {
					t.Fatal(r.sendError, r.recvError)
				}
				for _, res := range []*Result{r.sent, r.received} {
					if !res.Verified || res.BadPages != 0 || res.Bytes != 3*layout.Bytes() || res.Pages != 3*uint64(layout.Pages) {
						t.Errorf("%s: %+v", res.Role, res)
					}
				}
				if r.sent.Checksum != r.received.Checksum || r.sent.Notices != r.received.Notices {
					t.Errorf("the sides differ:\n%+v\n%+v", r.sent, r.received)
				}
				bye := r.received.MessagesSent - r.sent.MessagesReceived // which the sender need not wait for
				if r.sent.MessagesSent != r.received.MessagesReceived || bye != 0 && bye != messageHeader || r.sent.MessagesSent == 0 {
					t.Errorf("messages: sent %d and %d bytes, received %d and %d", r.sent.MessagesSent, r.received.MessagesSent, r.received.MessagesReceived, r.sent.MessagesReceived)
				}
				if r.received.ControlReceived != r.sent.ControlSent {
					t.Errorf("control: sent %d, received %d bytes", r.sent.ControlSent, r.received.ControlReceived)
				}
				var moved uint64
				for _, b := range r.sent.Rate.Bytes {
					moved += b
				}
				if moved != r.sent.Bytes {
					t.Errorf("the rate accounts for %d of %d bytes", moved, r.sent.Bytes)
				}
			})
		}
	}
}

func TestPagesThatDifferAreNamedOnBothSides(t *testing.T) {
	l := Layout{PageSize: 256, Pages: 500, Stride: 2, Seed: 9}
	slots := l.TargetSlots()
	r := run{send: SendOptions{Layout: l, Iterations: 2}, maxBytes: math.MaxInt64}
	r.corrupt = func(mem []byte) {
		mem[slots(3)*256+17] ^= 1
		mem[slots(499)*256] ^= 0x80
	}
	r.run(t)
	for side, err := range map[string]error{"sender": r.sendError, "receiver": r.recvError} {
		var v *VerifyError
		if !errors.As(err, &v) || !errors.Is(err, ErrVerify) || v.Bad != 2 || fmt.Sprint(v.First) != "[3 499]" {
			t.Errorf("%s: %v", side, err)
		}
	}
	if r.received.PageOK[3] || !r.received.PageOK[4] || r.received.Verified || r.received.Iterations != 1 {
		t.Errorf("%+v", r.received)
	}
}

// TestAPageThatNeverCameIsFound leaves a page of an earlier round in place: its
// bytes are right for their place, and stale.
func TestAPageThatNeverCameIsFound(t *testing.T) {
	l := Layout{PageSize: 256, Pages: 50, Stride: 2, Seed: 9}
	var first, stale []byte
	slot := l.TargetSlots()(7)
	r := run{send: SendOptions{Layout: l, Iterations: 2}, maxBytes: math.MaxInt64}
	r.corrupt = func(mem []byte) {
		page := mem[slot*256:][:256]
		if first == nil {
			first = append(first, page...)
			return
		}
		stale = append(stale, page...)
		copy(page, first)
	}
	r.run(t)
	if !errors.Is(r.recvError, ErrVerify) || fmt.Sprint(r.received.Bad) != "[7]" || string(first) == string(stale) {
		t.Errorf("%v", r.recvError)
	}
}

func TestAReceiverHasLimits(t *testing.T) {
	r := run{send: SendOptions{Layout: Layout{PageSize: 4096, Pages: 100, Stride: 2}}, maxBytes: 800_000}
	r.run(t)
	if !errors.Is(r.recvError, ErrLimit) {
		t.Errorf("receiver: %v", r.recvError)
	}
	var remote *exchange.RemoteError
	if !errors.As(r.sendError, &remote) || !strings.Contains(r.sendError.Error(), "819200 bytes, 800000 are allowed") {
		t.Errorf("sender: %v", r.sendError)
	}
}

func TestWhoeverIsInterruptedTellsTheOther(t *testing.T) {
	for _, side := range []string{"sender", "receiver"} {
		t.Run(side, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r := run{send: SendOptions{Layout: Layout{PageSize: 4096, Pages: 1000, Stride: 2, Seed: 1}, Iterations: 100_000}, maxBytes: math.MaxInt64}
			r.tell = func(p Progress) {
				if p.Iteration == 3 {
					cancel()
				}
			}
			mine, theirs := &r.sendError, &r.recvError
			if r.sendCtx = ctx; side == "receiver" {
				r.sendCtx, r.recvCtx = nil, ctx
				mine, theirs = theirs, mine
			}
			r.run(t)
			if !errors.Is(*mine, ErrCancelled) {
				t.Errorf("the interrupted side: %v", *mine)
			}
			if *theirs == nil || !strings.Contains((*theirs).Error(), ErrCancelled.Error()) {
				t.Errorf("the other side: %v", *theirs)
			}
		})
	}
}

func TestABrokenConnectionEndsBothSides(t *testing.T) {
	r := run{net: newFakeNet(), send: SendOptions{Layout: Layout{PageSize: 4096, Pages: 1000, Stride: 2, Seed: 1}}, maxBytes: math.MaxInt64}
	writes := 0
	r.net.drop = func(op *Op) bool {
		if op.Kind == OpWrite {
			writes++
		}
		return writes > 300
	}
	r.run(t)
	// Whoever notices first tells the other, who may hear it before its own
	// rail does: both end with the cause, one of them with its own.
	var lost *LostError
	if !errors.As(errors.Join(r.sendError, r.recvError), &lost) {
		t.Errorf("nobody lost the connection: sender: %v\nreceiver: %v", r.sendError, r.recvError)
	}
	for _, err := range []error{r.sendError, r.recvError} {
		if err == nil || !strings.Contains(err.Error(), "the cable is cut") {
			t.Errorf("ended with %v", err)
		}
	}
}

func TestSilenceEnds(t *testing.T) {
	dialer, acceptor := conversation(t)
	net := newFakeNet()
	o := Options{Timeout: 200 * time.Millisecond}
	o.defaults()
	go net.rail(1, fakeOptions{}).Connect(context.Background(), dialer) // and then nothing
	recv := newReceiver(newSession(context.Background(), o, acceptor, RoleReceiver), math.MaxInt64)
	err := recv.use(net.rail(2, fakeOptions{}))
	if err == nil {
		err = recv.run()
	}
	if err = recv.close(err, recv.memory); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}
