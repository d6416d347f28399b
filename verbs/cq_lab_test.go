//go:build lab

package verbs

import (
	"bytes"
	"errors"
	"testing"
)

// everyCQ runs a test over a plain and over an extended completion queue.
func everyCQ(t *testing.T, f func(t *testing.T, o CQOptions)) {
	for name, o := range map[string]CQOptions{"classic": {Depth: 512}, "extended": {Depth: 512, WC: WCStandard}} {
		t.Run(name, func(t *testing.T) {
			if o.extended() {
				cq, err := device(t).CreateCQ(o)
				if errors.Is(err, ErrUnsupported) {
					t.Skip("the driver has no extended completion queues")
				}
				if err != nil {
					t.Fatal(err)
				}
				cq.Close()
			}
			f(t, o)
		})
	}
}

func TestPollAndPollExtTellTheSame(t *testing.T) {
	everyCQ(t, func(t *testing.T, o CQOptions) {
		p := connectedOver(t, QPOptions{}, o, 4096, ConnectOptions{})
		if got := p.cq[1].Extended(); got != o.extended() {
			t.Fatalf("extended %v", got)
		}
		b, _ := batches(t, p.qp[0].QP)
		_, rb := batches(t, p.qp[1].QP)
		send := func() {
			rb.Recv(p.mr[1].At(0, 100), 5)
			if err := rb.Post(); err != nil {
				t.Fatal(err)
			}
			b.SendImm(p.mr[0].At(0, 10), 0xcafe, 6)
			if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
				t.Fatal(s)
			}
		}
		send()
		plain := complete(t, p.cq[1], 1)[0]
		send()
		var ext [4]ExtCompletion
		for n := 0; n == 0; {
			var err error
			if n, err = p.cq[1].PollExt(ext[:]); err != nil {
				t.Fatal(err)
			}
		}
		if plain != ext[0].Completion {
			t.Errorf("Poll gave %+v, PollExt %+v", plain, ext[0].Completion)
		}
		imm, ok := ext[0].Imm()
		if ext[0].ID != 5 || ext[0].Bytes != 10 || ext[0].QPN != p.qp[1].QPN() || !ok || imm != 0xcafe || ext[0].Opcode != CompletedRecv {
			t.Errorf("completion %+v", ext[0])
		}
		nothing(t, p.cq[1])
	})
}

func TestPollTakesNoMoreThanThereIsRoom(t *testing.T) {
	everyCQ(t, func(t *testing.T, o CQOptions) {
		p := connectedOver(t, QPOptions{}, o, 4096, ConnectOptions{})
		b, _ := batches(t, p.qp[0].QP)
		for i := range 10 {
			b.Write(p.mr[0].At(0, 8), p.mr[1].Remote().At(0), uint64(i))
		}
		if err := b.Post(); err != nil {
			t.Fatal(err)
		}
		// One at a time, so that each poll leaves the rest where it is.
		for i := range 10 {
			if c := complete(t, p.cq[0], 1)[0]; c.ID != uint64(i) || c.Err() != nil {
				t.Fatalf("completion %d is %+v", i, c)
			}
		}
		nothing(t, p.cq[0])
	})
}

func TestResizeKeepsWhatIsInTheQueue(t *testing.T) {
	p := connected(t, QPOptions{}, 4096, ConnectOptions{})
	b, _ := batches(t, p.qp[0].QP)
	b.Write(p.mr[0].At(0, 8), p.mr[1].Remote().At(0), 77)
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
	switch err := p.cq[0].Resize(2048); {
	case errors.Is(err, ErrUnsupported):
		t.Skip("the driver cannot resize a completion queue: ", err)
	case err != nil:
		t.Fatal(err)
	}
	if d := p.cq[0].Depth(); d < 2048 {
		t.Errorf("depth %d after a resize to 2048", d)
	}
	if c := complete(t, p.cq[0], 1)[0]; c.ID != 77 || c.Err() != nil {
		t.Errorf("completion %+v", c)
	}
	a, _ := p.dev.Attr()
	if err := p.cq[0].Resize(a.MaxCQE + 1); err == nil {
		t.Error("resized over the device's limit")
	}
}

func TestModerationIsSetOrUnsupported(t *testing.T) {
	dev := device(t)
	cq := must[*CQ](t)(dev.CreateCQ(CQOptions{}))
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	err = cq.Moderate(4, 10)
	if a.MaxModerationCount == 0 {
		refused(t, err, ErrUnsupported)
	} else if err != nil {
		t.Error(err)
	}
}

func TestAFullCompletionQueueRaisesAnErrorEvent(t *testing.T) {
	p := connectedOver(t, QPOptions{MaxSend: 256}, CQOptions{Depth: 4}, 4096, ConnectOptions{})
	b, _ := batches(t, p.qp[0].QP)
	for i := range p.cq[0].Depth() + 8 {
		b.Write(p.mr[0].At(0, 8), p.mr[1].Remote().At(0), uint64(i))
	}
	if err := b.Post(); err != nil {
		t.Fatal(err)
	}
	e := event(t, p.dev, EventCQError)
	if e.Object != uintptr(p.cq[0].Handle()) {
		t.Errorf("the event names another queue: %+v", e)
	}
	got := complete(t, p.cq[0], p.cq[0].Depth())
	if got[0].ID != 0 || got[0].Err() != nil {
		t.Errorf("the oldest completion is %+v", got[0])
	}
}

func TestAGatherThatIsExtendedMovesTheRightBytes(t *testing.T) {
	// Buffers of different sizes: a provider that takes one length for all
	// moves too few bytes or too many.
	p := connected(t, QPOptions{Extended: OpsRC, MaxSendSGE: 3}, 4096, ConnectOptions{})
	b, _ := batches(t, p.qp[0].QP)
	fill(p.mem[0].Bytes(), 9)
	before := bytes.Clone(p.mem[1].Bytes())
	b.WriteV([]Slice{p.mr[0].At(0, 100), p.mr[0].At(500, 1), p.mr[0].At(900, 7)}, p.mr[1].Remote().At(64), 1)
	if s := status(t, p.cq[0], b); s[0] != StatusSuccess {
		t.Fatal(s)
	}
	mine := p.mem[0].Bytes()
	copy(before[64:], mine[:100])
	copy(before[164:], mine[500:501])
	copy(before[165:], mine[900:907])
	if !bytes.Equal(before, p.mem[1].Bytes()) {
		t.Error("other bytes were written than asked for")
	}
}

// A caller keeps its completions where it likes, beside Go pointers too; cgo
// refuses such memory unless it is shown the slice alone.
func TestPollFillsASliceInsideAStructureWithPointers(t *testing.T) {
	dev := device(t)
	for _, o := range []CQOptions{{}, {WC: WCByteLen}} {
		made, err := dev.CreateCQ(o)
		if o.WC != 0 && errors.Is(err, ErrUnsupported) {
			continue // siw has no extended queues
		}
		cq := must[*CQ](t)(made, err)
		holder := &struct {
			out  [4]Completion
			ext  [4]ExtCompletion
			name *string
		}{name: new(string)}
		if n, err := cq.Poll(holder.out[:]); n != 0 || err != nil {
			t.Errorf("Poll gave %d, %v", n, err)
		}
		if n, err := cq.PollExt(holder.ext[:]); n != 0 || err != nil {
			t.Errorf("PollExt gave %d, %v", n, err)
		}
	}
}
