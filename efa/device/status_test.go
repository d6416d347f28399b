package device

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// TestRequestErrors: each wrong request completes once with the status that the
// contract names, and no byte is touched on either side.
func TestRequestErrors(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{Caps: allCaps &^ wire.CapRDMARead}, epOptions{})
	a, b, ab := pr.a, pr.b, pr.ab
	ha, hb := a.host, b.host
	src, dst := ha.region(8192, 0), hb.region(8192, wire.AccessRemoteWrite)
	local := hb.region(8192, wire.AccessLocalWrite)
	other := must(ha.d.AllocPD())(t)
	foreign := must(ha.d.CreateAH(other, hb.d.GID()))(t)
	gone := ha.region(4096, allAccess)
	if err := ha.d.DeregisterMR(gone.LKey); err != nil {
		t.Fatal(err)
	}
	far := must(hb.d.AllocPD())(t)
	farMR := must(hb.d.RegisterMR(MROptions{PD: far, IOVA: dst.addr, Length: 4096, PageShift: 12, Pages: []uint64{hb.mem.base}, Access: wire.AccessRemoteWrite}))(t)
	fill(src.b, 1)

	write := func(addr uint64, rkey uint32, n int) *wire.WideTxEntry {
		return ab.rdma(wire.IORDMAWrite, 1, src.at(0, n), addr, rkey)
	}
	with := func(w *wire.WideTxEntry, change func(*wire.WideTxEntry)) *wire.WideTxEntry {
		change(w)
		return w
	}
	send := func(bufs ...wire.TxBuf) *wire.WideTxEntry { return ab.send(1, bufs...) }
	ctrl := func(c wire.TxControl) func(*wire.WideTxEntry) {
		return func(w *wire.WideTxEntry) { binary.LittleEndian.PutUint16(w[2:], uint16(c)) }
	}
	tests := map[string]struct {
		w *wire.WideTxEntry
		s wire.CompStatus
	}{
		"unknown operation":   {with(send(src.at(0, 8)), ctrl(wire.TxAlways|9)), wire.CompLocalUnsupportedOp},
		"fast registration":   {with(send(src.at(0, 8)), ctrl(wire.TxAlways|wire.TxControl(wire.IOFastReg))), wire.CompLocalUnsupportedOp},
		"no first":            {with(send(src.at(0, 8)), ctrl(wire.TxAlways&^wire.TxFirst)), wire.CompLocalQPInternalError},
		"no meta":             {with(send(src.at(0, 8)), ctrl(wire.TxAlways&^wire.TxMetaDesc)), wire.CompLocalQPInternalError},
		"extension":           {with(send(src.at(0, 8)), ctrl(wire.TxAlways|wire.TxMetaExtension)), wire.CompLocalQPInternalError},
		"read with immediate": {imm(ab.rdma(wire.IORDMARead, 1, src.at(0, 8), dst.addr, dst.RKey), 1), wire.CompLocalUnsupportedOp},
		"narrow inline write": {with(write(dst.addr, dst.RKey, 8), ctrl(wire.TxAlways|wire.TxInline|wire.TxControl(wire.IORDMAWrite))), wire.CompLocalUnsupportedOp},
		"no such handle":      {peer{ab.ah + 100, ab.qp, ab.qkey}.send(1, src.at(0, 8)), wire.CompLocalInvalidAH},
		"handle of other PD":  {peer{foreign, ab.qp, ab.qkey}.send(1, src.at(0, 8)), wire.CompLocalInvalidAH},
		"three buffers":       {with(send(src.at(0, 8)), func(w *wire.WideTxEntry) { w[6] = 3 }), wire.CompLocalBadLength},
		"over the MTU":        {send(src.at(0, 8000), src.at(0, 929)), wire.CompLocalBadLength},
		"huge buffers":        {send(src.at(0, -1), src.at(0, -1)), wire.CompLocalBadLength},
		"inline too long":     {with(ab.inline(1, nil), func(w *wire.WideTxEntry) { w[6] = 33 }), wire.CompLocalBadLength},
		"over max_rdma_size":  {ab.rdma(wire.IORDMAWrite, 1, src.at(0, 1<<30+1), dst.addr, dst.RKey), wire.CompLocalBadLength},
		"lengths differ":      {with(write(dst.addr, dst.RKey, 8), func(w *wire.WideTxEntry) { w[32] = 9 }), wire.CompLocalBadLength},
		"wrong lkey":          {send(wire.TxBuf{Addr: src.addr, LKey: src.LKey ^ 1<<20, Length: 8}), wire.CompLocalInvalidLKey},
		"lkey of gone region": {send(wire.TxBuf{Addr: gone.addr, LKey: gone.LKey, Length: 8}), wire.CompLocalInvalidLKey},
		"before the region":   {send(wire.TxBuf{Addr: src.addr - 1, LKey: src.LKey, Length: 8}), wire.CompLocalInvalidLKey},
		"past the region":     {send(src.at(8185, 8)), wire.CompLocalInvalidLKey},
		"address wraps":       {send(wire.TxBuf{Addr: ^uint64(0), LKey: src.LKey, Length: 8}), wire.CompLocalInvalidLKey},
		"no such queue pair":  {peer{ab.ah, ab.qp + 256, ab.qkey}.send(1, src.at(0, 8)), wire.CompRemoteBadDestQPN},
		"wrong queue key":     {peer{ab.ah, ab.qp, ab.qkey + 1}.send(1, src.at(0, 8)), wire.CompRemoteBadDestQPN},
		"wrong rkey":          {write(dst.addr, dst.RKey^1<<31, 8), wire.CompRemoteBadAddress},
		"rkey of other PD":    {write(dst.addr, farMR.RKey, 8), wire.CompRemoteBadAddress},
		"no remote write":     {write(local.addr, local.RKey, 8), wire.CompRemoteBadAddress},
		"remote range":        {write(dst.addr+8192-7, dst.RKey, 8), wire.CompRemoteBadAddress},
		"remote start":        {write(dst.addr-1, dst.RKey, 8), wire.CompRemoteBadAddress},
		"empty, wrong rkey":   {imm(ab.rdma(wire.IORDMAWrite, 1, wire.TxBuf{}, dst.addr, 0), 1), wire.CompRemoteBadAddress},
		"target cannot":       {ab.rdma(wire.IORDMARead, 1, ha.region(4096, allAccess).at(0, 8), dst.addr, dst.RKey), wire.CompRemoteFeatureMismatch},
		"read into read-only": {ab.rdma(wire.IORDMARead, 1, src.at(0, 8), dst.addr, dst.RKey), wire.CompLocalInvalidLKey},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			before := string(hb.mem.buf) + string(src.b)
			a.host.t = t
			a.post(x.w)
			a.scq.expect(1, x.s)
			if string(hb.mem.buf)+string(src.b) != before {
				t.Error("memory was touched")
			}
		})
	}
	a.scq.quiet(2 * time.Millisecond)
	b.scq.quiet(time.Millisecond)

	// The queue pair still works.
	a.post(write(dst.addr, dst.RKey, 8))
	a.scq.expect(1, wire.CompOK)
}

