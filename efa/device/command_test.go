package device

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa/wire"
)

// region registers guest memory of n bytes, scattered: its pages of 4096 bytes lie
// in reverse order, so that a page taken for another shows. It gives the keys and
// the pages.
func (d *driver) region(pd uint16, iova uint64, n int, list string) (wire.RegMRResp, [][]byte) {
	d.t.Helper()
	count := int((iova%4096 + uint64(n) + 4095) / 4096)
	addr, b := d.mem.alloc(d.t, count*4096)
	pages := make([][]byte, count)
	addrs := make([]byte, 0, count*8)
	for i := range count {
		at := count - 1 - i
		pages[i] = b[at*4096:][:4096]
		addrs = binary.LittleEndian.AppendUint64(addrs, addr+uint64(at)*4096)
	}
	c := wire.RegMR{
		PD: pd, Length: uint64(n), PageShift: 12, IOVA: iova,
		Access: wire.AccessLocalWrite | wire.AccessRemoteWrite | wire.AccessRemoteRead,
	}
	var flags wire.AQFlags
	switch list {
	case "inline":
		for i := range count {
			c.Pages[i] = binary.LittleEndian.Uint64(addrs[i*8:])
		}
	case "direct":
		at, l := d.mem.alloc(d.t, len(addrs))
		copy(l, addrs)
		c.Pages.SetBuffer(wire.CtrlBuffer{Length: uint32(len(addrs)), Addr: at})
		flags = wire.AQCtrlData
	case "indirect":
		c.Pages.SetBuffer(d.chunks(addrs))
		flags = wire.AQCtrlData | wire.AQCtrlDataIndirect
	}
	var r wire.RegMRResp
	d.do(wire.OpRegMR, flags, &c, &r)
	return r, pages
}

// chunks lays a page list out as efa_verbs.c does: pages of the list, not
// contiguous, and chunks that name them, each linked to the next.
func (d *driver) chunks(list []byte) wire.CtrlBuffer {
	var pointers []uint64
	for len(list) > 0 {
		at, b := d.mem.alloc(d.t, wire.SizeChunkPage)
		d.mem.alloc(d.t, 1) // so that the next is elsewhere
		list = list[copy(b, list):]
		pointers = append(pointers, at)
	}
	var first wire.CtrlBuffer
	var link []byte
	for len(pointers) > 0 {
		n := min(len(pointers), wire.PointersPerChunk)
		at, b := d.mem.alloc(d.t, wire.SizeChunk)
		for i, p := range pointers[:n] {
			binary.LittleEndian.PutUint64(b[i*8:], p)
		}
		pointers = pointers[n:]
		c := wire.CtrlBuffer{Length: uint32(n*8 + wire.SizeCtrlBuffer), Addr: at}
		if link == nil {
			first = c
		} else {
			c.Encode(link)
		}
		link = b[wire.ChunkLink:]
	}
	return first
}

// TestRegMR registers regions with each kind of page list and looks at every byte
// through the region, as a transfer would.
func TestRegMR(t *testing.T) {
	d := newDriverIn(t, newTestFabric(t), FunctionOptions{}, newGuestMemory(96<<20))
	d.probe()
	var pd wire.AllocPDResp
	d.do(wire.OpAllocPD, 0, nil, &pd)
	for _, test := range []struct {
		list string
		iova uint64
		n    int
	}{
		{"inline", 0x10000, 1},
		{"inline", 0x10fff, 2},
		{"inline", 0x7f0000000123, 3*4096 + 17},
		{"direct", 0x7f0000000fff, 100 * 4096},
		{"indirect", 0x7f0000000001, 100 * 4096},
		{"indirect", 0x7f0000000000, 512 * 4096},
		// Several pages of the list.
		{"indirect", 0x7f0000000800, 5000 * 4096},
	} {
		t.Run(fmt.Sprintf("%s %d", test.list, test.n), func(t *testing.T) {
			d.t = t
			next := d.mem.next
			defer func() { d.mem.next = next }()
			r, pages := d.region(pd.PD, test.iova, test.n, test.list)
			defer d.do(wire.OpDeregMR, 0, &wire.DeregMR{LKey: r.LKey}, nil)
			for i, p := range pages {
				binary.LittleEndian.PutUint64(p[4088:], uint64(i))
			}
			mr := d.fn.dev.regionL(r.LKey)
			if mr == nil {
				t.Fatalf("no region of lkey %#x", r.LKey)
			}
			if want := uint64(test.n); mr.length != want || mr.iova != test.iova {
				t.Errorf("the region has %d bytes at %#x", mr.length, mr.iova)
			}
			for i := range pages {
				at := test.iova&^4095 + uint64(i)*4096 + 4088
				b := mr.bytes(d.mem, at, 8)
				if len(b) != 8 || binary.LittleEndian.Uint64(b) != uint64(i) {
					t.Fatalf("page %d is not where it should be: %x", i, b)
				}
			}
		})
	}
	d.t = t
	d.do(wire.OpDeallocPD, 0, &wire.DeallocPD{PD: pd.PD}, nil)
	if d.fn.allPages != 0 || len(d.fn.pages) != 0 {
		t.Errorf("%d pages of %d regions are counted after all are gone", d.fn.allPages, len(d.fn.pages))
	}
}

