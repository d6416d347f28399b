package device

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/peerdirect/peerdirect/efa/wire"
)

func newTestFabric(t testing.TB) *Fabric {
	f := NewFabric(FabricOptions{Seed: 1})
	t.Cleanup(f.Close)
	return f
}

// TestDriverProbe is what the kernel driver does from probe to remove, twice, on
// every version of the admin interface.
func TestDriverProbe(t *testing.T) {
	for _, test := range []struct {
		name    string
		o       FunctionOptions
		device  uint16
		entries int
	}{
		{"0.1", FunctionOptions{APIVersion: wire.APIVersion01}, wire.DeviceEFA1, wire.SizeAQEntry},
		{"0.2", FunctionOptions{APIVersion: wire.APIVersion02}, wire.DeviceEFA1, wire.SizeAQEntry},
		{"0.3", FunctionOptions{}, wire.DeviceEFA1, wire.SizeAQEntryV2},
		{"two sub-CQs", FunctionOptions{Options: Options{SubCQs: 2}}, wire.DeviceEFA0, wire.SizeAQEntryV2},
		{"efa4", FunctionOptions{DeviceID: wire.DeviceEFA4}, wire.DeviceEFA4, wire.SizeAQEntryV2},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDriver(t, newTestFabric(t), test.o)
			var id [4]byte
			d.fn.ReadRegion(regionConfig, cfgVendor, id[:])
			if got := binary.LittleEndian.Uint32(id[:]); got != wire.VendorID|uint32(test.device)<<16 {
				t.Errorf("the function is %08x, want device %04x", got, test.device)
			}
			for range 2 {
				a := d.probe()
				if d.entrySize != test.entries {
					t.Errorf("admin commands of %d bytes, want %d", d.entrySize, test.entries)
				}
				if a.Device.DoorbellBAR != doorbellBAR || a.Device.AdminAPIVersion < 1 || a.Device.GUID == 0 || a.Network.Addr == (wire.GID{}) {
					t.Errorf("device attributes %+v, network %+v", a.Device, a.Network)
				}
				d.hostInfo("test")
				if info, ok := d.fn.HostInfo(); !ok || wire.Text(info.OSDist[:]) != "test" {
					t.Errorf("host information %+v, %v", info, ok)
				}
				// 40 commands wrap both queues, whose depth is 32.
				for range 40 {
					var pd wire.AllocPDResp
					d.do(wire.OpAllocPD, 0, nil, &pd)
					d.do(wire.OpDeallocPD, 0, &wire.DeallocPD{PD: pd.PD}, nil)
				}
				var uar wire.AllocUARResp
				d.do(wire.OpAllocUAR, 0, nil, &uar) // left behind, for the reset
			}
			d.reset()
			if _, ok := d.fn.HostInfo(); ok {
				t.Error("the driver is known after a reset")
			}
			if s := d.fn.Device().Stats(); s.Resets == 0 {
				t.Error("no reset was counted")
			}
		})
	}
}

func TestNewFunctionRefuses(t *testing.T) {
	f := newTestFabric(t)
	for _, o := range []FunctionOptions{
		{DeviceID: 0x1234}, {APIVersion: 4}, {Vectors: 257}, {Vectors: -1},
	} {
		if fn, err := NewFunction(f, o); err == nil {
			fn.Close()
			t.Errorf("%+v was made", o)
		}
	}
}

// TestCommandBatch rings the doorbell once for as many commands as fit.
func TestCommandBatch(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{})
	d.probe()
	for range 3 {
		for range aqDepth {
			d.put(wire.OpAllocPD, 0, nil)
		}
		d.set(wire.RegAQProdDB, uint32(d.pc))
		seen := map[uint16]bool{}
		for range aqDepth {
			desc, b, ok := d.completion()
			if !ok || desc.Status != wire.AdminSuccess {
				t.Fatalf("completion %d: %v, %v", d.cc, ok, desc.Status)
			}
			var r wire.AllocPDResp
			r.Decode(b)
			seen[r.PD] = true
		}
		if len(seen) != aqDepth {
			t.Errorf("%d domains for %d commands", len(seen), aqDepth)
		}
	}
	// A doorbell beyond what was written runs nothing again.
	d.set(wire.RegAQProdDB, uint32(d.pc)+7)
	if _, _, ok := d.completion(); ok {
		t.Error("a command that was not written was completed")
	}
}

// TestInterruptMask: while masked nothing fires; what completed under the mask is
// told when it goes.
func TestInterruptMask(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{})
	d.probe()
	d.set(wire.RegIntrMask, 1)
	before := d.irqs[0].Load()
	d.put(wire.OpAllocPD, 0, nil)
	d.set(wire.RegAQProdDB, uint32(d.pc))
	if _, _, ok := d.completion(); !ok {
		t.Fatal("no completion under the mask")
	}
	if d.irqs[0].Load() != before {
		t.Error("an interrupt under the mask")
	}
	d.set(wire.RegIntrMask, 0)
	if d.irqs[0].Load() != before+1 {
		t.Error("no interrupt after the mask")
	}
}

