package device

import (
	"errors"
	"testing"

	"github.com/peerdirect/peerdirect/efa/wire"
)

func wantStatus(t *testing.T, err error, s wire.AdminStatus) {
	t.Helper()
	var e *StatusError
	if !errors.As(err, &e) || e.Status != s || e.Reason == "" || !errors.Is(err, &StatusError{Status: s}) {
		t.Errorf("error %v, want status %v", err, s)
	}
}

// TestInUse: what others use cannot be destroyed, then can, then is gone.
func TestInUse(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	_, ring := h.mem.alloc(4096)
	eq := must(h.d.CreateEQ(EQOptions{CreateEQ: wire.CreateEQ{Depth: 16, EntryWords: 4, BaseAddr: h.mem.base + 4096*16}}))(t)
	_ = ring
	q := h.cqueue(64, wire.CreateCQ{Caps: wire.CQInterruptMode, EQN: eq.EQN})
	e := h.endpoint(epOptions{scq: q})
	mr := h.region(4096, allAccess)
	ah := must(h.d.CreateAH(h.pd, h.d.GID()))(t)
	if again := must(h.d.CreateAH(h.pd, h.d.GID()))(t); again != ah {
		t.Errorf("the same address got handles %d and %d", ah, again)
	}
	cnt := must(h.d.CreateCounter(h.uar, h.mem.base))(t)
	att := wire.AttachEventCounter{Handle: cnt, QPHandle: e.info.Handle, Events: wire.CountSend}
	if err := h.d.AttachCounter(att); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name    string
		destroy func() error
		blocked []func() error
	}{
		{"counter attached", func() error { return h.d.DetachCounter(att) }, []func() error{
			func() error { return h.d.DestroyCounter(cnt) },
		}},
		{"QP", func() error { return h.d.DestroyQP(e.info.Handle) }, []func() error{
			func() error { return h.d.DestroyCQ(q.info.CQ) },
			func() error { return h.d.DeallocPD(h.pd) },
			func() error { return h.d.DeallocUAR(h.uar) },
		}},
		{"MR", func() error { return h.d.DeregisterMR(mr.LKey) }, []func() error{func() error { return h.d.DeallocPD(h.pd) }}},
		{"AH, first user", func() error { return h.d.DestroyAH(h.pd, ah) }, []func() error{func() error { return h.d.DeallocPD(h.pd) }}},
		{"AH", func() error { return h.d.DestroyAH(h.pd, ah) }, []func() error{func() error { return h.d.DeallocPD(h.pd) }}},
		{"PD", func() error { return h.d.DeallocPD(h.pd) }, nil},
		{"counter", func() error { return h.d.DestroyCounter(cnt) }, []func() error{func() error { return h.d.DeallocUAR(h.uar) }}},
		{"CQ", func() error { return h.d.DestroyCQ(q.info.CQ) }, []func() error{
			func() error { return h.d.DestroyEQ(eq.EQN) },
			func() error { return h.d.DeallocUAR(h.uar) },
		}},
		{"EQ", func() error { return h.d.DestroyEQ(eq.EQN) }, nil},
		{"UAR", func() error { return h.d.DeallocUAR(h.uar) }, nil},
	}
	for _, s := range steps {
		for _, b := range s.blocked {
			wantStatus(t, b(), wire.AdminResourceBusy)
		}
		if err := s.destroy(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if s.name != "AH, first user" {
			wantStatus(t, s.destroy(), wire.AdminIllegalParameter)
		}
	}
}