// TestReceiveErrors: what is wrong with a receive shows at the receiver, and the
// sender learns of it.
func TestReceiveErrors(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, ro, dst := pr.a.region(8192, 0), pr.b.region(8192, 0), pr.b.region(8192, allAccess)
	fill(src.b, 1)
	msg := func(id uint64) { pr.a.post(pr.ab.send(id, src.at(0, 100))) }

	pr.b.recv(1, dst, 0, 50, 200, 49)
	msg(1)
	pr.b.scq.expect(1, wire.CompLocalBadLength)
	pr.a.scq.expect(1, wire.CompRemoteBadLength)

	pr.b.recv(2, ro, 0, 100)
	msg(2)
	pr.b.scq.expect(2, wire.CompLocalInvalidLKey)
	pr.a.scq.expect(2, wire.CompRemoteBadStatus)

	// A chain whose first part is good touches nothing either.
	bad := dst
	bad.LKey ^= 1 << 20
	pr.b.recv(3, dst, 0, 50)
	pr.b.rq[int(pr.b.rpc-1)%64*16+15] &^= 1 << 7 // not the last
	var x wire.RxEntry
	x.Set(99, bad.addr, 100, bad.LKey, wire.RxLast)
	copy(pr.b.rq[int(pr.b.rpc)%64*16:], x[:])
	pr.b.rpc++
	pr.b.d.Ring(pr.b.info.RQDB, uint32(pr.b.rpc))
	msg(3)
	pr.b.scq.expect(3, wire.CompLocalInvalidLKey)
	pr.a.scq.expect(3, wire.CompRemoteBadStatus)
	if !zero(dst.b) || !zero(ro.b) {
		t.Error("memory was touched")
	}

	// Descriptors that make no sense complete as errors and are passed over.
	pr.b.recv(4, dst, 0, 100)
	pr.b.rq[int(pr.b.rpc-1)%64*16+15] &^= 1 << 6 // not the first
	pr.b.recv(5, dst, 0, 100)
	pr.b.rq[int(pr.b.rpc-1)%64*16+15] &^= 1 << 7 // not the last
	pr.b.recv(6, dst, 0, 100)
	msg(4)
	pr.b.scq.expect(4, wire.CompLocalQPInternalError)
	pr.b.scq.expect(5, wire.CompLocalQPInternalError)
	pr.b.scq.expect(6, wire.CompOK)
	pr.a.scq.expect(4, wire.CompOK)
}

