package symbols

import "testing"

// TestRules runs instructions of a function at 0x1000 that spans 0x100 bytes.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		own  []byte
		at   uint64
		base uint64
		off  int64
		rbp  rule
	}{
		{"entry", nil, 0x1000, 7, 8, rule{}},
		{"before the push", []byte{0x41, 0x0e, 16, 0x86, 2}, 0x1000, 7, 8, rule{}},
		{"behind it", []byte{0x41, 0x0e, 16, 0x86, 2}, 0x1001, 7, 16, rule{kind: saved, value: -16}},
		{"by the frame pointer", []byte{0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6}, 0x1004, 6, 16, rule{kind: saved, value: -16}},
		{"two bytes further", []byte{0x02, 200, 0x0e, 32}, 0x10c8, 7, 32, rule{}},
		{"four bytes further", []byte{0x04, 0xff, 0, 0, 0, 0x0e, 32}, 0x10fe, 7, 8, rule{}},
		{"remembered and restored", []byte{0x41, 0x0e, 16, 0x0a, 0x42, 0x0e, 8, 0x42, 0x0b}, 0x1005, 7, 16, rule{}},
		{"between them", []byte{0x41, 0x0e, 16, 0x0a, 0x42, 0x0e, 8, 0x42, 0x0b}, 0x1004, 7, 8, rule{}},
		{"restored alone", []byte{0x86, 2, 0x41, 0xc6}, 0x1001, 7, 8, rule{}},
		{"in another register", []byte{0x09, 6, 3}, 0x1000, 7, 8, rule{kind: inOther, column: 3}},
		{"a value", []byte{0x14, 6, 2}, 0x1000, 7, 8, rule{kind: computed, value: -16}},
		{"a signed offset", []byte{0x11, 6, 0x7e}, 0x1000, 7, 8, rule{kind: saved, value: 16}},
		{"lost", []byte{0x07, 6}, 0x1000, 7, 8, rule{kind: lost}},
		{"an expression", []byte{0x10, 6, 2, 0x77, 0}, 0x1000, 7, 8, rule{kind: opaque}},
	} {
		d := description{start: 0x1000, end: 0x1100, codeUnit: 1, dataUnit: -8, returnColumn: 16,
			initial: []byte{0x0c, 7, 8, 0x90, 1}, own: c.own}
		row, ok := d.at(c.at)
		if !ok {
			t.Errorf("%s: cannot be run", c.name)
			continue
		}
		if row.base != c.base || row.offset != c.off || row.rules[6] != c.rbp || row.rules[16] != (rule{kind: saved, value: -8}) {
			t.Errorf("%s: from %d %+d, rbp %+v, return address %+v", c.name, row.base, row.offset, row.rules[6], row.rules[16])
		}
	}
	for name, own := range map[string][]byte{
		"restored without a memory": {0x0b}, "not known": {0x3f}, "cut off": {0x0e}, "cut off within a number": {0x0e, 0x80},
	} {
		d := description{start: 0x1000, end: 0x1100, codeUnit: 1, dataUnit: -8, own: own}
		if _, ok := d.at(0x1050); ok {
			t.Errorf("%s: was run", name)
		}
	}
}