// TestLimits: tables fill up and say so, and what was freed can be made again.
func TestLimits(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{MaxPDs: 3, MaxMRs: 2, MaxAHs: 2, MaxCQs: 2, MaxQPs: 2, MaxEQs: 1, MaxCounters: 1})
	q := h.cqueue(64, wire.CreateCQ{})
	mk := map[string]struct {
		n    int
		make func(i int) error
	}{
		"PD":  {2, func(int) error { _, err := h.d.AllocPD(); return err }},
		"UAR": {MaxUARs - 1, func(int) error { _, err := h.d.AllocUAR(); return err }},
		"MR": {2, func(int) error {
			_, err := h.d.RegisterMR(MROptions{PD: h.pd, Length: 1, Pages: []uint64{h.mem.base}})
			return err
		}},
		"AH": {2, func(i int) error { _, err := h.d.CreateAH(h.pd, wire.GID{byte(i)}); return err }},
		"CQ": {1, func(int) error {
			_, err := h.d.CreateCQ(CQOptions{CreateCQ: wire.CreateCQ{UAR: h.uar, SubCQDepth: 2, NumSubCQs: 1, EntryWords: 4, BaseAddr: h.mem.base}})
			return err
		}},
		"EQ": {1, func(int) error {
			_, err := h.d.CreateEQ(EQOptions{CreateEQ: wire.CreateEQ{Depth: 2, EntryWords: 4, BaseAddr: h.mem.base}})
			return err
		}},
		"counter": {1, func(int) error { _, err := h.d.CreateCounter(h.uar, h.mem.base); return err }},
		"QP": {2, func(int) error {
			_, err := h.d.CreateQP(QPOptions{CreateQP: wire.CreateQP{PD: h.pd, UAR: h.uar, Type: wire.QPTypeSRD}})
			return err
		}},
	}
	for name, m := range mk {
		for i := range m.n {
			if err := m.make(i); err != nil {
				t.Fatalf("%s %d: %v", name, i, err)
			}
		}
		wantStatus(t, m.make(m.n), wire.AdminResourceAllocationFailure)
	}
	_ = q
	// Device memory runs out before queue pairs do.
	h2 := newHost(t, f, Options{LLQBytes: 8192})
	h2.endpoint(epOptions{depth: 64})
	h2.endpoint(epOptions{depth: 64, scq: h2.cqueue(64, wire.CreateCQ{})})
	c := h2.cqueue(64, wire.CreateCQ{})
	_, err := h2.d.CreateQP(QPOptions{CreateQP: wire.CreateQP{PD: h2.pd, UAR: h2.uar, Type: wire.QPTypeSRD, SendCQ: uint32(c.info.CQ), RecvCQ: uint32(c.info.CQ), SQDepth: 1, SQRingSize: 64}})
	wantStatus(t, err, wire.AdminResourceAllocationFailure)
}

// TestNumbersDoNotRepeat: a key or queue pair number that was freed stays invalid
// for long.
func TestNumbersDoNotRepeat(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{MaxMRs: 4, MaxQPs: 4})
	q := h.cqueue(64, wire.CreateCQ{})
	keys, qpns := map[uint32]bool{}, map[uint16]bool{}
	for range 800 {
		mr := must(h.d.RegisterMR(MROptions{PD: h.pd, Length: 1, Pages: []uint64{h.mem.base}}))(t)
		if mr.LKey == 0 || mr.LKey>>24 != 0 || mr.LKey&0xffffff != mr.RKey&0xffffff || keys[mr.RKey] {
			t.Fatalf("keys %#x %#x", mr.LKey, mr.RKey)
		}
		keys[mr.RKey] = true
		qp := must(h.d.CreateQP(QPOptions{CreateQP: wire.CreateQP{PD: h.pd, UAR: h.uar, Type: wire.QPTypeSRD, SendCQ: uint32(q.info.CQ), RecvCQ: uint32(q.info.CQ)}}))(t)
		if qp.QPNum == 0 || qpns[qp.QPNum] {
			t.Fatalf("queue pair number %d", qp.QPNum)
		}
		qpns[qp.QPNum] = true
		if err := errors.Join(h.d.DeregisterMR(mr.LKey), h.d.DestroyQP(qp.Handle)); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, h.d.DestroyQP(qp.Handle), wire.AdminIllegalParameter)
		wantStatus(t, h.d.DeregisterMR(mr.LKey), wire.AdminIllegalParameter)
	}
}