func TestRNR(t *testing.T) {
	// A bounded count fails; without bound it waits for the receive.
	pr := newPair(t, FabricOptions{}, Options{RNRDelay: 100 * time.Microsecond}, Options{}, epOptions{rnr: 3})
	src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	pr.a.post(pr.ab.send(1, src.at(0, 10)))
	pr.a.scq.expect(1, wire.CompRemoteRNR)
	if n := pr.b.d.Stats().RNRs; n != 4 {
		t.Errorf("%d attempts, want the first and 3 retries", n)
	}
	pr.a.post(imm(pr.ab.rdma(wire.IORDMAWrite, 2, src.at(0, 10), dst.addr, dst.RKey), 1))
	pr.a.scq.expect(2, wire.CompRemoteRNR)

	for _, w := range []func(*pair, region, region) *wire.WideTxEntry{
		func(pr *pair, src, dst region) *wire.WideTxEntry { return pr.ab.send(3, src.at(0, 10)) },
		func(pr *pair, src, dst region) *wire.WideTxEntry {
			return imm(pr.ab.rdma(wire.IORDMAWrite, 3, src.at(0, 10), dst.addr, dst.RKey), 1)
		},
	} {
		pr := newPair(t, FabricOptions{}, Options{RNRDelay: 100 * time.Microsecond}, Options{}, epOptions{})
		src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
		pr.a.post(w(pr, src, dst))
		pr.a.scq.quiet(5 * time.Millisecond)
		pr.b.recv(4, dst, 0, 100)
		pr.b.scq.expect(4, wire.CompOK)
		pr.a.scq.expect(3, wire.CompOK)
	}
}

