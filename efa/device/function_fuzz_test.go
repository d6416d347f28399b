package device

import (
	"encoding/binary"
	"testing"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// fuzzGuest is a guest of which the fuzzer has hold: its memory is the middle of a
// larger one, whose ends no address leads to, so they must never change.
type fuzzGuest struct {
	*driver
	whole []byte
}

const fuzzCanary = 4096

func newFuzzGuest(t *testing.T) *fuzzGuest {
	mem := newGuestMemory(512 << 10)
	g := &fuzzGuest{whole: mem.bytes}
	for _, end := range [][]byte{g.whole[:fuzzCanary], g.whole[len(g.whole)-fuzzCanary:]} {
		for i := range end {
			end[i] = 0xa5
		}
	}
	mem.bytes = g.whole[fuzzCanary : len(g.whole)-fuzzCanary]
	g.driver = newDriverIn(t, newTestFabric(t), FunctionOptions{Options: Options{LLQBytes: 1 << 16, MaxMRPages: 1 << 10}}, mem)
	return g
}

// check ends the function, so that nothing works any more, and looks at the ends.
func (g *fuzzGuest) check(t *testing.T) {
	if err := g.fn.Close(); err != nil {
		t.Error(err)
	}
	for _, end := range [][]byte{g.whole[:fuzzCanary], g.whole[len(g.whole)-fuzzCanary:]} {
		for i, v := range end {
			if v != 0xa5 {
				t.Fatalf("byte %d outside the guest's memory has changed", i)
			}
		}
	}
}

// FuzzAdminEntry executes admin commands of the fuzzer's after some that make
// objects: each piece of 64 bytes is one, its opcode, flags and payload as they
// come. Every command must be completed.
func FuzzAdminEntry(f *testing.F) {
	piece := func(op wire.Opcode, flags wire.AQFlags, c encoder) []byte {
		b := make([]byte, 64)
		b[2], b[3] = byte(op), byte(flags)
		if c != nil {
			c.Encode(b[4:])
		}
		return b
	}
	const at = 1 << 32
	both := wire.AQCtrlData | wire.AQCtrlDataIndirect
	list := wire.PageList{}
	list.SetBuffer(wire.CtrlBuffer{Length: 4096, Addr: at})
	for op := range wire.MaxOpcode + 2 {
		f.Add(piece(op, 0, nil))
	}
	f.Add(piece(wire.OpRegMR, 0, &wire.RegMR{PageShift: 12, Length: 8192, IOVA: 5, Pages: wire.PageList{at, at, at, at}}))
	f.Add(piece(wire.OpRegMR, wire.AQCtrlData, &wire.RegMR{PageShift: 12, Length: 1 << 20, Pages: list}))
	f.Add(piece(wire.OpRegMR, both, &wire.RegMR{PageShift: 21, Length: 1 << 30, Pages: list}))
	f.Add(piece(wire.OpRegMR, 0, &wire.RegMR{PhysMode: true, Length: 1 << 40, IOVA: at}))
	f.Add(piece(wire.OpCreateCQ, 0, &wire.CreateCQ{EntryWords: 4, SubCQDepth: 16, NumSubCQs: 1, BaseAddr: at}))
	f.Add(piece(wire.OpCreateEQ, 0, &wire.CreateEQ{EntryWords: 4, Depth: 16, BaseAddr: at, MSIXVector: 1, Events: 1}))
	f.Add(append(
		piece(wire.OpCreateQP, 0, &wire.CreateQP{Type: wire.QPTypeSRD, RQBaseAddr: at, SQRingSize: 512, SQDepth: 8, RQRingSize: 128, RQDepth: 8}),
		piece(wire.OpModifyQP, 0, &wire.ModifyQP{Mask: 0x3f, Handle: 0x100, State: wire.QPStateError})...))
	f.Add(piece(wire.OpSetFeature, wire.AQCtrlData, &wire.SetFeature{Feature: wire.FeatureHostInfo, ControlBuffer: wire.CtrlBuffer{Length: 180, Addr: at}}))
	f.Add(append(
		piece(wire.OpCreateEventCounter, 0, &wire.CreateEventCounter{Addr: at}),
		piece(wire.OpModifyEventCounter, 0, &wire.ModifyEventCounter{Handle: 1, Value: 5})...))

	f.Fuzz(func(t *testing.T, data []byte) {
		g := newFuzzGuest(t)
		e := connect(g.driver)
		e.meet(g.fn.Device().GID())
		g.region(e.pd, 0x1000, 5000, "direct")
		g.do(wire.OpCreateEventCounter, 0, &wire.CreateEventCounter{Addr: g.mem.base}, nil)
		for ; len(data) >= 64; data = data[64:] {
			raw := rawPayload(data[4:64])
			g.put(wire.Opcode(data[2]), wire.AQFlags(data[3])&^wire.AQPhase, &raw)
			g.set(wire.RegAQProdDB, uint32(g.pc))
			// A command can write over the queue itself, by way of a counter;
			// whoever does so has himself to blame for a completion lost.
			g.cc++
		}
		if got := g.fn.aq.consumer; got != g.pc && g.fn.aq.depth != 0 {
			t.Errorf("%d commands of %d were carried out", got, g.pc)
		}
		g.check(t)
	})
}

// rawPayload is a payload as it comes.
type rawPayload []byte

func (p *rawPayload) Encode(b []byte) { copy(b, *p) }

// FuzzRegisters writes the fuzzer's values to registers, doorbells and device
// memory of a device with queues: 8 bytes are a region, an offset and a value.
func FuzzRegisters(f *testing.F) {
	write := func(region byte, offset uint16, v uint32) []byte {
		b := []byte{region, 0}
		b = binary.LittleEndian.AppendUint16(b, offset)
		return binary.LittleEndian.AppendUint32(b, v)
	}
	f.Add(write(0, uint16(wire.RegDevCtl), 1))
	f.Add(append(write(0, uint16(wire.RegAQCaps), 32|64<<16), write(0, uint16(wire.RegAQProdDB), 5)...))
	f.Add(append(write(0, uint16(wire.RegMMIORespHi), 1), write(0, uint16(wire.RegMMIORegRead), 7)...))
	f.Add(write(0, uint16(wire.RegEQDB), 1<<31))
	f.Add(write(0, uint16(wire.RegAENQCaps), 16|64<<16))
	f.Add(append(write(2, 0, 0x80000000), write(4, 0, 1)...))
	f.Add(write(4, 4, 9))
	f.Add(write(4, 2048, 1<<31))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := newFuzzGuest(t)
		e := connect(g.driver)
		e.meet(g.fn.Device().GID())
		regions := []int{regionRegisters, regionLLQ, regionDoorbells}
		for ; len(data) >= 8; data = data[8:] {
			region := regions[data[0]%3]
			n := 1 << (data[1] % 4)
			offset := uint64(binary.LittleEndian.Uint16(data[2:]))
			var value [8]byte
			copy(value[:], data[4:8])
			if offset+uint64(n) > g.fn.Region(region) {
				continue // whoever serves the function keeps such away
			}
			if data[1]&0x80 != 0 {
				if err := g.fn.ReadRegion(region, offset, value[:n]); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := g.fn.WriteRegion(region, offset, value[:n]); err != nil {
				t.Fatal(err)
			}
		}
		// Whatever was done, a driver that begins anew finds a device.
		g.fn.Reset()
		g.resp = nil
		g.probe()
		g.check(t)
	})
}

