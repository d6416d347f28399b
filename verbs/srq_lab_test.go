//go:build lab

package verbs

import (
	"errors"
	"testing"
	"time"
)

func sharedQueue(t testing.TB, pd *PD, o SRQOptions) *SRQ {
	t.Helper()
	s, err := pd.CreateSRQ(o)
	if errors.Is(err, ErrUnsupported) {
		t.Skip("the device has no such shared receive queue: ", err)
	}
	return must[*SRQ](t)(s, err)
}

// sharing is a sender and a receiver whose receives come from a shared queue.
func sharing(t *testing.T, n int) (p *pair, s *SRQ, rb *RecvBatch) {
	dev := device(t)
	rdma(t, dev)
	p = &pair{dev: dev, pd: must[*PD](t)(dev.AllocPD())}
	s = sharedQueue(t, p.pd, SRQOptions{Max: 16})
	for i := range 2 {
		p.mem[i] = must[*Buffer](t)(NewBuffer(4096, BufferOptions{}))
		p.mr[i] = must[*MR](t)(p.pd.Register(p.mem[i].Bytes(), allAccess))
		p.cq[i] = must[*CQ](t)(dev.CreateCQ(CQOptions{}))
	}
	p.qp[0] = must[*RC](t)(p.pd.CreateRC(QPOptions{CQ: p.cq[0]}))
	p.qp[1] = must[*RC](t)(p.pd.CreateRC(QPOptions{CQ: p.cq[1], SRQ: s}))
	join(t, p.qp[0], p.qp[1], ConnectOptions{})
	rb = s.RecvBatch()
	t.Cleanup(rb.Close)
	for i := range n {
		rb.Recv(p.mr[1].At(uint64(i)*64, 64), uint64(100+i))
	}
	if err := rb.Post(); err != nil {
		t.Fatal(err)
	}
	return p, s, rb
}

// join connects two queue pairs of this process.
func join(t testing.TB, a, b *RC, o ConnectOptions) {
	t.Helper()
	ea, err := a.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	eb, err := b.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Connect(eb, o); err != nil {
		t.Fatal(err)
	}
	if err := b.Connect(ea, o); err != nil {
		t.Fatal(err)
	}
}

func TestReceivesComeFromTheSharedQueueInOrder(t *testing.T) {
	p, s, _ := sharing(t, 4)
	b, _ := batches(t, p.qp[0].QP)
	for i := range 4 {
		p.mem[0].Bytes()[i] = byte('a' + i)
		b.Send(p.mr[0].At(uint64(i), 1), uint64(i))
	}
	status(t, p.cq[0], b)
	for i, c := range complete(t, p.cq[1], 4) {
		if c.ID != uint64(100+i) || c.Bytes != 1 || c.QPN != p.qp[1].QPN() || p.mem[1].Bytes()[i*64] != byte('a'+i) {
			t.Errorf("receive %d: %+v, byte %c", i, c, p.mem[1].Bytes()[i*64])
		}
	}
	if err := s.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("closing a shared queue in use: %v", err)
	}
}

func TestTheLimitOfASharedQueueRaisesOneEvent(t *testing.T) {
	p, s, _ := sharing(t, 8)
	if err := s.SetLimit(6); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Query(); err != nil || a.Limit != 6 || a.Max < 16 || a.SGE < 1 {
		t.Errorf("attributes %+v, %v", a, err)
	}
	b, _ := batches(t, p.qp[0].QP)
	for range 4 {
		b.Send(p.mr[0].At(0, 1), 1)
	}
	status(t, p.cq[0], b)
	if e := event(t, p.dev, EventSRQLimitReached); e.Object != uintptr(s.Handle()) {
		t.Errorf("the event names another queue: %+v", e)
	}
	if a, err := s.Query(); err != nil || a.Limit != 0 {
		t.Errorf("after the event the limit is %d, %v", a.Limit, err)
	}
}

func TestASharedQueueGrows(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	s := sharedQueue(t, pd, SRQOptions{Max: 16})
	a, _ := dev.Attr()
	err := s.Resize(64)
	if !a.Caps.Has(CapSRQResize) {
		if err == nil {
			t.Log("grew, though the device does not promise it")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Max() < 64 {
		t.Errorf("%d receives after growing to 64", s.Max())
	}
	refused(t, s.Resize(a.MaxSRQWR+1), errInvalid)
}

func TestAFullSharedQueueSaysSo(t *testing.T) {
	_, s, rb := sharing(t, 0)
	for i := range s.Max() {
		rb.Recv(Slice{}, uint64(i))
	}
	if err := rb.Post(); err != nil {
		t.Fatal(err)
	}
	_, err := overfill(t, func() error {
		rb.Recv(Slice{}, 1)
		return rb.Post()
	})
	var pe *PostError
	if !errors.As(err, &pe) || pe.Posted != 0 {
		t.Errorf("posting to a full queue gave %v", err)
	}
	refused(t, err, errNoMemory, "the receive queue is full")
}

func TestLimitsOfASharedQueueAreNamed(t *testing.T) {
	dev := device(t)
	pd := must[*PD](t)(dev.AllocPD())
	sharedQueue(t, pd, SRQOptions{})
	a, err := dev.Attr()
	if err != nil {
		t.Fatal(err)
	}
	_, err = pd.CreateSRQ(SRQOptions{Max: a.MaxSRQWR + 1})
	refused(t, err, errInvalid, "max_srq_wr")
	_, err = pd.CreateSRQ(SRQOptions{SGE: a.MaxSRQSGE + 1})
	refused(t, err, errInvalid, "max_srq_sge")
	if n := Live()["srq"]; n != 1 {
		t.Errorf("%d shared queues are counted, want 1", n)
	}
}

func TestTheLastReceiveOfAQueuePairInErrorRaisesAnEvent(t *testing.T) {
	p, _, _ := sharing(t, 2)
	if err := p.qp[1].Fail(); err != nil {
		t.Fatal(err)
	}
	e, err := eventWithin(t, p.dev, EventQPLastWQEReached, 5*time.Second)
	if err != nil && p.dev.isRXE() {
		t.Skipf("rxe of this kernel does not raise it: %v", err)
	}
	if err != nil || e.QPN != p.qp[1].QPN() {
		t.Errorf("event %+v, %v, want qp %d", e, err, p.qp[1].QPN())
	}
}