// TestSilence: a peer that never answered is unreachable, one that stopped
// answering is unresponsive, and one that comes back in time is neither.
func TestSilence(t *testing.T) {
	o := Options{RetransmitTimeout: time.Millisecond, PeerTimeout: 200 * time.Millisecond}
	if acrossLink {
		o.PeerTimeout = time.Second
	}
	pr := newPair(t, FabricOptions{}, o, o, epOptions{})
	src, dst := pr.a.region(4096, 0), pr.b.region(4096, allAccess)
	write := func(id uint64) {
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, id, src.at(0, 8), dst.addr, dst.RKey))
	}
	pr.b.d.Faults().Set(FaultPlan{Unresponsive: true})
	write(1)
	pr.a.scq.expect(1, wire.CompLocalUnreachable)
	pr.b.d.Faults().Clear()
	write(2)
	pr.a.scq.expect(2, wire.CompOK)
	pr.b.d.Faults().Set(FaultPlan{Unresponsive: true})
	write(3)
	pr.a.scq.expect(3, wire.CompLocalUnresponsive)
	pr.b.d.Faults().Clear()
	pr.a.d.Faults().Set(FaultPlan{LinkDown: true})
	if e := <-pr.a.evs; e.Kind != EventLinkDown {
		t.Errorf("event %v", e.Kind)
	}
	write(4)
	pr.a.scq.quiet(5 * time.Millisecond)
	pr.a.d.Faults().Clear()
	if e := <-pr.a.evs; e.Kind != EventLinkUp {
		t.Errorf("event %v", e.Kind)
	}
	pr.a.scq.expect(4, wire.CompOK)
	nowhere := peer{must(pr.a.d.CreateAH(pr.a.pd, wire.GID{1, 2, 3}))(t), 1, 0}
	pr.a.post(nowhere.send(5, src.at(0, 8)))
	pr.a.scq.expect(5, wire.CompLocalUnreachable)
	// A fatal error makes the peer silent, a reset takes its queue pairs, a
	// closed device is gone.
	pr.b.d.Fail("test")
	if e := <-pr.b.evs; e.Kind != EventFatal || e.Reason != "test" {
		t.Errorf("event %v", e.Kind)
	}
	write(6)
	pr.a.scq.expect(6, wire.CompLocalUnresponsive)
	pr.b.d.Reset()
	write(7)
	pr.a.scq.expect(7, wire.CompRemoteBadDestQPN)
	pr.b.d.Close()
	write(8)
	pr.a.scq.expect(8, wire.CompLocalUnresponsive)
	if s := pr.a.d.Stats().Network; s.UnresponsiveRemoteEvents != 5 || s.RetransTimeoutEvents == 0 || s.RetransPkts == 0 {
		t.Errorf("network statistics %+v", s)
	}
}

// TestFaults: each kind of fault does what it says and is counted.
func TestFaults(t *testing.T) {
	for name, x := range map[string]struct {
		plan  FaultPlan
		s     wire.CompStatus
		count func(FaultCounts) uint64
	}{
		"loss":        {FaultPlan{Loss: 0.3}, wire.CompOK, func(c FaultCounts) uint64 { return c.Loss }},
		"duplicate":   {FaultPlan{Duplicate: 1}, wire.CompOK, func(c FaultCounts) uint64 { return c.Duplicate }},
		"delay":       {FaultPlan{Delay: 0.3}, wire.CompOK, func(c FaultCounts) uint64 { return c.Delay }},
		"answer lost": {FaultPlan{AckLoss: 1}, wire.CompOK, func(c FaultCounts) uint64 { return c.AckLoss }},
		"RNR":         {FaultPlan{RNR: 1}, wire.CompOK, func(c FaultCounts) uint64 { return c.RNR }},
		"key":         {FaultPlan{CorruptKey: 1}, wire.CompRemoteBadAddress, func(c FaultCounts) uint64 { return c.CorruptKey }},
		"abort":       {FaultPlan{Abort: 1}, wire.CompRemoteAbort, func(c FaultCounts) uint64 { return c.Abort }},
	} {
		t.Run(name, func(t *testing.T) {
			pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
			src, dst := pr.a.region(200_000, 0), pr.b.region(200_000, allAccess)
			fill(src.b, 1)
			x.plan.Seed = 42
			for i, f := range []*Faults{pr.f.Faults(), pr.a.d.Faults(), pr.b.d.Faults()} {
				f.Set(x.plan)
				clear(dst.b)
				pr.b.recv(1, dst, 0, 16)
				pr.a.post(imm(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, len(src.b)), dst.addr, dst.RKey), 5))
				pr.a.scq.expect(uint16(i), x.s)
				if x.s == wire.CompOK {
					pr.b.scq.expect(1, wire.CompOK)
				}
				if ok := string(dst.b) == string(src.b); ok != (x.s == wire.CompOK) {
					t.Errorf("bytes arrived: %v", ok)
				}
				if x.count(f.Counts()) == 0 || x.count(f.Counts()) != f.Counts().Total() {
					t.Errorf("counts %+v", f.Counts())
				}
				f.Clear()
			}
			pr.b.scq.quiet(3 * time.Millisecond) // each notice came once
			want := map[string]uint64{"duplicate": 3 * 23, "answer lost": 3}[name]
			eventually(t, "duplicates are counted", func() bool { return pr.b.d.Stats().Duplicates == want })
		})
	}
}

