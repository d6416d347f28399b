package device

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// guestMemory is a guest's memory: one range of DMA addresses. Allocation only
// goes up.
type guestMemory struct {
	mu    sync.RWMutex
	base  uint64
	bytes []byte
	next  uint64
}

func newGuestMemory(size int) *guestMemory {
	// Of words, so that atomic access is aligned.
	words := make([]uint64, size/8)
	return &guestMemory{base: 1 << 32, next: 1 << 32, bytes: unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)}
}

func (g *guestMemory) Lock()   { g.mu.RLock() }
func (g *guestMemory) Unlock() { g.mu.RUnlock() }

func (g *guestMemory) Bytes(addr uint64, n int) []byte {
	if addr < g.base || addr-g.base >= uint64(len(g.bytes)) || n <= 0 {
		return nil
	}
	off := addr - g.base
	end := min(uint64(len(g.bytes)), off+uint64(n))
	return g.bytes[off:end:end]
}

// alloc gives n zero bytes, aligned to a page, and their address.
func (g *guestMemory) alloc(t testing.TB, n int) (uint64, []byte) {
	addr := g.next
	g.next += uint64(n+4095) &^ 4095
	b := g.Bytes(addr, n)
	if len(b) < n {
		t.Fatal("the test's guest has no memory left")
	}
	return addr, b
}

// driver does to a function what the kernel's driver does (efa_com.c,
// efa_com_cmd.c, efa_main.c of Linux 7.3), through its regions alone.
type driver struct {
	t   testing.TB
	fn  *Function
	bus regions // fn, or a client that reaches it
	mem *guestMemory

	irqs [maxVectors]atomic.Int64

	resp     []byte // of register reads
	respAddr uint64
	seq      uint16

	entrySize int
	checksum  bool
	sq, cq    []byte
	pc, cc    uint16
	aenq      []byte
	aenqCC    uint32
}

// regions are a function's, as a guest reaches them.
type regions interface {
	ReadRegion(index int, offset uint64, p []byte) error
	WriteRegion(index int, offset uint64, p []byte) error
}

const aqDepth = wire.LinuxAQDepth

func newDriver(t testing.TB, f *Fabric, o FunctionOptions) *driver {
	return newDriverIn(t, f, o, newGuestMemory(8<<20))
}

func newDriverIn(t testing.TB, f *Fabric, o FunctionOptions, mem *guestMemory) *driver {
	d := &driver{t: t, mem: mem}
	o.Memory = d.mem
	o.Interrupt = func(v int) { d.irqs[v].Add(1) }
	if o.KeepAlive == 0 {
		o.KeepAlive = -1
	}
	fn, err := NewFunction(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fn.Close() })
	d.fn, d.bus = fn, fn
	return d
}

