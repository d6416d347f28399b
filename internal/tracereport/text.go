package tracereport

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Name makes one printable line of a name that another process chose; "?" if it is not
// known.
func Name(s string) string {
	if s == "" {
		return "?"
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// Duration prints three digits: 850ns, 12.3us, 1.05ms, 2.50s.
func Duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", d.Nanoseconds())
	case d < 999500*time.Nanosecond:
		return digits(float64(d)/1e3) + "us"
	case d < 999500*time.Microsecond:
		return digits(float64(d)/1e6) + "ms"
	}
	return digits(d.Seconds()) + "s"
}

// digits prints three of them, and all that are before the point.
func digits(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Rate prints a number a second: 0, 0.05, 12.3, 45600.
func Rate(v float64) string {
	if v == 0 {
		return "0"
	}
	return digits(v)
}

// Bytes prints a length in binary units as far as they go evenly: 4K, 1M, 4097.
func Bytes(n uint64) string {
	unit := 0
	for n >= 1024 && n%1024 == 0 && unit < 6 {
		n /= 1024
		unit++
	}
	return strconv.FormatUint(n, 10) + [...]string{"", "K", "M", "G", "T", "P", "E"}[unit]
}

// sizeClass prints a class of lengths by its lower bound; 0 is below 2 or unknown.
func sizeClass(n uint64) string {
	if n == 0 {
		return "?"
	}
	return Bytes(n)
}

// Percent prints a share of one: 61%, 2.5%, <0.01%.
func Percent(share float64) string {
	v := 100 * share
	switch {
	case v == 0:
		return "0%"
	case v < 0.01:
		return "<0.01%"
	case v < 1:
		return strconv.FormatFloat(v, 'f', 2, 64) + "%"
	case v < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + "%"
}

func cpus(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return strconv.Itoa(n) + " CPUs"
}

// table aligns cells. Columns whose heads begin with ">" are numbers, to the right.
type table struct {
	head []string
	rows [][]string
	drop []string // heads of columns that can go where there is no room, in this order
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// lastColumn is room for the last column, before others go for it.
const lastColumn = 16

// fit leaves columns out until what remains fits.
func (t *table) fit(width int) {
	for _, drop := range t.drop {
		room := lastColumn
		for i := range t.head[:len(t.head)-1] {
			w := utf8.RuneCountInString(strings.TrimPrefix(t.head[i], ">"))
			for _, r := range t.rows {
				w = max(w, utf8.RuneCountInString(r[i]))
			}
			room += w + 2
		}
		if room <= width {
			return
		}
		at := slices.Index(t.head, drop)
		t.head = slices.Delete(t.head, at, at+1)
		for i, r := range t.rows {
			t.rows[i] = slices.Delete(r, at, at+1)
		}
	}
}

// write prints the table, lines cut to width columns if that is above 0.
func (t *table) write(w io.Writer, width int) error {
	if width > 0 {
		t.fit(width)
	}
	right := make([]bool, len(t.head))
	heads := make([]string, len(t.head))
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		heads[i] = strings.TrimPrefix(h, ">")
		right[i] = heads[i] != h
		widths[i] = utf8.RuneCountInString(heads[i])
	}
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range append([][]string{heads}, t.rows...) {
		var b strings.Builder
		for i, c := range r {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if right[i] {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
		}
		if _, err := io.WriteString(w, cut(strings.TrimRight(b.String(), " "), width)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// cut shortens a line to width columns; 0 is no bound.
func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}
