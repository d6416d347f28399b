package docs

import (
	"regexp"
	"slices"
	"strings"
)

// Command is one call of a program in a block of code.
type Command struct {
	File string
	Line int
	Args []string // the program first; quotes are taken off, variables left as they are
}

// Commands gives the calls of a program, by name or as bin/NAME, in the blocks of code
// of a document that are a shell's: fenced as sh, or indented. Of lines that are broken
// by a backslash the first one counts as theirs.
func Commands(program, file, text string) []Command {
	var found []Command
	for _, b := range Blocks(file, text) {
		if b.Lang != "" && b.Lang != "sh" {
			continue
		}
		broken := strings.Split(b.Text, "\n")
		for i := 0; i < len(broken); i++ {
			at, line := b.Line+i, broken[i]
			for strings.HasSuffix(line, `\`) && i+1 < len(broken) {
				i++
				line = strings.TrimSuffix(line, `\`) + " " + broken[i]
			}
			for _, words := range split(line) {
				if args := call(program, words); args != nil {
					found = append(found, Command{file, at, args})
				}
			}
		}
	}
	return found
}

// before are what may stand before a program in a command.
var before = []string{"$", "sudo", "env", "exec", "if", "!", "while", "until", "do", "then", "time"}

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// call gives words from program on, nil if they do not call it.
func call(program string, words []string) []string {
	for i, w := range words {
		switch {
		case w == "ssh" || i > 0 && words[i-1] == "ssh":
		case w == program || strings.HasSuffix(w, "bin/"+program):
			return words[i:]
		case !slices.Contains(before, w) && !assignment.MatchString(w):
			return nil
		}
	}
	return nil
}

// split divides a line of a shell into simple commands, and these into words. It knows
// quotes, comments, redirections and what ends a command; substitutions $(…) are
// commands too.
func split(line string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	inWord, quote, redirected := false, rune(0), false
	endWord := func() {
		if inWord && !redirected {
			words = append(words, word.String())
		}
		if inWord {
			redirected = false
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, redirected = nil, false
	}
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			endWord()
		case r == '#' && !inWord:
			endCommand()
			return commands
		case r == '|' || r == ';' || r == '(' || r == ')' || r == '`' || r == '&' && (i == 0 || runes[i-1] != '>'):
			endCommand()
		case r == '>' || r == '<':
			if s := word.String(); s != "" && strings.Trim(s, "0123456789") == "" {
				word.Reset() // a descriptor's number
				inWord = false
			}
			endWord()
			redirected = true
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands
}
