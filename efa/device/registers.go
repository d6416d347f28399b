package device

import (
	"encoding/binary"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// registers are those that a driver writes and that keep what was written. The
// others follow from the function's state.
type registers struct {
	aqLo, aqHi     uint32
	acqLo, acqHi   uint32
	aenqLo, aenqHi uint32
	respLo, respHi uint32
	aqCaps         uint32
	acqCaps        uint32
	aenqCaps       uint32
	intrMask       uint32
	devCtl         uint32
}

const (
	controllerVersion = 1 // 0.0.1, the least that the driver takes
	// resetPolls is how often the driver looks, 100 ms apart, before it takes a
	// reset for failed. Ours are done at once.
	resetPolls = 30
	// dmaWidth is how many bits a DMA address may have.
	dmaWidth = 48
	// registersEnd is where the registers end in BAR 0.
	registersEnd = uint64(wire.RegEQDB) + 4
	// registerInvalid is what a read of no register gives: what a bus gives.
	registerInvalid = 0xffffffff
)

// capsRegister is CAPS. The command timeout is 0: the driver then waits 30 s,
// since an emulated machine can be slow.
func capsRegister() uint32 {
	v := wire.CapsResetTimeout.Put(0, resetPolls)
	return wire.CapsDMAAddrWidth.Put(v, dmaWidth)
}

func join(hi, lo uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }

// register gives a register's value.
func (f *Function) register(r wire.Reg) uint32 {
	switch r {
	case wire.RegVersion:
		return uint32(f.opts.APIVersion)
	case wire.RegControllerVersion:
		return controllerVersion
	case wire.RegCaps:
		return capsRegister()
	case wire.RegDevSts:
		return f.status.Load()
	case wire.RegAQBaseLo:
		return f.regs.aqLo
	case wire.RegAQBaseHi:
		return f.regs.aqHi
	case wire.RegAQCaps:
		return f.regs.aqCaps
	case wire.RegACQBaseLo:
		return f.regs.acqLo
	case wire.RegACQBaseHi:
		return f.regs.acqHi
	case wire.RegACQCaps:
		return f.regs.acqCaps
	case wire.RegAENQBaseLo:
		return f.regs.aenqLo
	case wire.RegAENQBaseHi:
		return f.regs.aenqHi
	case wire.RegAENQCaps:
		return f.regs.aenqCaps
	case wire.RegIntrMask:
		return f.regs.intrMask
	case wire.RegDevCtl:
		return f.regs.devCtl
	case wire.RegMMIORespLo:
		return f.regs.respLo
	case wire.RegMMIORespHi:
		return f.regs.respHi
	case wire.RegAQProdDB, wire.RegAENQConsDB, wire.RegMMIORegRead, wire.RegEQDB:
		return 0 // write-only
	}
	return registerInvalid
}

// setRegister writes a register.
func (f *Function) setRegister(r wire.Reg, v uint32) {
	switch r {
	case wire.RegAQBaseLo:
		f.regs.aqLo = v
	case wire.RegAQBaseHi:
		f.regs.aqHi = v
	case wire.RegAQCaps:
		f.regs.aqCaps = v
		f.aq.setCommands(join(f.regs.aqHi, f.regs.aqLo), v, f.opts.APIVersion)
	case wire.RegACQBaseLo:
		f.regs.acqLo = v
	case wire.RegACQBaseHi:
		f.regs.acqHi = v
	case wire.RegACQCaps:
		f.regs.acqCaps = v
		f.aq.setCompletions(join(f.regs.acqHi, f.regs.acqLo), v)
	case wire.RegAQProdDB:
		f.runCommands(uint16(v))
	case wire.RegAENQBaseLo:
		f.regs.aenqLo = v
	case wire.RegAENQBaseHi:
		f.regs.aenqHi = v
	case wire.RegAENQCaps:
		f.regs.aenqCaps = v
		f.aenq.enable(join(f.regs.aenqHi, f.regs.aenqLo), v)
	case wire.RegAENQConsDB:
		f.aenq.consumed(v)
	case wire.RegIntrMask:
		f.regs.intrMask = v
		if v&uint32(wire.IntrMaskEnable) == 0 && f.aq.pending {
			// What completed under the mask is told when it goes.
			f.aq.pending = false
			f.interrupt(f.aq.vector)
		}
	case wire.RegDevCtl:
		f.control(v)
	case wire.RegMMIORegRead:
		f.readless(v)
	case wire.RegMMIORespLo:
		f.regs.respLo = v
	case wire.RegMMIORespHi:
		f.regs.respHi = v
	case wire.RegEQDB:
		f.dev.RingEQ(v)
	}
}

// control is a write of DEV_CTL. Setting the reset bit resets the device, which
// is over when the bit is cleared; DEV_STS shows both to the driver, which waits
// for either. Restarting the admin queue alone is not modelled: no driver does it.
func (f *Function) control(v uint32) {
	was := f.regs.devCtl
	if wire.DevCtlReset.Get(v) != 0 {
		if wire.DevCtlReset.Get(was) == 0 {
			f.resetDevice()
		}
		f.status.Store(uint32(wire.DevStsReady | wire.DevStsResetInProgress))
	} else if wire.DevCtlReset.Get(was) != 0 {
		f.status.And(^uint32(wire.DevStsResetInProgress))
	}
	f.regs.devCtl = v
}

// readless answers a write of MMIO_REG_READ: the register's value goes to memory.
// The driver looks for the id, so the word that has it is written last.
func (f *Function) readless(v uint32) {
	resp := wire.MMIOResp{
		ReqID:  uint16(wire.MMIORegReadReqID.Get(v)),
		RegOff: uint16(wire.MMIORegReadRegOff.Get(v)),
	}
	resp.Value = f.register(wire.Reg(resp.RegOff))
	var b [wire.SizeMMIOResp]byte
	resp.Encode(b[:])
	publish(f.opts.Memory, join(f.regs.respHi, f.regs.respLo), b[:])
}

// readRegisters reads from BAR 0: registers as bytes, and the vector table.
func (f *Function) readRegisters(offset uint64, p []byte) {
	for i := range p {
		at := offset + uint64(i)
		switch {
		case at < registersEnd:
			p[i] = byte(f.register(wire.Reg(at&^3)) >> (8 * (at & 3)))
		case at >= msixTableOffset && at < msixTableOffset+uint64(len(f.msix)):
			p[i] = f.msix[at-msixTableOffset]
		}
	}
}

// writeRegisters writes to BAR 0. Registers take aligned words only.
func (f *Function) writeRegisters(offset uint64, p []byte) {
	if offset >= msixTableOffset {
		if offset < msixTableOffset+uint64(len(f.msix)) {
			copy(f.msix[offset-msixTableOffset:], p)
		}
		return
	}
	if offset%4 != 0 || len(p)%4 != 0 {
		return
	}
	for ; len(p) >= 4 && offset < registersEnd; p = p[4:] {
		f.setRegister(wire.Reg(offset), binary.LittleEndian.Uint32(p))
		offset += 4
	}
}
