package engine

import "github.com/peerdirect/peerdirect/transfer"

// rail is a NIC's queues, and what is on its way there.
type rail struct {
	w     *worker
	index int // among the engine's
	local int // among the worker's
	rail  Rail
	info  transfer.Info
	depth int

	slots []slot
	free  []uint32
	ops   []transfer.Op // staged: the next doorbell's
	got   []transfer.Completion
	links []*link // by the rail's number of the peer

	count railCount
}

// slot is one work request on its way.
type slot struct {
	link   *link
	job    *job
	piece  Segment
	kind   transfer.OpKind
	imm    uint32
	tries  uint8
	marked bool // imm is set, and stays whatever rail it goes by
}

// sequence gives a notice its immediate, false if none is to be had now.
func (s *slot) sequence() bool {
	if !s.marked && s.kind == transfer.OpNotify {
		n, ok := s.job.out.take()
		if !ok {
			return false
		}
		s.imm, s.marked = immediate(s.job.number, n), true
	}
	return true
}

// over frees the sequence of a notice that comes no more.
func (s *slot) over() {
	if s.marked {
		_, sequence := splitImmediate(s.imm)
		s.job.out.arrived(sequence)
	}
}

// takesReceive tells whether the request takes a receive of the peer's.
func (s *slot) takesReceive() bool {
	return s.kind == transfer.OpNotify || s.kind == transfer.OpSend
}

func (w *worker) add(r Rail, index int) {
	one := &rail{w: w, index: index, local: len(w.rails), rail: r, info: r.Info(), depth: r.Depth()}
	if most := w.e.o.Depth; most > 0 {
		one.depth = min(one.depth, most)
	}
	one.slots = make([]slot, 0, one.depth+w.e.o.Batch)
	one.ops = make([]transfer.Op, 0, w.e.o.Batch)
	one.got = make([]transfer.Completion, 64)
	w.rails = append(w.rails, one)
	w.drives.add(index)
}

// take gives a slot. There are as many as were ever needed at once.
func (r *rail) take() uint32 {
	if n := len(r.free); n > 0 {
		s := r.free[n-1]
		r.free = r.free[:n-1]
		return s
	}
	r.slots = append(r.slots, slot{})
	return uint32(len(r.slots) - 1)
}

// give takes a slot back. What it points to is forgotten when it is used again.
func (r *rail) give(s uint32) {
	of := &r.slots[s]
	of.imm, of.tries, of.marked = 0, 0, false
	r.free = append(r.free, s)
}

// ring posts what is staged; what does not fit stays staged.
func (r *rail) ring() bool {
	if len(r.ops) == 0 {
		return false
	}
	n, err := r.rail.Post(r.ops)
	if err != nil && n < len(r.ops) {
		// It is the operation's fault: another rail would refuse it too.
		r.refused(uint32(r.ops[n].ID), err)
		n++
	}
	r.count.posted.Add(uint64(n))
	left := copy(r.ops, r.ops[n:])
	r.ops = r.ops[:left]
	return n > 0
}

// withBytes tells whether a request is a notice together with its bytes.
func (s *slot) withBytes() bool { return s.kind == transfer.OpNotify && s.piece.Length > 0 }