// FuzzConfigSpace writes the fuzzer's bytes to configuration space: 3 bytes are an
// offset and a length, and then come the bytes. What identifies the function and
// what it can do must stay, whatever is written.
func FuzzConfigSpace(f *testing.F) {
	f.Add([]byte{0, 0, 4, 1, 2, 3, 4})
	f.Add([]byte{4, 0, 2, 0xff, 0xff})
	f.Add([]byte{0x10, 0, 24, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x48, 0, 2, 0xff, 0xff})
	f.Add([]byte{0x82, 0, 2, 0xff, 0xff})
	fn, err := NewFunction(NewFabric(FabricOptions{}), FunctionOptions{Options: Options{LLQBytes: 1 << 16}, KeepAlive: -1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { fn.Close() })
	var fresh configSpace
	fresh.init(wire.DeviceEFA1, 33, 1<<16)
	f.Fuzz(func(t *testing.T, data []byte) {
		fn.Reset()
		for len(data) >= 3 {
			offset := uint64(binary.LittleEndian.Uint16(data)) % configSize
			n := min(int(data[2]), len(data)-3, int(configSize-offset))
			if err := fn.WriteRegion(regionConfig, offset, data[3:3+n]); err != nil {
				t.Fatal(err)
			}
			data = data[3+n:]
		}
		var got [configSize]byte
		if err := fn.ReadRegion(regionConfig, 0, got[:]); err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if keep := ^fresh.writable[i]; v&keep != fresh.bytes[i]&keep {
				t.Fatalf("byte %#x of configuration space is %#x, was %#x", i, v, fresh.bytes[i])
			}
		}
	})
}