// TestLossAbove: small packets pass, the larger never, until the fault is gone.
func TestLossAbove(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	src, dst := pr.a.region(64<<10, 0), pr.b.region(64<<10, allAccess)
	fill(src.b, 1)
	faults := pr.b.d.Faults()
	faults.Set(FaultPlan{LossAbove: 1000})
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 1000), dst.addr, dst.RKey))
	pr.a.scq.expect(1, wire.CompOK)
	if n := faults.Counts().Loss; n != 0 {
		t.Errorf("%d packets of 1000 bytes are lost", n)
	}
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 2, src.at(0, len(src.b)), dst.addr, dst.RKey))
	eventually(t, "it was tried again", func() bool { return faults.Counts().Loss > 100 })
	pr.a.scq.quiet(3 * time.Millisecond)
	faults.Clear()
	pr.a.scq.expect(2, wire.CompOK)
	if string(dst.b) != string(src.b) {
		t.Error("other bytes arrived")
	}
}

// TestUnmapped: pages that are gone when the device gets to them.
func TestUnmapped(t *testing.T) {
	pr := newPair(t, FabricOptions{}, Options{}, Options{}, epOptions{})
	dst := pr.b.region(8192, allAccess)
	src := pr.a.region(8192, allAccess)
	hole := must(pr.b.d.RegisterMR(MROptions{PD: pr.b.pd, IOVA: 0x1000, Length: 8192, PageShift: 12, Pages: []uint64{0x7000, 0x9000}, Access: allAccess}))(t)
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 1, src.at(0, 8192), 0x1000, hole.RKey))
	pr.a.scq.expect(1, wire.CompRemoteBadAddress)
	pr.a.post(pr.ab.rdma(wire.IORDMARead, 2, src.at(0, 8192), 0x1000, hole.RKey))
	pr.a.scq.expect(2, wire.CompRemoteBadAddress)
	mine := must(pr.a.d.RegisterMR(MROptions{PD: pr.a.pd, IOVA: 0x1000, Length: 4096, PageShift: 12, Pages: []uint64{0x7000}, Access: allAccess}))(t)
	pr.a.post(pr.ab.rdma(wire.IORDMAWrite, 3, wire.TxBuf{Addr: 0x1000, LKey: mine.LKey, Length: 100}, dst.addr, dst.RKey))
	pr.a.scq.expect(3, wire.CompLocalInvalidLKey)
	pr.b.recv(1, dst, 0, 4096)
	pr.a.post(pr.ab.send(4, wire.TxBuf{Addr: 0x1000, LKey: mine.LKey, Length: 100}))
	pr.a.scq.expect(4, wire.CompLocalInvalidLKey)
	pr.b.scq.expect(1, wire.CompRemoteAbort)
	// All of the target's memory goes while writes are under way, and comes back.
	for i := range 50 {
		pr.a.post(pr.ab.rdma(wire.IORDMAWrite, uint64(i), src.at(0, 8192), dst.addr, dst.RKey))
		pr.b.mem.unmap(true)
		pr.b.mem.unmap(false)
		if s := pr.a.scq.next().Base().Status(); s != wire.CompOK && s != wire.CompRemoteBadAddress {
			t.Errorf("status %v", s)
		}
	}
}