func TestAdminFaults(t *testing.T) {
	f := newTestFabric(t)
	var traced []AdminTrace
	d := newDriver(t, f, FunctionOptions{Trace: func(a AdminTrace) { a.Payload = nil; traced = append(traced, a) }})
	d.probe()
	traced = nil
	d.fn.InjectAdmin(AdminFault{Opcode: wire.OpAllocUAR, Count: 2, Status: wire.AdminResourceAllocationFailure})
	d.do(wire.OpAllocPD, 0, nil, nil) // not meant
	d.fail(wire.AdminResourceAllocationFailure, wire.OpAllocUAR, 0, nil)
	d.fail(wire.AdminResourceAllocationFailure, wire.OpAllocUAR, 0, nil)
	d.do(wire.OpAllocUAR, 0, nil, nil)
	var ops []wire.Opcode
	for _, a := range traced {
		ops = append(ops, a.Op)
		if (a.Fault != nil) != (a.Status != wire.AdminSuccess) || (a.Err != nil) != (a.Status != wire.AdminSuccess) {
			t.Errorf("trace %+v", a)
		}
	}
	if diff := cmp.Diff([]wire.Opcode{wire.OpAllocPD, wire.OpAllocUAR, wire.OpAllocUAR, wire.OpAllocUAR}, ops); diff != "" {
		t.Errorf("traced commands (-want +got):\n%s", diff)
	}

	// Done, but the driver is not told.
	before := d.irqs[0].Load()
	d.fn.InjectAdmin(AdminFault{NoInterrupt: true})
	d.put(wire.OpAllocPD, 0, nil)
	d.set(wire.RegAQProdDB, uint32(d.pc))
	if _, _, ok := d.completion(); !ok || d.irqs[0].Load() != before {
		t.Errorf("completion %v, %d interrupts; want one without", ok, d.irqs[0].Load()-before)
	}

	// Not completed: the next command's completion takes the place.
	d.fn.InjectAdmin(AdminFault{NoCompletion: true})
	d.put(wire.OpAllocPD, 0, nil)
	d.set(wire.RegAQProdDB, uint32(d.pc))
	if _, _, ok := d.completion(); ok {
		t.Error("a command was completed that should time out")
	}
	d.reset()
	d.admin()

	d.fn.InjectAdmin(AdminFault{BadChecksum: true})
	d.put(wire.OpAllocPD, 0, nil)
	d.set(wire.RegAQProdDB, uint32(d.pc))
	if wire.ChecksumOK(d.cq[:wire.SizeACQEntry]) {
		t.Error("the checksum is right that should be wrong")
	}
}

func TestNotifications(t *testing.T) {
	f := newTestFabric(t)
	d := newDriver(t, f, FunctionOptions{KeepAlive: time.Millisecond})
	d.probe()
	// 40 wrap the queue, whose depth is 16.
	for range 40 {
		if e := d.event(); e.Group != wire.AENQKeepAlive {
			t.Fatalf("a notification of group %s", e.Group)
		}
		d.set(wire.RegAENQConsDB, d.aenqCC)
	}
	// Keep-alives are lost on request, and nothing else is.
	d.fn.Device().Faults().Set(FaultPlan{DropKeepAlive: true})
	next := func(want wire.AENQGroup, syndrome EventKind) {
		t.Helper()
		for {
			e := d.event()
			d.set(wire.RegAENQConsDB, d.aenqCC)
			if e.Group == wire.AENQKeepAlive { // sent before they were lost
				continue
			}
			if e.Group != want || e.Syndrome != uint16(syndrome) {
				t.Errorf("a notification of group %s, syndrome %d, want %s, %d", e.Group, e.Syndrome, want, syndrome)
			}
			return
		}
	}
	d.fn.Device().Faults().Update(func(p *FaultPlan) { p.LinkDown = true })
	next(wire.AENQNotification, EventLinkDown)
	d.fn.Device().Faults().Update(func(p *FaultPlan) { p.LinkDown = false })
	next(wire.AENQNotification, EventLinkUp)
	d.fn.Device().Fail("test")
	next(wire.AENQFatalError, 0)
	if wire.DevStsFatalError.Get(d.get(wire.RegDevSts)) != 1 {
		t.Error("the status register tells no fatal error")
	}
	count := d.irqs[0].Load()
	time.Sleep(20 * time.Millisecond)
	if d.irqs[0].Load() != count {
		t.Error("interrupts while keep-alives are lost")
	}
	d.fn.Device().Faults().Clear()
	time.Sleep(20 * time.Millisecond)
	if d.irqs[0].Load() != count {
		t.Error("a device that failed is alive")
	}

	// The driver resets it and all is well again.
	d.probe()
	if wire.DevStsFatalError.Get(d.get(wire.RegDevSts)) != 0 {
		t.Error("a fatal error outlived the reset")
	}
	d.event()
	// A driver that reads none loses those for which there is no room, and the
	// device does not write over what is unread.
	d.fn.Device().Faults().Set(FaultPlan{DropKeepAlive: true})
	time.Sleep(5 * time.Millisecond)
	for range 2 * wire.LinuxAENQDepth {
		d.fn.happened(Event{Kind: EventWarning})
	}
	for range wire.LinuxAENQDepth - 1 {
		d.event()
	}
	d.set(wire.RegAENQConsDB, d.aenqCC)
	d.fn.happened(Event{Kind: EventDrained, QP: 0x1234})
	next(wire.AENQNotification, EventDrained)
}