// TestPageChunksWithALink: more than one chunk takes a region of a gigabyte, so it
// is read here alone, without the memory that it would stand for.
func TestPageChunksWithALink(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{})
	const n = wire.PointersPerChunk*512 + 700
	var list []byte
	for i := range n {
		list = binary.LittleEndian.AppendUint64(list, uint64(i)<<12)
	}
	first := d.chunks(list)
	pages, err := d.fn.pageChunks("test", first, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != n {
		t.Fatalf("%d pages, want %d", len(pages), n)
	}
	for i, p := range pages {
		if p != uint64(i)<<12 {
			t.Fatalf("page %d is %#x", i, p)
		}
	}
	// A chain that closes in itself ends where the count says.
	_, b := first.Addr, d.mem.Bytes(first.Addr, wire.SizeChunk)
	first.Encode(b[wire.ChunkLink:])
	if pages, err = d.fn.pageChunks("test", first, n); err != nil || len(pages) != n {
		t.Errorf("a circle of chunks: %d pages, %v", len(pages), err)
	}
}

func TestCommandsRefused(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{Options: Options{MaxMRPages: 1 << 20}})
	d.probe()
	var pd wire.AllocPDResp
	d.do(wire.OpAllocPD, 0, nil, &pd)
	list, b := d.mem.alloc(t, 4096)
	for i := range 512 {
		binary.LittleEndian.PutUint64(b[i*8:], list)
	}
	zero, _ := d.mem.alloc(t, 4096)
	buffer := func(length uint32, addr uint64) (p wire.PageList) {
		p.SetBuffer(wire.CtrlBuffer{Length: length, Addr: addr})
		return p
	}
	inline := wire.PageList{list, list, list, list}
	both := wire.AQCtrlData | wire.AQCtrlDataIndirect
	illegal, malformed := wire.AdminIllegalParameter, wire.AdminMalformedRequest
	for _, test := range []struct {
		name  string
		want  wire.AdminStatus
		op    wire.Opcode
		flags wire.AQFlags
		c     encoder
	}{
		{"opcode 0", wire.AdminBadOpcode, 0, 0, nil},
		{"opcode 24", wire.AdminBadOpcode, 24, 0, nil},
		{"opcode 255", wire.AdminBadOpcode, 255, 0, nil},
		{"ALLOC_MR", wire.AdminUnsupportedOpcode, wire.OpAllocMR, 0, &wire.AllocMR{PD: pd.PD}},
		{"SERVICE", wire.AdminUnsupportedOpcode, wire.OpService, 0, nil},
		{"flags", malformed, wire.OpAllocPD, 1 << 3, nil},
		{"no such PD", illegal, wire.OpDeallocPD, 0, &wire.DeallocPD{PD: 999}},
		{"no such UAR", illegal, wire.OpDeallocUAR, 0, &wire.DeallocUAR{UAR: 99}},
		{"no such AH", illegal, wire.OpDestroyAH, 0, &wire.DestroyAH{AH: 9, PD: pd.PD}},
		{"no such MR", illegal, wire.OpDeregMR, 0, &wire.DeregMR{LKey: 77}},
		{"no such CQ", illegal, wire.OpDestroyCQ, 0, &wire.DestroyCQ{CQ: 500}},
		{"no such EQ", illegal, wire.OpDestroyEQ, 0, &wire.DestroyEQ{EQN: 200}},
		{"no such QP", illegal, wire.OpDestroyQP, 0, &wire.DestroyQP{Handle: 1 << 20}},
		{"modify no QP", illegal, wire.OpModifyQP, 0, &wire.ModifyQP{Handle: 77}},
		{"query no QP", illegal, wire.OpQueryQP, 0, &wire.QueryQP{Handle: 77}},
		{"no such counter", illegal, wire.OpDestroyEventCounter, 0, &wire.DestroyEventCounter{Handle: 4}},
		{"modify no counter", illegal, wire.OpModifyEventCounter, 0, &wire.ModifyEventCounter{Handle: 4}},
		{"attach no counter", illegal, wire.OpAttachEventCounter, 0, &wire.AttachEventCounter{Handle: 4}},
		{"detach no counter", illegal, wire.OpDetachEventCounter, 0, &wire.AttachEventCounter{Handle: 4}},
		{"EQ vector", illegal, wire.OpCreateEQ, 0, &wire.CreateEQ{Depth: 64, MSIXVector: 33, EntryWords: 4, BaseAddr: list, Events: 1}},
		{"feature", illegal, wire.OpGetFeature, 0, &wire.GetFeature{Feature: 8}},
		{"set feature", illegal, wire.OpSetFeature, 0, &wire.SetFeature{Feature: wire.FeatureDeviceAttr}},
		{"notification group", illegal, wire.OpSetFeature, 0, &wire.SetFeature{Feature: wire.FeatureAENQConfig, Data: [44]byte{4: 1}}},
		{"host info nowhere", malformed, wire.OpSetFeature, 0, &wire.SetFeature{Feature: wire.FeatureHostInfo}},
		{"host info short", malformed, wire.OpSetFeature, wire.AQCtrlData, &wire.SetFeature{Feature: wire.FeatureHostInfo, ControlBuffer: wire.CtrlBuffer{Length: 8, Addr: list}}},
		{"host info not mapped", illegal, wire.OpSetFeature, wire.AQCtrlData, &wire.SetFeature{Feature: wire.FeatureHostInfo, ControlBuffer: wire.CtrlBuffer{Length: 180, Addr: 1}}},
		{"stats type", illegal, wire.OpGetStats, 0, &wire.GetStats{Type: 5}},
		{"stats of a queue", illegal, wire.OpGetStats, 0, &wire.GetStats{Scope: wire.StatsScopeQueue}},

		{"MR of nothing", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 12, Pages: inline}},
		{"MR page of a byte", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 0, Length: 1, Pages: inline}},
		{"MR page too large", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 63, Length: 1, Pages: inline}},
		{"MR wraps", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 1<<64 - 1, IOVA: 4095, Pages: inline}},
		{"MR past the end", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 8192, IOVA: 1<<64 - 4096, Pages: inline}},
		{"MR of too many pages", illegal, wire.OpRegMR, wire.AQCtrlData, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 4096<<20 + 1, Pages: buffer(1<<32-1, list)}},
		{"MR of five pages inline", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 5 * 4096, Pages: inline}},
		{"MR crooked page", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 1, Pages: wire.PageList{list + 8}}},
		{"MR access", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 1, Pages: inline, Access: 1 << 6}},
		{"MR of no PD", illegal, wire.OpRegMR, 0, &wire.RegMR{PD: 999, PageShift: 12, Length: 1, Pages: inline}},
		{"MR list short", illegal, wire.OpRegMR, wire.AQCtrlData, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 5 * 4096, Pages: buffer(39, list)}},
		{"MR list not mapped", illegal, wire.OpRegMR, wire.AQCtrlData, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 5 * 4096, Pages: buffer(40, 1<<63)}},
		{"MR list at the end", illegal, wire.OpRegMR, wire.AQCtrlData, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 5 * 4096, Pages: buffer(40, 1<<64-8)}},
		{"MR chunk short", illegal, wire.OpRegMR, both, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 5 * 4096, Pages: buffer(19, list)}},
		{"MR chunk not mapped", illegal, wire.OpRegMR, both, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 5 * 4096, Pages: buffer(20, 1)}},
		{"MR list page not mapped", illegal, wire.OpRegMR, both, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 600 * 4096, Pages: buffer(28, zero)}},
		{"MR indirect alone", malformed, wire.OpRegMR, wire.AQCtrlDataIndirect, &wire.RegMR{PD: pd.PD, PageShift: 12, Length: 1, Pages: inline}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.t = t
			d.fail(test.want, test.op, test.flags, test.c)
		})
	}
	// A command that was spoilt on its way.
	d.t = t
	d.put(wire.OpAllocPD, 0, nil)
	d.sq[int((d.pc-1)%aqDepth)*d.entrySize+100] ^= 1
	d.set(wire.RegAQProdDB, uint32(d.pc))
	if desc, _, ok := d.completion(); !ok || desc.Status != malformed {
		t.Errorf("a spoilt command: %v, %s", ok, desc.Status)
	}
}