func (d *driver) write(region int, offset uint64, v uint32) {
	if err := d.bus.WriteRegion(region, offset, binary.LittleEndian.AppendUint32(nil, v)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) set(r wire.Reg, v uint32) { d.write(regionRegisters, uint64(r), v) }

func (d *driver) setAddr(lo wire.Reg, addr uint64) {
	d.set(lo, uint32(addr))
	d.set(lo+4, uint32(addr>>32))
}

// get reads a register the way the driver does, through memory.
func (d *driver) get(r wire.Reg) uint32 {
	d.t.Helper()
	d.seq++
	binary.LittleEndian.PutUint16(d.resp, d.seq+0x9a)
	d.set(wire.RegMMIORegRead, uint32(r)<<16|uint32(d.seq))
	var m wire.MMIOResp
	m.Decode(d.resp)
	if m.ReqID != d.seq || m.RegOff != uint16(r) {
		d.t.Fatalf("%s: the answer is %+v, want id %d", r, m, d.seq)
	}
	return m.Value
}

// reset does the reset handshake.
func (d *driver) reset() {
	d.t.Helper()
	if d.resp == nil {
		d.respAddr, d.resp = d.mem.alloc(d.t, wire.SizeMMIOResp)
		d.setAddr(wire.RegMMIORespLo, d.respAddr)
	}
	if wire.DevStsReady.Get(d.get(wire.RegDevSts)) != 1 {
		d.t.Fatal("the device is not ready")
	}
	if wire.CapsResetTimeout.Get(d.get(wire.RegCaps)) == 0 {
		d.t.Fatal("the driver refuses a reset timeout of zero")
	}
	d.set(wire.RegDevCtl, 1)
	d.setAddr(wire.RegMMIORespLo, d.respAddr)
	if wire.DevStsResetInProgress.Get(d.get(wire.RegDevSts)) != 1 {
		d.t.Error("the reset indication did not turn on")
	}
	d.set(wire.RegDevCtl, 0)
	if wire.DevStsResetInProgress.Get(d.get(wire.RegDevSts)) != 0 {
		d.t.Error("the reset indication did not turn off")
	}
}

// admin sets up the admin queue and notifications.
func (d *driver) admin() {
	d.t.Helper()
	version := d.get(wire.RegVersion)
	d.entrySize = wire.SizeAQEntry
	if version >= wire.APIVersion03 {
		d.entrySize = wire.SizeAQEntryV2
	}
	d.checksum = version >= wire.APIVersion02
	d.pc, d.cc, d.aenqCC = 0, 0, 0
	d.set(wire.RegIntrMask, 1)
	var addr uint64
	addr, d.sq = d.mem.alloc(d.t, aqDepth*d.entrySize)
	d.setAddr(wire.RegAQBaseLo, addr)
	d.set(wire.RegAQCaps, aqDepth|uint32(d.entrySize)<<16)
	addr, d.cq = d.mem.alloc(d.t, aqDepth*wire.SizeACQEntry)
	d.setAddr(wire.RegACQBaseLo, addr)
	d.set(wire.RegACQCaps, aqDepth|wire.SizeACQEntry<<16)
	addr, d.aenq = d.mem.alloc(d.t, wire.LinuxAENQDepth*wire.SizeAENQEntry)
	d.setAddr(wire.RegAENQBaseLo, addr)
	d.set(wire.RegAENQCaps, wire.LinuxAENQDepth|wire.SizeAENQEntry<<16)
	d.set(wire.RegAENQConsDB, 0)
	d.set(wire.RegIntrMask, 0)
}

// encoder is a command's payload.
type encoder interface{ Encode([]byte) }

// put writes a command into the queue, without the doorbell.
func (d *driver) put(op wire.Opcode, flags wire.AQFlags, c encoder) {
	entry := d.sq[int(d.pc%aqDepth)*d.entrySize:][:d.entrySize]
	clear(entry)
	if d.pc/aqDepth%2 == 0 {
		flags |= wire.AQPhase
	}
	desc := wire.AQDesc{CommandID: d.pc & wire.CommandIDMask, Opcode: op, Flags: flags}
	desc.Encode(entry)
	if c != nil {
		c.Encode(wire.AQPayload(entry))
	}
	if d.entrySize == wire.SizeAQEntryV2 {
		wire.SealChecksum(entry)
	}
	d.pc++
}

// completion gives the next completion, false if there is none.
func (d *driver) completion() (wire.ACQDesc, []byte, bool) {
	d.t.Helper()
	entry := d.cq[int(d.cc%aqDepth)*wire.SizeACQEntry:][:wire.SizeACQEntry]
	var desc wire.ACQDesc
	desc.Decode(entry)
	if desc.Phase() != (d.cc/aqDepth%2 == 0) {
		return desc, nil, false
	}
	if d.checksum && !wire.ChecksumOK(entry) {
		d.t.Errorf("completion %d has a wrong checksum", d.cc)
	}
	if want := d.cc & wire.CommandIDMask; desc.CommandID != want {
		d.t.Errorf("completion of command %d, want %d", desc.CommandID, want)
	}
	d.cc++
	return desc, entry[wire.PayloadACQ:], true
}

// command executes a command and gives how it ended.
func (d *driver) command(op wire.Opcode, flags wire.AQFlags, c encoder) (wire.AdminStatus, []byte) {
	d.t.Helper()
	before := d.irqs[0].Load()
	d.put(op, flags, c)
	d.set(wire.RegAQProdDB, uint32(d.pc))
	desc, resp, ok := d.completion()
	if !ok {
		d.t.Fatalf("%s was not completed", op)
	}
	d.interrupted(0, before)
	return desc.Status, resp
}

// interrupted waits until a vector has fired more often than before.
func (d *driver) interrupted(vector int, before int64) {
	d.t.Helper()
	for end := time.Now().Add(patience); d.irqs[vector].Load() == before; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			d.t.Fatalf("vector %d did not fire", vector)
		}
	}
}

