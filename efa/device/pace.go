package device

// budget bounds a turn.
type budget struct {
	packets int
	bytes   int
	now     int64 // when it began
	faulty  bool  // there is a plan of faults
}

func (b *budget) spend(n uint32) {
	b.packets--
	b.bytes -= int(n)
}

// pace charges n bytes to a device's line; if it is too far ahead of its rate, it
// gives the time to come again instead.
func (w *worker) pace(sender *Device, n uint32, now int64) int64 {
	due := w.lineDue(sender, now)
	if due == 0 {
		w.charge(sender, n, now)
	}
	return due
}

// lineDue is when a device's line takes a packet, 0 if it does now.
func (w *worker) lineDue(sender *Device, now int64) int64 {
	if sender.byteTime == 0 {
		return 0
	}
	free := sender.txFree.Load() / paceUnit
	if free <= now+sender.slack {
		return 0
	}
	if sender == w.d {
		w.lineBusy = true
	}
	return free - sender.slack/2
}

// charge has n bytes take their time on a device's line.
//
// What waits for the worker's own line keeps it busy: if the worker comes late, as
// timers and schedulers have it, the line is charged from where it was, and the
// rate holds on average. A line that was idle begins anew.
func (w *worker) charge(sender *Device, n uint32, now int64) {
	if sender.byteTime == 0 {
		return
	}
	if sender == w.d && w.lineBusy {
		now -= paceLate
	}
	took := int64(float64(n) * sender.byteTime)
	for {
		free := sender.txFree.Load()
		if sender.txFree.CompareAndSwap(free, max(free, now*paceUnit)+took) {
			return
		}
	}
}