// TestDeviceResetBehindTheDriver: all is gone, and no command is answered, until
// the driver resets the device too.
func TestDeviceResetBehindTheDriver(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{})
	d.probe()
	d.fn.Device().Reset()
	d.put(wire.OpAllocPD, 0, nil)
	d.set(wire.RegAQProdDB, uint32(d.pc))
	if _, _, ok := d.completion(); ok {
		t.Error("a device that was reset answered a command")
	}
	d.probe()
	d.do(wire.OpAllocPD, 0, nil, nil)
}

// TestFunctionReset: the client's reset, a function level reset, and the loss of
// the queues with either.
func TestFunctionReset(t *testing.T) {
	for name, reset := range map[string]func(*driver){
		"by the client": func(d *driver) { d.fn.Reset() },
		"by the guest": func(d *driver) {
			d.fn.WriteRegion(regionConfig, expDevCtl, []byte{0, 0x80})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, newTestFabric(t), FunctionOptions{})
			d.probe()
			d.write(regionConfig, cfgCommand, 6)
			reset(d)
			var command [4]byte
			d.fn.ReadRegion(regionConfig, cfgCommand, command[:])
			if command[0] != 0 {
				t.Errorf("the command register is %#x", command[0])
			}
			d.resp[0] = 0xff
			d.set(wire.RegMMIORegRead, 1)
			if d.resp[0] != 0xff {
				t.Error("the address of register reads outlived the reset")
			}
			d.resp = nil
			d.probe()
		})
	}
}

// TestHostileQueues: queues of nonsense, or where no memory is, lead to nothing.
func TestHostileQueues(t *testing.T) {
	d := newDriver(t, newTestFabric(t), FunctionOptions{APIVersion: wire.APIVersion02})
	d.reset()
	d.mem.bytes[1<<20+3] = byte(wire.AQPhase) // one command, for where a queue may lie
	before := bytes.Clone(d.mem.bytes)
	for _, test := range []struct {
		name     string
		base     uint64
		caps     uint32
		comp     uint64
		compCaps uint32
		aenq     uint64
		aenqCaps uint32
	}{
		{name: "no depth", base: d.mem.base, caps: 64 << 16, comp: d.mem.base, compCaps: 32 | 64<<16},
		{name: "crooked depth", base: d.mem.base, caps: 33 | 64<<16, comp: d.mem.base, compCaps: 32 | 64<<16},
		{name: "entry size", base: d.mem.base, caps: 32 | 65<<16, comp: d.mem.base, compCaps: 32 | 64<<16},
		{name: "a later version's entries", base: d.mem.base, caps: 32 | 128<<16, comp: d.mem.base, compCaps: 32 | 64<<16},
		{name: "completion size", base: d.mem.base, caps: 32 | 64<<16, comp: d.mem.base, compCaps: 32 | 32<<16},
		{name: "nowhere", base: 0, caps: 32 | 64<<16, comp: d.mem.base, compCaps: 32 | 64<<16},
		{name: "end of the world", base: 1<<64 - 64, caps: 32 | 64<<16, comp: d.mem.base, compCaps: 32 | 64<<16},
		{name: "completions nowhere", base: d.mem.base + 1<<20, caps: 32 | 64<<16, comp: 1<<64 - 32, compCaps: 32 | 64<<16},
		{name: "notifications nowhere", aenq: 1<<64 - 32, aenqCaps: 16 | 64<<16},
		{name: "notification size", aenq: d.mem.base, aenqCaps: 16 | 63<<16},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.setAddr(wire.RegAQBaseLo, test.base)
			d.set(wire.RegAQCaps, test.caps)
			d.setAddr(wire.RegACQBaseLo, test.comp)
			d.set(wire.RegACQCaps, test.compCaps)
			d.setAddr(wire.RegAENQBaseLo, test.aenq)
			d.set(wire.RegAENQCaps, test.aenqCaps)
			d.fn.aenq.setGroups(aenqGroups)
			d.set(wire.RegAQProdDB, 0xffff)
			d.fn.happened(Event{Kind: EventFatal})
			if !bytes.Equal(before, d.mem.bytes) {
				t.Error("memory has changed")
			}
		})
	}
}