// TestBadOptions: what control operations must refuse.
func TestBadOptions(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{Caps: CapsNone, SubCQs: 2})
	mr := MROptions{PD: h.pd, IOVA: 0x1234, Length: 8192, PageShift: 12, Pages: []uint64{0x1000, 0x5000, 0x3000}}
	cq := wire.CreateCQ{UAR: h.uar, SubCQDepth: 16, NumSubCQs: 2, EntryWords: 8, BaseAddr: h.mem.base}
	c := must(h.d.CreateCQ(CQOptions{CreateCQ: cq}))(t)
	qp := wire.CreateQP{
		PD: h.pd, UAR: h.uar, Type: wire.QPTypeUD, SendCQ: uint32(c.CQ), RecvCQ: uint32(c.CQ),
		SQDepth: 16, SQRingSize: 1024, RQRingSize: 256, RQDepth: 16, RQBaseAddr: h.mem.base,
	}
	must(h.d.RegisterMR(mr))(t)
	must(h.d.CreateQP(QPOptions{CreateQP: qp}))(t)
	for i, change := range []func(*MROptions){
		func(o *MROptions) { o.PD = 77 },
		func(o *MROptions) { o.Length = 0 },
		func(o *MROptions) { o.Length = 1 << 60 },
		func(o *MROptions) { o.Length = 4096 * 3 },
		func(o *MROptions) { o.Length = 4096 },
		func(o *MROptions) { o.IOVA = ^uint64(0) },
		func(o *MROptions) { o.PageShift = 11 },
		func(o *MROptions) { o.PageShift = 63 },
		func(o *MROptions) { o.PageShift = 0 },
		func(o *MROptions) { o.Pages = nil },
		func(o *MROptions) { o.Pages = []uint64{0x1000, 0x5008, 0x3000} },
		func(o *MROptions) { o.Access = wire.AccessRemoteWrite },
		func(o *MROptions) { o.Access = wire.AccessRemoteRead },
		func(o *MROptions) { o.Access = 0x80 },
	} {
		o := mr
		change(&o)
		if _, err := h.d.RegisterMR(o); err == nil {
			t.Errorf("MR %d was accepted: %+v", i, o)
		}
	}
	for i, change := range []func(*wire.CreateCQ){
		func(o *wire.CreateCQ) { o.UAR = 77 },
		func(o *wire.CreateCQ) { o.SubCQDepth = 0 },
		func(o *wire.CreateCQ) { o.SubCQDepth = 15 },
		func(o *wire.CreateCQ) { o.NumSubCQs = 1 },
		func(o *wire.CreateCQ) { o.EntryWords = 5 },
		func(o *wire.CreateCQ) { o.EntryWords, o.Flags = 4, wire.CQSetSrcAddr },
		func(o *wire.CreateCQ) { o.Flags = wire.CQReqID64 },
		func(o *wire.CreateCQ) { o.Caps = wire.CQVirt },
		func(o *wire.CreateCQ) { o.Caps = wire.CQInterruptMode },
		func(o *wire.CreateCQ) { o.Caps, o.EQN = wire.CQInterruptMode, 60000 },
		func(o *wire.CreateCQ) { o.Caps = 1 },
		func(o *wire.CreateCQ) { o.BaseAddr = 0 },
		func(o *wire.CreateCQ) { o.BaseAddr++ },
	} {
		o := cq
		change(&o)
		if _, err := h.d.CreateCQ(CQOptions{CreateCQ: o}); err == nil {
			t.Errorf("CQ %d was accepted: %+v", i, o)
		}
	}
	for i, change := range []func(*wire.CreateQP){
		func(o *wire.CreateQP) { o.PD = 77 },
		func(o *wire.CreateQP) { o.UAR = 77 },
		func(o *wire.CreateQP) { o.Type = 0 },
		func(o *wire.CreateQP) { o.SendCQ = 77 },
		func(o *wire.CreateQP) { o.RecvCQ = 1 << 31 },
		func(o *wire.CreateQP) { o.Flags = wire.QPSQVirt },
		func(o *wire.CreateQP) { o.Flags = wire.QPUnsolicitedWriteRecv },
		func(o *wire.CreateQP) { o.Flags = wire.QPSQReqID64 },
		func(o *wire.CreateQP) { o.SQDepth = 0 },
		func(o *wire.CreateQP) { o.SQDepth = 15 },
		func(o *wire.CreateQP) { o.SQDepth = 1 << 31 },
		func(o *wire.CreateQP) { o.SQRingSize = 16 * 63 },
		func(o *wire.CreateQP) { o.SQRingSize = 1 << 31 },
		func(o *wire.CreateQP) { o.RQRingSize = 8 },
		func(o *wire.CreateQP) { o.RQRingSize = 48 },
		func(o *wire.CreateQP) { o.RQRingSize = 1 << 31 },
		func(o *wire.CreateQP) { o.RQBaseAddr = 4 },
	} {
		o := qp
		change(&o)
		if _, err := h.d.CreateQP(QPOptions{CreateQP: o}); err == nil {
			t.Errorf("QP %d was accepted: %+v", i, o)
		}
	}
	for i, o := range []wire.CreateEQ{
		{Depth: 3, EntryWords: 4, BaseAddr: h.mem.base},
		{Depth: 4, EntryWords: 3, BaseAddr: h.mem.base},
		{Depth: 4, EntryWords: 4, BaseAddr: 0},
		{Depth: 4, EntryWords: 4, BaseAddr: h.mem.base, Events: 2},
	} {
		if _, err := h.d.CreateEQ(EQOptions{CreateEQ: o}); err == nil {
			t.Errorf("EQ %d was accepted: %+v", i, o)
		}
	}
	if _, err := h.d.CreateCounter(h.uar, h.mem.base); err == nil {
		t.Error("a counter on a device without")
	}
	if _, err := f.NewDevice(Options{GID: h.d.GID()}); err == nil {
		t.Error("two devices of one address")
	}
}

