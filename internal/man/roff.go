package man

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text writes paragraphs; those that are indented are lists of a word and what it
// means, or stay as they are.
func (p *page) text(s string) {
	for _, paragraph := range strings.Split(s, "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		switch {
		case !strings.HasPrefix(lines[0], " "):
			p.paragraph()
			// A list may follow its heading at once.
			n := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  ") })
			if n < 0 {
				n = len(lines)
			}
			p.fill(strings.Join(lines[:n], " "))
			if n < len(lines) {
				p.indented(lines[n:])
			}
		default:
			p.indented(lines)
		}
	}
}

var listEntry = regexp.MustCompile(`^  (\S+(?: \S+)*)  +(\S.*)$`)

// indented writes a list, where each line is an entry or goes on with one.
func (p *page) indented(lines []string) {
	var list [][2]string
	for _, l := range lines {
		m := listEntry.FindStringSubmatch(l)
		switch {
		case m != nil:
			list = append(list, [2]string{m[1], m[2]})
		case len(list) > 0 && strings.HasPrefix(l, "        "):
			list[len(list)-1][1] += " " + strings.TrimSpace(l)
		case strings.HasPrefix(l, "  ") && !strings.Contains(strings.TrimSpace(l), " ") && len(lines) > 1:
			list = append(list, [2]string{strings.TrimSpace(l), ""}) // its text is on the next
		default:
			p.verbatim(lines)
			return
		}
	}
	for _, e := range list {
		p.entry(`.B `+escape(e[0]), e[1])
	}
}

// fill writes text in lines that are short in the source as well.
func (p *page) fill(text string) {
	const most = 78
	line := ""
	for _, word := range strings.Fields(text) {
		word = escape(word)
		if line != "" && len(line)+1+len(word) > most {
			p.line("%s", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		p.line("%s", line)
	}
}

// verbatim writes lines as they are.
func (p *page) verbatim(lines []string) {
	p.paragraph()
	p.line(".nf")
	for _, l := range lines {
		if l = strings.TrimRight(l, " "); l == "" {
			p.line(".sp")
			continue
		}
		p.line("%s", escape(l))
	}
	p.line(".fi")
}

// escape makes a line of text of s for roff, whose control characters begin a line
// or follow a backslash. Hyphens are those that one types.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	var b strings.Builder
	for _, c := range s {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
			continue
		}
		fmt.Fprintf(&b, `\[u%04X]`, c)
	}
	if s = b.String(); strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

func lowerFirst(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[n:]
}
