package ebpfprobes

import "cmp"

// What failed or changed is given the most frequent first. Tables of the kernel have no
// order: of equal counts all that tells rows apart decides, so that two reads agree.

func (f RegistrationFailure) compare(o RegistrationFailure) int {
	return cmp.Or(cmp.Compare(o.Count, f.Count), cmp.Compare(f.PID, o.PID), cmp.Compare(f.Command, o.Command), cmp.Compare(f.Device, o.Device),
		cmp.Compare(f.Operation, o.Operation), cmp.Compare(f.Kind, o.Kind), cmp.Compare(f.Err, o.Err), cmp.Compare(f.Cause, o.Cause),
		cmp.Compare(f.CausePhase, o.CausePhase))
}

func (f CompletionFailure) compare(o CompletionFailure) int {
	return cmp.Or(cmp.Compare(o.Count, f.Count), cmp.Compare(f.PID, o.PID), cmp.Compare(f.Command, o.Command), cmp.Compare(f.Device, o.Device),
		cmp.Compare(f.QP, o.QP), cmp.Compare(f.Queue, o.Queue), cmp.Compare(f.Status, o.Status), cmp.Compare(f.Opcode, o.Opcode))
}

func (t QPTransition) compare(o QPTransition) int {
	return cmp.Or(cmp.Compare(o.Count, t.Count), cmp.Compare(t.PID, o.PID), cmp.Compare(t.Command, o.Command), cmp.Compare(t.Device, o.Device),
		cmp.Compare(t.Type, o.Type), cmp.Compare(t.Change, o.Change), cmp.Compare(t.From, o.From), cmp.Compare(t.To, o.To), cmp.Compare(t.Err, o.Err))
}

func (r ErrorRow) compare(o ErrorRow) int {
	return cmp.Or(cmp.Compare(o.Count, r.Count), cmp.Compare(r.Class, o.Class), cmp.Compare(r.PID, o.PID), cmp.Compare(r.Command, o.Command),
		cmp.Compare(r.Device, o.Device), cmp.Compare(r.What, o.What), cmp.Compare(r.Err, o.Err), cmp.Compare(r.Vendor, o.Vendor))
}