// TestPages: regions of every page size, with IOVA and pages anywhere.
func TestPages(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src := pr.a.region(1<<17, 0)
	fill(src.b, 9)
	base, mem := pr.b.mem.alloc(4 << 20)
	for _, shift := range []uint8{12, 13, 16, 20} {
		size := uint64(1) << shift
		start := (base + size - 1) &^ (size - 1)
		iova := uint64(0x7f00_0000_0000) + size - 100 // 100 bytes in the first page
		length := min(100+size+200, 1<<17)
		pages := []uint64{start + 2*size, start}
		if length > 100+size {
			pages = append(pages, start+size)
		}
		if start+3*size > base+4<<20 {
			t.Fatal("too large")
		}
		mr := must(pr.b.d.RegisterMR(MROptions{PD: pr.b.pd, IOVA: iova, Length: length, PageShift: shift, Pages: pages, Access: allAccess}))(t)
		clear(mem)
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, int(length)), iova, mr.RKey))
		pr.a.scq.expect(1, wire.CompOK)
		for i := uint64(0); i < length; i++ {
			at := iova&(size-1) + i
			if got := mem[pages[at>>shift]-base+at&(size-1)]; got != src.b[i] {
				t.Fatalf("pages of 2^%d: byte %d is %d, want %d", shift, i, got, src.b[i])
			}
		}
	}
}

func TestTransitions(t *testing.T) {
	f := NewFabric(FabricOptions{})
	defer f.Close()
	h := newHost(t, f, Options{})
	q := h.cqueue(64, wire.CreateCQ{})
	path := map[wire.QPState][]wire.QPState{
		wire.QPStateReset: {},
		wire.QPStateInit:  {wire.QPStateInit},
		wire.QPStateRTR:   {wire.QPStateInit, wire.QPStateRTR},
		wire.QPStateRTS:   {wire.QPStateInit, wire.QPStateRTR, wire.QPStateRTS},
		wire.QPStateSQD:   {wire.QPStateInit, wire.QPStateRTR, wire.QPStateRTS, wire.QPStateSQD},
		wire.QPStateError: {wire.QPStateInit, wire.QPStateError},
	}
	allowed := map[wire.QPState]string{
		wire.QPStateReset: "RESET INIT", wire.QPStateInit: "RESET INIT RTR ERR", wire.QPStateRTR: "RESET RTS ERR",
		wire.QPStateRTS: "RESET RTS SQD ERR", wire.QPStateSQD: "RESET RTS SQD ERR", wire.QPStateError: "RESET ERR",
	}
	e := h.endpoint(epOptions{scq: q, stay: true})
	for from, way := range path {
		got := ""
		for to := wire.QPStateReset; to <= wire.QPStateError; to++ {
			e.state(wire.QPStateReset)
			for _, s := range way {
				e.state(s)
			}
			err := h.d.ModifyQP(wire.ModifyQP{Handle: e.info.Handle, Mask: wire.ModifyState | wire.ModifyCurState, State: to, CurState: from})
			r := must(h.d.QueryQP(e.info.Handle))(t)
			if err == nil {
				got += " " + to.String()
				if r.State != to {
					t.Errorf("from %v to %v: the state is %v", from, to, r.State)
				}
			} else if wantStatus(t, err, wire.AdminIllegalParameter); r.State != from {
				t.Errorf("from %v to %v: refused, but the state is %v", from, to, r.State)
			}
			if r.State == wire.QPStateError {
				e.state(wire.QPStateReset)
			}
		}
		if got != " "+allowed[from] {
			t.Errorf("from %v to%s, want %s", from, got, allowed[from])
		}
	}
	for _, m := range []wire.ModifyQP{
		{Mask: 1 << 6},
		{Mask: wire.ModifyState, State: 7},
		{Mask: wire.ModifyState | wire.ModifyCurState, CurState: 9},
		{Mask: wire.ModifyState | wire.ModifySQPSN, State: wire.QPStateInit},
		{Mask: wire.ModifyState | wire.ModifyRNRRetry, State: wire.QPStateInit},
	} {
		e.state(wire.QPStateReset)
		m.Handle = e.info.Handle
		wantStatus(t, h.d.ModifyQP(m), wire.AdminIllegalParameter)
	}
	wantStatus(t, h.d.ModifyQP(wire.ModifyQP{Handle: 1 << 30}), wire.AdminIllegalParameter)
	e.qkey = 77
	e.rts(5, wire.QPTypeSRD)
	if r := must(h.d.QueryQP(e.info.Handle))(t); r.QKey != 77 || r.RNRRetry != 5 || r.State != wire.QPStateRTS {
		t.Errorf("query: %+v", r)
	}
}
