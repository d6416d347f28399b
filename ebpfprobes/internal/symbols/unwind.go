package symbols

import (
	"encoding/binary"
	"runtime"
)

// Snapshot is a thread's registers and the innermost part of its stack.
type Snapshot struct {
	Registers [columns]uint64 // by DWARF's numbers for the architecture
	PC        uint64
	Stack     []byte   // from the stack pointer on
	Chain     []uint64 // what the chain of frame pointers gave, the address of now first
}

// Most frames that are unwound.
const mostFrames = 64

// numbers are DWARF's for the registers that play a role.
type numbers struct{ sp, fp, ra uint64 }

func dwarfNumbers(arch string) numbers {
	if arch == "arm64" {
		return numbers{sp: 31, fp: 29, ra: 30}
	}
	return numbers{sp: 7, fp: 6, ra: 16}
}

// SnapshotOf takes the kernel's order of a process's registers: struct pt_regs of x86-64,
// struct user_pt_regs of arm64.
func SnapshotOf(registers []uint64, stack []byte, chain []uint64) Snapshot {
	s := Snapshot{Stack: stack, Chain: chain}
	if runtime.GOARCH == "arm64" {
		copy(s.Registers[:32], registers)
		s.PC = registers[32]
		return s
	}
	// pt_regs: r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss.
	for i, at := range [16]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0} {
		s.Registers[i] = registers[at]
	}
	s.PC = registers[16]
	return s
}

// Unwind gives the addresses of a stack, the innermost first; all but the first are
// those that functions return to. whole is false where it ends before the thread's first
// function: the copy was too short, or a file does not tell.
func (p *Process) Unwind(s Snapshot) (addresses []uint64, whole bool) {
	n := dwarfNumbers(runtime.GOARCH)
	bottom := s.Registers[n.sp]
	word := func(at uint64) (uint64, bool) {
		if at < bottom || at-bottom+8 > uint64(len(s.Stack)) || at-bottom > uint64(len(s.Stack)) {
			return 0, false
		}
		return binary.LittleEndian.Uint64(s.Stack[at-bottom:]), true
	}
	regs, pc, firstFP := s.Registers, s.PC, s.Registers[n.fp]
	exact := true // pc is an instruction that runs, not one behind a call
	for len(addresses) < mostFrames {
		at := pc
		if !exact {
			at--
		}
		if !p.isCode(at) {
			return addresses, false // gone astray
		}
		addresses = append(addresses, pc)
		b, address, ok := p.find(at)
		var step frameStep
		if ok {
			step = b.step(address, exact, regs, n, word)
		} else {
			step = byFramePointer(regs, n, word)
		}
		switch {
		case step.end:
			return addresses, true
		case !step.ok:
			// A stack elsewhere, such as a goroutine's: the chain has it, if the functions
			// up to here left the frame pointer alone.
			if regs[n.fp] == firstFP && len(s.Chain) > 1 {
				for _, a := range s.Chain[1:] {
					if !p.isCode(a - 1) {
						break
					}
					addresses = append(addresses, a)
				}
			}
			return addresses, false
		}
		if step.regs[n.sp] <= regs[n.sp] && len(addresses) > 1 {
			return addresses, false // stacks grow one way
		}
		regs, pc, exact = step.regs, step.pc, step.signal
		if pc == 0 {
			return addresses, true
		}
	}
	return addresses, false
}

// frameStep is what a frame's caller had.
type frameStep struct {
	regs   [columns]uint64
	pc     uint64
	ok     bool
	end    bool // there is no caller
	signal bool
}

func (b *Binary) step(address uint64, exact bool, regs [columns]uint64, n numbers, word func(uint64) (uint64, bool)) frameStep {
	if b.frames != nil {
		if d, ok := b.frames.find(address); ok {
			if row, ok := d.at(address); ok {
				return row.apply(d, regs, n, word)
			}
			return frameStep{}
		}
	}
	if b.golang != nil {
		if depth, ok := b.golang.depth(address); ok && n.ra == 16 {
			return byDepth(depth, regs, n, word)
		}
	}
	return byFramePointer(regs, n, word)
}

// apply computes the caller's registers.
func (w *row) apply(d *description, regs [columns]uint64, n numbers, word func(uint64) (uint64, bool)) (s frameStep) {
	if w.opaque || w.base >= columns {
		return s
	}
	frame := regs[w.base] + uint64(w.offset)
	s.regs, s.signal = regs, d.signal
	s.regs[n.sp] = frame
	for column, r := range w.rules {
		switch r.kind {
		case saved:
			v, ok := word(frame + uint64(r.value))
			if !ok {
				if uint64(column) == d.returnColumn {
					return frameStep{}
				}
				v = 0
			}
			s.regs[column] = v
		case computed:
			s.regs[column] = frame + uint64(r.value)
		case inOther:
			if r.column < columns {
				s.regs[column] = regs[r.column]
			}
		case lost:
			if uint64(column) == d.returnColumn {
				s.end = true
			}
		case opaque:
			if uint64(column) == d.returnColumn {
				return frameStep{}
			}
		}
	}
	if d.returnColumn >= columns {
		return frameStep{}
	}
	s.pc, s.ok = s.regs[d.returnColumn], true
	return s
}

// byDepth unwinds a function of Go on x86-64.
func byDepth(depth uint64, regs [columns]uint64, n numbers, word func(uint64) (uint64, bool)) (s frameStep) {
	s.regs = regs
	at := regs[n.sp] + depth
	s.pc, s.ok = word(at)
	s.regs[n.sp] = at + 8
	if depth >= 8 { // the frame pointer is saved below the return address
		s.regs[n.fp], _ = word(at - 8)
	}
	return s
}

// byFramePointer unwinds what keeps one and tells nothing else.
func byFramePointer(regs [columns]uint64, n numbers, word func(uint64) (uint64, bool)) (s frameStep) {
	s.regs = regs
	fp := regs[n.fp]
	var ok bool
	if s.regs[n.fp], ok = word(fp); !ok {
		return s
	}
	s.regs[n.sp] = fp + 16
	s.pc, s.ok = word(fp + 8)
	return s
}
