package symbols

// rule tells where a register's value of the calling function is.
type rule struct {
	kind   ruleKind
	value  int64 // from the frame's address; or the register that holds it
	column uint64
}

type ruleKind uint8

const (
	same     ruleKind = iota // it was not touched
	saved                    // in memory, at the frame's address and value
	computed                 // it is the frame's address and value
	inOther                  // in another register
	lost                     // no more; of the return address: there is no caller
	opaque                   // by an expression, which is not evaluated here
)

// columns is how many registers are followed: the integer ones of either architecture.
const columns = 33

// row is the state of the rules at an address.
type row struct {
	base   uint64 // register that the frame's address counts from
	offset int64
	opaque bool // it is an expression
	rules  [columns]rule
}

func (w *row) set(column uint64, r rule) {
	if column < columns { // others are floating-point
		w.rules[column] = r
	}
}

// at runs a description's instructions up to an address (DWARF 5, section 6.4.2, and
// GNU's extensions).
func (d *description) at(address uint64) (*row, bool) {
	m := machine{d: d, pc: d.start, until: address}
	if !m.run(reader{data: d.initial}) {
		return nil, false
	}
	m.initial = m.row
	m.pc = d.start
	return &m.row, m.run(reader{data: d.own})
}

// mostRemembered bounds what a broken file can make of it.
const mostRemembered = 64

type machine struct {
	d         *description
	pc, until uint64
	row       row
	initial   row
	stack     []row
}

// run ends before the instruction that is for addresses behind the one asked for.
func (m *machine) run(r reader) bool {
	for len(r.data) > 0 && !r.failed {
		if !m.step(&r) {
			return false
		}
		if m.pc > m.until {
			return true
		}
	}
	return !r.failed
}

func (m *machine) advance(by uint64) { m.pc += by * m.d.codeUnit }

func (m *machine) step(r *reader) bool {
	op := r.u8()
	low := uint64(op & 0x3f)
	switch op >> 6 {
	case 1:
		m.advance(low)
		return true
	case 2:
		m.row.set(low, rule{kind: saved, value: int64(r.unsigned()) * m.d.dataUnit})
		return true
	case 3:
		m.restore(low)
		return true
	}
	switch op {
	case 0x00, 0x2d: // nothing; arm64: the return address is signed
	case 0x01:
		m.pc = r.pointer(m.d.encoding)
	case 0x02:
		m.advance(uint64(r.u8()))
	case 0x03:
		m.advance(uint64(r.u16()))
	case 0x04:
		m.advance(uint64(r.u32()))
	case 0x05:
		column := r.unsigned()
		m.row.set(column, rule{kind: saved, value: int64(r.unsigned()) * m.d.dataUnit})
	case 0x06:
		m.restore(r.unsigned())
	case 0x07:
		m.row.set(r.unsigned(), rule{kind: lost})
	case 0x08:
		m.row.set(r.unsigned(), rule{kind: same})
	case 0x09:
		column := r.unsigned()
		m.row.set(column, rule{kind: inOther, column: r.unsigned()})
	case 0x0a:
		if len(m.stack) == mostRemembered {
			return false
		}
		m.stack = append(m.stack, m.row)
	case 0x0b:
		if len(m.stack) == 0 {
			return false
		}
		m.row, m.stack = m.stack[len(m.stack)-1], m.stack[:len(m.stack)-1]
	case 0x0c:
		m.row.base, m.row.offset, m.row.opaque = r.unsigned(), int64(r.unsigned()), false
	case 0x0d:
		m.row.base = r.unsigned()
	case 0x0e:
		m.row.offset = int64(r.unsigned())
	case 0x0f:
		r.skip(r.unsigned())
		m.row.opaque = true
	case 0x10, 0x16:
		column := r.unsigned()
		r.skip(r.unsigned())
		m.row.set(column, rule{kind: opaque})
	case 0x11:
		column := r.unsigned()
		m.row.set(column, rule{kind: saved, value: r.signed() * m.d.dataUnit})
	case 0x12:
		m.row.base, m.row.offset, m.row.opaque = r.unsigned(), r.signed()*m.d.dataUnit, false
	case 0x13:
		m.row.offset = r.signed() * m.d.dataUnit
	case 0x14:
		column := r.unsigned()
		m.row.set(column, rule{kind: computed, value: int64(r.unsigned()) * m.d.dataUnit})
	case 0x15:
		column := r.unsigned()
		m.row.set(column, rule{kind: computed, value: r.signed() * m.d.dataUnit})
	case 0x2e: // size of arguments
		r.unsigned()
	default:
		return false
	}
	return true
}

func (m *machine) restore(column uint64) {
	if column < columns {
		m.row.rules[column] = m.initial.rules[column]
	}
}
