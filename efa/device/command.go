package device

import (
	"fmt"

	"github.com/peerdirect/peerdirect/efa/wire"
)

// execute carries out one admin command: payload is the command's, in either
// layout of the queue at least as long as the longest command, and resp takes the
// response's payload, which is zero before.
func (f *Function) execute(desc wire.AQDesc, payload, resp []byte) error {
	if known := wire.AQPhase | wire.AQCtrlData | wire.AQCtrlDataIndirect; desc.Flags&^known != 0 {
		return malformed(desc.Opcode, "flags %#x", desc.Flags)
	}
	d := f.dev
	switch desc.Opcode {
	case wire.OpAllocPD:
		pd, err := d.AllocPD()
		r := wire.AllocPDResp{PD: pd}
		r.Encode(resp)
		return err
	case wire.OpDeallocPD:
		var c wire.DeallocPD
		c.Decode(payload)
		return d.DeallocPD(c.PD)
	case wire.OpAllocUAR:
		uar, err := d.AllocUAR()
		r := wire.AllocUARResp{UAR: uar}
		r.Encode(resp)
		return err
	case wire.OpDeallocUAR:
		var c wire.DeallocUAR
		c.Decode(payload)
		return d.DeallocUAR(c.UAR)
	case wire.OpCreateAH:
		var c wire.CreateAH
		c.Decode(payload)
		ah, err := d.CreateAH(c.PD, c.DestAddr)
		r := wire.CreateAHResp{AH: ah}
		r.Encode(resp)
		return err
	case wire.OpDestroyAH:
		var c wire.DestroyAH
		c.Decode(payload)
		return d.DestroyAH(c.PD, c.AH)
	case wire.OpRegMR:
		return f.regMR(desc, payload, resp)
	case wire.OpDeregMR:
		var c wire.DeregMR
		c.Decode(payload)
		return f.deregMR(c.LKey)
	case wire.OpCreateEQ, wire.OpDestroyEQ, wire.OpCreateCQ, wire.OpDestroyCQ,
		wire.OpCreateQP, wire.OpModifyQP, wire.OpQueryQP, wire.OpDestroyQP:
		return f.queueCommand(desc.Opcode, payload, resp)
	case wire.OpCreateEventCounter, wire.OpDestroyEventCounter, wire.OpAttachEventCounter,
		wire.OpDetachEventCounter, wire.OpModifyEventCounter:
		return f.counterCommand(desc.Opcode, payload, resp)
	case wire.OpGetFeature:
		return f.getFeature(payload, resp)
	case wire.OpSetFeature:
		return f.setFeature(desc, payload)
	case wire.OpGetStats:
		return f.getStats(payload, resp)
	case wire.OpAllocMR, wire.OpService:
		return &StatusError{desc.Opcode.String(), wire.AdminUnsupportedOpcode, "fast registration and firmware services are not modelled"}
	}
	return &StatusError{desc.Opcode.String(), wire.AdminBadOpcode, "no such command"}
}

// queueCommand carries out the commands about queues.
func (f *Function) queueCommand(op wire.Opcode, payload, resp []byte) error {
	d := f.dev
	switch op {
	case wire.OpCreateEQ:
		var o EQOptions
		o.Decode(payload)
		if int(o.MSIXVector) >= f.opts.Vectors {
			return illegal(op.String(), "MSI-X vector %d of %d", o.MSIXVector, f.opts.Vectors)
		}
		r, err := d.CreateEQ(o)
		r.Encode(resp)
		return err
	case wire.OpDestroyEQ:
		var c wire.DestroyEQ
		c.Decode(payload)
		return d.DestroyEQ(c.EQN)
	case wire.OpCreateCQ:
		var o CQOptions
		o.Decode(payload)
		r, err := d.CreateCQ(o)
		r.Encode(resp)
		return err
	case wire.OpDestroyCQ:
		var c wire.DestroyCQ
		c.Decode(payload)
		return d.DestroyCQ(c.CQ)
	case wire.OpCreateQP:
		var o QPOptions
		o.Decode(payload)
		r, err := d.CreateQP(o)
		r.Encode(resp)
		return err
	case wire.OpModifyQP:
		var c wire.ModifyQP
		c.Decode(payload)
		return d.ModifyQP(c)
	case wire.OpQueryQP:
		var c wire.QueryQP
		c.Decode(payload)
		r, err := d.QueryQP(c.Handle)
		r.Encode(resp)
		return err
	default: // DESTROY_QP
		var c wire.DestroyQP
		c.Decode(payload)
		return d.DestroyQP(c.Handle)
	}
}

// counterCommand carries out the commands about event counters.
func (f *Function) counterCommand(op wire.Opcode, payload, resp []byte) error {
	d := f.dev
	switch op {
	case wire.OpCreateEventCounter:
		var c wire.CreateEventCounter
		c.Decode(payload)
		handle, err := d.CreateCounter(c.UAR, c.Addr)
		r := wire.CreateEventCounterResp{Handle: handle}
		r.Encode(resp)
		return err
	case wire.OpDestroyEventCounter:
		var c wire.DestroyEventCounter
		c.Decode(payload)
		return d.DestroyCounter(c.Handle)
	case wire.OpModifyEventCounter:
		var c wire.ModifyEventCounter
		c.Decode(payload)
		return d.ModifyCounter(c)
	default: // ATTACH_EVENT_COUNTER, DETACH_EVENT_COUNTER
		var c wire.AttachEventCounter
		c.Decode(payload)
		if op == wire.OpAttachEventCounter {
			return d.AttachCounter(c)
		}
		return d.DetachCounter(c)
	}
}

// getStats carries out GET_STATS. Statistics are the device's; those of one queue
// are not kept.
func (f *Function) getStats(payload, resp []byte) error {
	var c wire.GetStats
	c.Decode(payload)
	if c.Scope != wire.StatsScopeAll {
		return illegal(wire.OpGetStats.String(), "statistics of scope %d; only the whole device has any", c.Scope)
	}
	s := f.dev.Stats()
	switch c.Type {
	case wire.StatsBasic:
		s.Basic.Encode(resp)
	case wire.StatsMessages:
		s.Messages.Encode(resp)
	case wire.StatsRDMARead:
		s.RDMARead.Encode(resp)
	case wire.StatsRDMAWrite:
		s.RDMAWrite.Encode(resp)
	case wire.StatsNetwork:
		s.Network.Encode(resp)
	default:
		return illegal(wire.OpGetStats.String(), "no statistics of type %d", c.Type)
	}
	return nil
}

func malformed(op wire.Opcode, format string, args ...any) error {
	return &StatusError{op.String(), wire.AdminMalformedRequest, fmt.Sprintf(format, args...)}
}
