//go:build lab

package wire

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A number is a C expression and what it is in Go.
type number struct {
	expr  string
	value uint64
}

// TestLayoutKernel holds the package against the headers of the guest's kernel: each
// constant, and each field's bits, as Encode really places them. On 7.3, which the
// package follows, every name in the headers has to be compared; an older kernel
// lacks some, and the test says which.
func TestLayoutKernel(t *testing.T) {
	dir := os.Getenv("PEERDIRECT_EFA_HEADERS")
	if dir == "" {
		dir = "/usr/src/peerdirect/drivers/infiniband/hw/efa"
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the kernel's efa sources are not here (%v): run this in a guest of the lab", err)
	}
	h := openHeaders(t, dir, "efa_common_defs.h", "efa_regs_defs.h", "efa_admin_defs.h", "efa_admin_cmds_defs.h", "efa_io_defs.h")
	compare(t, h, os.Getenv("PEERDIRECT_KERNEL") == "7.3",
		slices.Concat(adminLayouts, ioLayouts, kernelLayouts),
		slices.Concat(registerNumbers, adminNumbers, ioNumbers, kernelNumbers))
}

// TestLayoutRDMACore does the same with the headers of rdma-core, which have what
// the kernel has no need of: 128-byte work entries and the completion queue's
// doorbell.
func TestLayoutRDMACore(t *testing.T) {
	source := os.Getenv("PEERDIRECT_RDMA_CORE")
	if source == "" {
		source = "/opt/rdma-core"
	}
	dir := filepath.Join(source, "providers/efa")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("rdma-core's source is not here (%v): run this with the lab's layer for acceptance, or name a source folder in PEERDIRECT_RDMA_CORE", err)
	}
	h := openHeaders(t, dir, "efa_io_defs.h", "efa_io_regs_defs.h")
	compare(t, h, true, slices.Concat(ioLayouts, coreLayouts), slices.Concat(ioNumbers, coreNumbers))
}

func compare(t *testing.T, h headers, whole bool, layouts []layout, numbers []number) {
	var exprs []string
	for _, n := range numbers {
		exprs = append(exprs, n.expr)
	}
	for _, l := range layouts {
		exprs = append(exprs, l.sizeof())
		exprs = append(exprs, l.headers()...)
		for _, parts := range l.parse() {
			for _, p := range parts {
				exprs = append(exprs, p.exprs()...)
			}
		}
	}
	slices.Sort(exprs)
	c := comparison{values: h.evaluate(t, slices.Compact(exprs))}
	for _, n := range numbers {
		c.number(t, n, whole)
	}
	for _, l := range layouts {
		c.layout(t, l, whole)
	}
	t.Logf("compared with %s: %d constants, %d fields in %d structs", h.dir, c.constants, c.fields, c.structs)
	if len(c.differs) > 0 {
		t.Logf("otherwise than in 7.3:\n\t%s", strings.Join(c.differs, "\n\t"))
	}
	if len(c.missing) > 0 {
		slices.Sort(c.missing)
		text := strings.Join(slices.Compact(c.missing), "\n\t")
		if whole {
			t.Errorf("not in these headers:\n\t%s", text)
		} else {
			t.Logf("not in these headers, and so not compared:\n\t%s", text)
		}
	}
	if left := uncovered(t, h, layouts, numbers); len(left) > 0 {
		text := strings.Join(left, "\n\t")
		if whole {
			t.Errorf("in these headers, and nothing here stands for it:\n\t%s", text)
		} else {
			t.Logf("in these headers under a name that 7.3 does not have:\n\t%s", text)
		}
	}
}

type comparison struct {
	values                     map[string]uint64
	constants, fields, structs int
	missing                    []string // what the headers lack
	differs                    []string // what an older kernel has otherwise, rightly
}

func (c *comparison) number(t *testing.T, n number, whole bool) {
	got, ok := c.values[n.expr]
	if !ok {
		c.missing = append(c.missing, n.expr)
		return
	}
	c.constants++
	switch {
	case got == n.value:
	case !whole && slices.Contains(rising, n.expr) && got < n.value:
		c.differs = append(c.differs, fmt.Sprintf("%s is %d, in 7.3 %d", n.expr, got, n.value))
	default:
		t.Errorf("%s is %#x, here it is %#x", n.expr, got, n.value)
	}
}

// rising are numbers that grow from kernel to kernel by what they mean.
var rising = []string{"EFA_ADMIN_API_VERSION_MINOR", "EFA_ADMIN_MAX_OPCODE"}