// do executes a command that must succeed, and decodes its response.
func (d *driver) do(op wire.Opcode, flags wire.AQFlags, c encoder, resp interface{ Decode([]byte) }) {
	d.t.Helper()
	status, b := d.command(op, flags, c)
	if status != wire.AdminSuccess {
		d.t.Fatalf("%s: %s", op, status)
	}
	if resp != nil {
		resp.Decode(b)
	}
}

// fail executes a command that must end with a status.
func (d *driver) fail(want wire.AdminStatus, op wire.Opcode, flags wire.AQFlags, c encoder) {
	d.t.Helper()
	if got, _ := d.command(op, flags, c); got != want {
		d.t.Errorf("%s: %s, want %s", op, got, want)
	}
}

// probe does all that the driver does before it registers its RDMA device, and
// gives what it learned.
func (d *driver) probe() Attr {
	d.t.Helper()
	d.reset()
	if v := d.get(wire.RegControllerVersion); v < 1 {
		d.t.Errorf("controller version %#x is too old for the driver", v)
	}
	if w := wire.CapsDMAAddrWidth.Get(d.get(wire.RegCaps)); w < 32 || w > 64 {
		d.t.Errorf("a DMA width of %d is refused by the driver", w)
	}
	d.admin()
	var a Attr
	feature := func(id wire.FeatureID, resp interface{ Decode([]byte) }) {
		d.t.Helper()
		d.do(wire.OpGetFeature, 0, &wire.GetFeature{Feature: id}, resp)
	}
	feature(wire.FeatureDeviceAttr, &a.Device)
	feature(wire.FeatureQueueAttr1, &a.Queue1)
	feature(wire.FeatureQueueAttr2, &a.Queue2)
	feature(wire.FeatureNetworkAttr, &a.Network)
	feature(wire.FeatureEventQueueAttr, &a.EQ)
	feature(wire.FeatureHWHints, &wire.HWHints{})
	var groups wire.AENQConfig
	feature(wire.FeatureAENQConfig, &groups)
	const all = 1<<wire.AENQFatalError | 1<<wire.AENQWarning | 1<<wire.AENQNotification | 1<<wire.AENQKeepAlive
	if groups.Supported&all != all {
		d.t.Errorf("notification groups %#x, the driver wants %#x", groups.Supported, all)
	}
	set := wire.SetFeature{Feature: wire.FeatureAENQConfig}
	(&wire.AENQConfig{Enabled: all}).Encode(set.Data[:])
	d.do(wire.OpSetFeature, 0, &set, nil)
	return a
}

// hostInfo tells the device who drives it.
func (d *driver) hostInfo(kernel string) {
	d.t.Helper()
	info := wire.HostInfo{KernelVer: 0x070304, SpecMajor: wire.SpecVersionMajor, Flags: wire.HostInTree}
	copy(info.OSDist[:], kernel)
	addr, b := d.mem.alloc(d.t, wire.SizeHostInfo)
	info.Encode(b)
	d.do(wire.OpSetFeature, wire.AQCtrlData, &wire.SetFeature{
		Feature:       wire.FeatureHostInfo,
		ControlBuffer: wire.CtrlBuffer{Length: wire.SizeHostInfo, Addr: addr},
	}, nil)
}

// event gives the next notification, waiting for it.
func (d *driver) event() wire.AENQEntry {
	d.t.Helper()
	entry := d.aenq[int(d.aenqCC%wire.LinuxAENQDepth)*wire.SizeAENQEntry:][:wire.SizeAENQEntry]
	word := (*uint32)(unsafe.Pointer(&entry[4]))
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if atomic.LoadUint32(word)&1 == 1-d.aenqCC/wire.LinuxAENQDepth%2 {
			break
		}
		if time.Now().After(end) {
			d.t.Fatal("no notification came")
		}
	}
	var e wire.AENQEntry
	e.Decode(entry)
	d.aenqCC++
	return e
}

// patience bounds every wait of these tests.
const patience = 10 * time.Second
