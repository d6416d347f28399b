package report

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestName bounds a name of another side; the kernel's are shorter.
const longestName = 64

// safe gives what another side wrote as visible characters: what moves the cursor,
// colours or turns the direction of writing is escaped as in Go, and so are bytes
// that are no UTF-8.
func safe(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	var b []byte
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			const digits = "0123456789abcdef"
			b = append(b, '\\', 'x', digits[s[i]>>4], digits[s[i]&15])
		case unicode.IsPrint(r) && !unicode.IsMark(r):
			b = utf8.AppendRune(b, r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b = append(b, q[1:len(q)-1]...)
		}
		i += n
	}
	return string(b)
}

// columns is how many of a terminal a line takes.
func columns(s string) (n int) {
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns: East Asian scripts and pictures take two columns (Unicode's UAX 11,
// by block).
func runeColumns(r rune) int {
	switch {
	case r < 0x1100:
		return 1
	case r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f000:
		return 2
	}
	return 1
}

// cut shortens a line to some columns, with "…" for what is missing.
func cut(s string, most int) string {
	if len(s) <= most || columns(s) <= most {
		return s
	}
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > most-1 {
			if most < 1 {
				return ""
			}
			return strings.TrimRight(s[:i], " ,") + "…"
		}
	}
	return s
}

// pad fills up with blanks.
func pad(s string, width int) string {
	if n := width - columns(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// paragraph prints text after a head, and what does not fit under its start. A word
// that is too long for a line stays whole: it may be there to be copied.
func (p *page) paragraph(head, text string) {
	indent := columns(head)
	line, used, first := head, indent, true
	for word := range strings.FieldsSeq(text) {
		n := columns(word)
		if !first && p.width > 0 && used+1+n > p.width {
			p.whole(line)
			line, used, first = strings.Repeat(" ", indent), indent, true
		}
		if !first {
			line, used = line+" ", used+1
		}
		line, used, first = line+word, used+n, false
	}
	p.whole(line)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
