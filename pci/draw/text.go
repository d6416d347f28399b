package draw

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Advance widths of ASCII from the space on, in thousandths of the letter size. Each
// is the wider of two common faces (Arial's metrics and DejaVu Sans's), so what fits
// here fits in either.
var advances = [...]uint16{
	318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, // space to /
	636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 556, // 0 to ?
	1015, 684, 686, 722, 770, 667, 611, 778, 752, 295, 500, 667, 557, 863, 748, 787, // @ to O
	667, 787, 722, 667, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 556, // P to _
	500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, // ` to o
	635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838, // p to ~
}

// Bold letters are this much wider.
const boldness = 1.1

// textWidth is an upper bound of a line's length.
func textWidth(s string, size float64, bold bool) float64 {
	sum := 0
	for _, r := range s {
		switch {
		case r >= ' ' && int(r-' ') < len(advances):
			sum += int(advances[r-' '])
		case r == '·':
			sum += 333
		case r == '–':
			sum += 556
		case r == '…':
			sum += 1000
		case r == '×', r == '↔', r == '→':
			sum += 838
		case r < 0x300:
			sum += 850
		default: // a whole square, for scripts that need it
			sum += 1100
		}
	}
	width := float64(sum) * size / 1000
	if bold {
		width *= boldness
	}
	return width
}

// shorten cuts a line to fit a width, in the middle, as the ends of device names tell
// most; "" if not even the mark of the cut fits.
func shorten(s string, width, size float64, bold bool) string {
	s = clean(s)
	if textWidth(s, size, bold) <= width {
		return s
	}
	runes := []rune(s)
	for keep := min(len(runes)-1, int(width/size*5)); keep >= 1; keep-- {
		head := (keep + 1) / 2
		cut := strings.TrimRight(string(runes[:head]), " ") + "…" + strings.TrimLeft(string(runes[len(runes)-(keep-head):]), " ")
		if textWidth(cut, size, bold) <= width {
			return cut
		}
	}
	if textWidth("…", size, bold) <= width {
		return "…"
	}
	return ""
}

// clip cuts a line at its end.
func clip(s string, width, size float64, bold bool) string {
	s = clean(s)
	if textWidth(s, size, bold) <= width {
		return s
	}
	runes := []rune(s)
	for keep := min(len(runes)-1, int(width/size*5)); keep >= 1; keep-- {
		cut := strings.TrimRight(string(runes[:keep]), " ·,(") + "…"
		if textWidth(cut, size, bold) <= width {
			return cut
		}
	}
	return ""
}

// longest bounds what of a name is looked at.
const longest = 1024

// clean makes one visible line of what another side wrote: no control characters, no
// marks that turn the direction of writing, valid UTF-8.
func clean(s string) string {
	if len(s) > longest {
		s = s[:longest]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, r == 0xfffe, r == 0xffff:
			return '?'
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s))
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// escape is clean text as XML wants it.
func escape(s string) string { return escaper.Replace(clean(s)) }
