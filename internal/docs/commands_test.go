package docs

import (
	"slices"
	"strings"
	"testing"
)

func TestCommands(t *testing.T) {
	const text = "Text with peerdirect in it.\n\n" +
		"    bin/peerdirect a b   # peerdirect not this\n" +
		"    $ X=1 peerdirect c \\\n        --d 'e f'\n\n" +
		"    ssh root@node7 peerdirect g - | peerdirect h >out 2>&1 &\n\n" +
		"- a list\n\n    peerdirect is what this paragraph of it is about\n\n" +
		"Words.\n\n```sh node0\nif peerdirect i \"$(peerdirect j)\"; then echo peerdirect; fi\n# peerdirect k\n```\n" +
		"```go\npeerdirect no\n```\n"
	var got []string
	lines := make([]int, 0)
	for _, c := range Commands("peerdirect", "x.md", text) {
		got = append(got, strings.Join(c.Args[1:], "|"))
		lines = append(lines, c.Line)
	}
	// A substitution in quotes is a word of its command, and not looked into.
	if want := []string{"a|b", "c|--d|e f", "g|-", "h", "i|$(peerdirect j)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []int{3, 4, 7, 7, 16}; !slices.Equal(lines, want) {
		t.Errorf("lines %d, want %d", lines, want)
	}
}

func TestBlocks(t *testing.T) {
	const text = "# A title: it's `x`\n\n```sh host file=x.go\none\n\n    two\n```\n\n    three\n\n    four\nfive [l](a.md#b) [m](http://x/y)\n"
	blocks := Blocks("x.md", text)
	if len(blocks) != 2 || blocks[0].Text != "one\n\n    two\n" || blocks[0].Lang != "sh" || !slices.Equal(blocks[0].Words, []string{"host", "file=x.go"}) ||
		blocks[0].Line != 4 || blocks[1].Text != "three\n\nfour\n" || blocks[1].Lang != "" || blocks[1].Line != 9 {
		t.Errorf("%+v", blocks)
	}
	if links := Links("x.md", text); len(links) != 1 || links[0] != (Link{"x.md", 12, "a.md#b"}) {
		t.Errorf("%+v", links)
	}
	if anchors := Anchors(text); len(anchors) != 1 || !anchors["a-title-its-x"] {
		t.Errorf("%v", anchors)
	}
}
