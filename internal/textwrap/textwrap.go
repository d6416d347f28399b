// Package textwrap breaks text into lines.
package textwrap

import (
	"strings"
	"unicode/utf8"
)

// Lines breaks a text at its white space into lines of so many characters at most;
// a longer word has a line of its own. There is one line at least.
func Lines(text string, columns int) (lines []string) {
	line, length := "", 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case length == 0:
			line, length = word, n
		case length+1+n > columns:
			lines = append(lines, line)
			line, length = word, n
		default:
			line += " " + word
			length += 1 + n
		}
	}
	return append(lines, line)
}