func (c *comparison) layout(t *testing.T, l layout, whole bool) {
	size, ok := c.values[l.sizeof()]
	if !ok {
		c.missing = append(c.missing, "struct efa_"+l.c)
		return
	}
	c.structs++
	// Admin commands and responses count from their payload here.
	for _, e := range l.headers() {
		size -= c.values[e]
	}
	base := c.values[l.sizeof()] - size
	// Structs grow at their end from kernel to kernel, and efa_io_cdesc_common gave
	// its last member to the structs it is part of; members are compared one by one.
	if int(size) != l.format.size {
		text := fmt.Sprintf("struct efa_%s has %d bytes, %s has %d", l.c, size, l.format.name(), l.format.size)
		if whole {
			t.Error(text)
		}
		c.differs = append(c.differs, text)
	}
	table := l.parse()
	for _, f := range leaves(l.format.make()) {
		parts, ok := table[f.path]
		if !ok {
			t.Errorf("%s.%s: the table says of no member of struct efa_%s", l.format.name(), f.path, l.c)
			continue
		}
		want := make([]byte, l.format.size)
		if lacks := c.place(want, parts, base); lacks != "" {
			c.missing = append(c.missing, fmt.Sprintf("struct efa_%s: %s", l.c, lacks))
			continue
		}
		c.fields++
		switch got := ones(l.format, f.path); {
		case slices.Equal(got, want):
		case !whole && within(want, got):
			c.differs = append(c.differs, fmt.Sprintf("struct efa_%s has fewer bits for %s.%s", l.c, l.format.name(), f.path))
		default:
			t.Errorf("%s.%s and struct efa_%s, bits:\nGo % x\nC  % x", l.format.name(), f.path, l.c, got, want)
		}
		delete(table, f.path)
	}
	for path := range table {
		if !slices.ContainsFunc(leaves(l.format.make()), func(f leaf) bool { return f.path == path }) {
			t.Errorf("%s has no field %s, which the table names", l.format.name(), path)
		}
	}
}

// within reports whether a's bits are some, at least one, of b's.
func within(a, b []byte) bool {
	some := false
	for i := range a {
		if a[i]&^b[i] != 0 {
			return false
		}
		some = some || a[i] != 0
	}
	return some
}

// place sets the bits of parts in b, whose first byte is at base in the struct. It
// gives the name of what the headers lack.
func (c *comparison) place(b []byte, parts []part, base uint64) (lacks string) {
	for _, p := range parts {
		offset, ok1 := c.values[p.offset()]
		size, ok2 := c.values[p.size()]
		mask, ok3 := uint64(math.MaxUint64), true
		if p.mask != "" {
			mask, ok3 = c.values[p.mask]
		}
		if !ok1 || !ok2 {
			return p.member
		}
		if !ok3 {
			return p.member + " & " + p.mask
		}
		for i := range size {
			x := byte(0xff)
			if p.mask != "" {
				x = byte(mask >> (8 * i))
			}
			b[offset-base+i] |= x
		}
	}
	return ""
}

// A part is a member of a C struct, or some of its bits.
type part struct {
	c, member, mask string
}

func (p part) offset() string { return fmt.Sprintf("offsetof(struct efa_%s, %s)", p.c, p.member) }
func (p part) size() string   { return fmt.Sprintf("sizeof(((struct efa_%s *)0)->%s)", p.c, p.member) }

func (p part) exprs() []string {
	e := []string{p.offset(), p.size()}
	if p.mask != "" {
		e = append(e, p.mask)
	}
	return e
}

func (l layout) sizeof() string { return "sizeof(struct efa_" + l.c + ")" }

// headers are the sizes of what comes before the payload: a response's descriptor
// and, up to Linux 7.2, a command's.
func (l layout) headers() []string {
	var e []string
	for _, m := range []string{"acq_common_desc", "aq_common_desc", "aq_common_descriptor"} {
		e = append(e, part{c: l.c, member: m}.size())
	}
	return e
}

// parse gives the members that each Go field stands for.
func (l layout) parse() map[string][]part {
	table := map[string][]part{}
	for _, f := range strings.Fields(l.fields) {
		path, members, ok := strings.Cut(f, "=")
		if !ok {
			panic("layout of " + l.c + ": " + f)
		}
		for _, m := range strings.Split(members, "+") {
			member, mask, _ := strings.Cut(m, "&")
			table[path] = append(table[path], part{l.c, member, mask})
		}
	}
	return table
}

// uncovered gives the names in the headers that no table has.
func uncovered(t *testing.T, h headers, layouts []layout, numbers []number) []string {
	all := map[string]bool{}            // words of all tables
	own := map[string]map[string]bool{} // words of what speaks of one struct
	has := map[string]bool{}            // structs that have a layout
	add := func(text string) (ws []string) {
		ws = word.FindAllString(text, -1)
		for _, w := range ws {
			all[w] = true
		}
		return ws
	}
	for _, l := range layouts {
		name := "efa_" + l.c
		has[name], all[name] = true, true
		if own[name] == nil {
			own[name] = map[string]bool{}
		}
		for _, w := range add(l.fields) {
			own[name][w] = true
		}
	}
	for _, n := range numbers {
		ws := add(n.expr)
		for _, s := range ws {
			if strings.HasPrefix(s, "efa_") {
				if own[s] == nil {
					own[s] = map[string]bool{}
				}
				for _, w := range ws {
					own[s][w] = true
				}
			}
		}
	}
	constants, fields := h.names(t)
	if len(constants) < 10 || len(fields) < 5 {
		t.Errorf("found only %d constants and %d structs in %s: the test does not read these headers right", len(constants), len(fields), h.dir)
	}
	var left []string
	for _, c := range constants {
		if !all[c] {
			left = append(left, c)
		}
	}
	for s, members := range fields {
		// A struct that is only ever part of others has its members in their
		// tables; one without members of its own is compared by its size.
		words := own[s]
		if !has[s] && own[s] == nil {
			words = all
			if len(members) == 0 {
				left = append(left, "struct "+s)
			}
		}
		for _, m := range members {
			if !words[m] {
				left = append(left, "struct "+s+": "+m)
			}
		}
	}
	slices.Sort(left)
	return left
}