// TestAllRegionsHaveAQuota: a guest cannot make this process run out of memory.
func TestAllRegionsHaveAQuota(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{})
	d.probe()
	var pd wire.AllocPDResp
	d.do(wire.OpAllocPD, 0, nil, &pd)
	d.fn.allPages = maxPages - 3
	page, _ := d.mem.alloc(t, 4096)
	c := wire.RegMR{PD: pd.PD, PageShift: 12, Length: 4 * 4096, Pages: wire.PageList{page, page, page, page}}
	d.fail(wire.AdminResourceAllocationFailure, wire.OpRegMR, 0, &c)
	c.Length = 3 * 4096
	d.do(wire.OpRegMR, 0, &c, nil)
}

func TestGetStats(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{})
	d.probe()
	d.fn.dev.stats.txPkts.Store(1)
	d.fn.dev.stats.recvWRs.Store(2)
	d.fn.dev.stats.readErr.Store(3)
	d.fn.dev.stats.writeRecvBytes.Store(4)
	d.fn.dev.stats.impaired.Store(5)
	var got struct {
		Basic    wire.BasicStats
		Messages wire.MessagesStats
		Read     wire.RDMAReadStats
		Write    wire.RDMAWriteStats
		Network  wire.NetworkStats
	}
	want := got
	want.Basic.TxPkts, want.Messages.RecvWRs, want.Read.ReadWRErr, want.Write.WriteRecvBytes, want.Network.ImpairedRemoteConnEvents = 1, 2, 3, 4, 5
	for i, resp := range []interface{ Decode([]byte) }{&got.Basic, &got.Messages, &got.Read, &got.Write, &got.Network} {
		d.do(wire.OpGetStats, 0, &wire.GetStats{Type: wire.StatsType(i)}, resp)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
}
