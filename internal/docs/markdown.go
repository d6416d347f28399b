// Package docs reads the project's documents: their code blocks, links and commands.
// Tests hold the documents to the code by it, and internal/docs/runguides runs the
// guides. No other package needs it.
package docs

import (
	"io/fs"
	"regexp"
	"strings"
)

// Block is a block of code: a fenced one, or lines indented by four spaces.
type Block struct {
	File  string   // the document
	Line  int      // of its first line of code, from 1
	Lang  string   // the first word after the fence, "" of an indented block
	Words []string // the other words there
	Text  string   // every line of it ended
}

// Link is a link to another file, or to a place in one.
type Link struct {
	File   string
	Line   int
	Target string // as written: "../docs/lab.md#the-link"
}

// Files gives the names of all Markdown files below root, but of built ones.
func Files(root fs.FS) ([]string, error) {
	var names []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || name == "bin" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// lines calls code for each line in a block of code, with the words behind the fence and
// the number of the block's first line, and prose for every other line.
func lines(text string, code func(words []string, first int, line string), prose func(n int, line string)) {
	var words []string
	fenced, indented := 0, 0 // the first line of the block that we are in
	blank, list := true, false
	for i, line := range strings.Split(text, "\n") {
		n, trimmed := i+1, strings.TrimSpace(line)
		switch {
		case fenced > 0 && trimmed == fence:
			fenced = 0
		case fenced > 0:
			code(words, fenced, line)
		case strings.HasPrefix(trimmed, fence):
			fenced, indented = n+1, 0
			words = strings.Fields(strings.TrimPrefix(trimmed, fence))
		case trimmed != "" && strings.HasPrefix(line, "    ") && (indented > 0 || blank && !list):
			if indented == 0 {
				indented = n
			}
			code(nil, indented, line[4:])
		case trimmed == "" && indented > 0:
			code(nil, indented, "")
		default:
			prose(n, line)
			indented = 0
			if trimmed != "" {
				list = strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* ") || list && strings.HasPrefix(line, "  ")
			}
		}
		blank = trimmed == ""
	}
}

const fence = "```"

// Blocks gives a document's blocks of code.
func Blocks(file, text string) []Block {
	var blocks []Block
	lines(text, func(words []string, first int, line string) {
		if n := len(blocks); n == 0 || blocks[n-1].Line != first {
			b := Block{File: file, Line: first}
			if len(words) > 0 {
				b.Lang, b.Words = words[0], words[1:]
			}
			blocks = append(blocks, b)
		}
		blocks[len(blocks)-1].Text += line + "\n"
	}, func(int, string) {})
	return blocks
}

var linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links gives a document's links, but those to other hosts.
func Links(file, text string) []Link {
	var links []Link
	lines(text, func([]string, int, string) {}, func(n int, line string) {
		for _, m := range linkPattern.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
				links = append(links, Link{file, n, m[1]})
			}
		}
	})
	return links
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Anchors gives the names by which a document's headings are linked to, as GitHub and
// GitLab make them.
func Anchors(text string) map[string]bool {
	anchors := make(map[string]bool)
	lines(text, func([]string, int, string) {}, func(_ int, line string) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			name := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			anchors[strings.ReplaceAll(name, " ", "-")] = true
		}
	})
	return anchors
}
