package inventory

import (
	"fmt"
	"io"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
)

// The verbose text is the JSON document laid out for eyes: it walks the same
// types under the same names, so that neither can have a field the other lacks.

// WriteVerbose prints every field. A width of 0 wraps lists of names at 80.
func (inv Inventory) WriteVerbose(w io.Writer, width int) error {
	if width <= 0 {
		width = 80
	}
	t := &text{width: width}
	t.line(0, "kernel", or(inv.Kernel, "unknown"))
	t.line(0, "libibverbs", or(inv.Library, "unknown"))
	if inv.System != nil {
		t.fields(0, reflect.ValueOf(*inv.System))
	}
	for i := range inv.Devices {
		d := &inv.Devices[i]
		t.out.WriteString("\n" + d.Name + "\n")
		t.fields(2, reflect.ValueOf(*d))
		for _, p := range d.Ports {
			t.heading(2, fmt.Sprintf("Port %d", p.Number))
			t.fields(4, reflect.ValueOf(p))
		}
		t.heading(2, "Resources")
		if d.Resources == nil {
			t.out.WriteString("    unknown\n")
			continue
		}
		t.fields(4, reflect.ValueOf(*d.Resources))
	}
	_, err := io.WriteString(w, t.out.String())
	return err
}

type text struct {
	out   strings.Builder
	width int
}

const labelWidth = 35

func (t *text) heading(indent int, s string) {
	fmt.Fprintf(&t.out, "%s%s\n", strings.Repeat(" ", indent), s)
}

// line prints a label and its value, which wraps at blanks under its start.
func (t *text) line(indent int, label, value string) {
	head := fmt.Sprintf("%s%-*s ", strings.Repeat(" ", indent), labelWidth-indent, label)
	line := head
	for i, word := range strings.Fields(value) {
		switch {
		case i == 0:
		case len(line)+1+len(word) > t.width:
			t.out.WriteString(line + "\n")
			line = strings.Repeat(" ", len(head))
		default:
			line += " "
		}
		line += word
	}
	t.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

// fields prints the fields of a structure: values first, groups after them.
func (t *text) fields(indent int, v reflect.Value) {
	type group struct {
		heading string
		value   reflect.Value
	}
	var groups []group
	for f, v := range v.Fields() {
		name := f.Tag.Get("json")
		switch name {
		case "name", "port", "ports", "resources": // headings of their own
			continue
		}
		if heading := f.Tag.Get("group"); heading != "" {
			groups = append(groups, group{heading, v})
			continue
		}
		label, unit := unitOf(name)
		if none := f.Tag.Get("nil"); none != "" && v.IsNil() {
			t.line(indent, label, none)
			continue
		}
		t.line(indent, label, value(v, unit, f.Tag.Get("zero")))
	}
	for _, g := range groups {
		if d, ok := v.Interface().(Device); ok && g.heading == "PCI function" && d.absent() == "-" {
			continue
		}
		t.group(indent, g.heading, g.value)
	}
}

func (t *text) group(indent int, heading string, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			t.line(indent, heading, "unknown")
			return
		}
		t.heading(indent, heading)
		t.fields(indent+2, v.Elem())
		return
	}
	switch {
	case v.IsNil():
		t.line(indent, heading, "unknown")
	case v.Len() == 0:
		t.line(indent, heading, "none")
	default:
		t.heading(indent, fmt.Sprintf("%s (%d)", heading, v.Len()))
		t.table(indent+2, v)
	}
}

// table prints a list of structures under their JSON names; columns that say
// nothing are left out.
func (t *text) table(indent int, list reflect.Value) {
	var cols [][]string
	var visit func(typ reflect.Type, path []int)
	visit = func(typ reflect.Type, path []int) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			at := append(append([]int{}, path...), i)
			if f.Anonymous {
				visit(f.Type, at)
				continue
			}
			col := []string{f.Tag.Get("json")}
			blank := true
			for r := range list.Len() {
				s := cell(list.Index(r).FieldByIndex(at))
				blank = blank && s == "-"
				col = append(col, s)
			}
			if !blank {
				cols = append(cols, col)
			}
		}
	}
	visit(list.Type().Elem(), nil)
	grid(&t.out, cols, strings.Repeat(" ", indent))
}

func cell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.Slice && v.Len() == 0 || v.Kind() == reflect.Bool && !v.Bool() {
		return "-"
	}
	return value(v, "", "")
}

// unitOf takes the unit off a name's end.
func unitOf(name string) (label, unit string) {
	label = name
	if i := strings.LastIndexByte(name, '_'); i > 0 {
		switch name[i+1:] {
		case "bytes", "mbps", "kbps", "khz", "us", "lanes":
			label, unit = name[:i], name[i+1:]
		}
	}
	return strings.ReplaceAll(label, "_", " "), unit
}

var units = map[string]string{"mbps": "Mb/s", "kbps": "kb/s", "khz": "kHz", "us": "us", "lanes": "lanes"}

func value(v reflect.Value, unit, zero string) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "unknown"
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case Hex:
		if x.Value == 0 && zero != "" {
			return zero
		}
		return x.String()
	case Flags:
		if len(x.Names) == 0 {
			return "none"
		}
		return x.Value.String() + " " + strings.Join(x.Names, " ")
	case []string:
		return strings.Join(x, ", ")
	case []int:
		if len(x) == 0 {
			return "none"
		}
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(x), "[]"), " ", ", ") + " " + unit
	case bool:
		return yes(x)
	case string:
		return x
	}
	if v.IsZero() && zero != "" {
		return zero
	}
	if unit == "bytes" {
		return byteCount(uintOf(v))
	}
	s := fmt.Sprint(v.Interface())
	if v.Kind() == reflect.Float64 {
		s = strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	if unit == "lanes" && s == "1" {
		return "1 lane"
	}
	return strings.TrimSpace(s + " " + units[unit])
}

func uintOf(v reflect.Value) uint64 {
	if v.CanInt() {
		return uint64(v.Int())
	}
	return v.Uint()
}

// byteCount prints a number of bytes, round ones also in the unit they are
// round in.
func byteCount(n uint64) string {
	switch {
	case n == math.MaxUint64:
		return "unlimited (2^64-1 bytes)"
	case n >= 1<<20 && bits.TrailingZeros64(n) >= 20:
		return fmt.Sprintf("%d bytes (%s)", n, roundBytes(n, " "))
	}
	return fmt.Sprintf("%d bytes", n)
}

// roundBytes prints a number of bytes in the largest unit that divides it.
func roundBytes(n uint64, blank string) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(names)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%d%s%s", n, blank, names[i])
}
