package textwrap

import (
	"slices"
	"testing"
)

func TestLines(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    []string
	}{
		{"", 10, []string{""}},
		{" \n\t", 10, []string{""}},
		{"one", 1, []string{"one"}},
		{"one two  three", 7, []string{"one two", "three"}},
		{"one two three", 6, []string{"one", "two", "three"}},
		{"a word-that-is-longer b", 5, []string{"a", "word-that-is-longer", "b"}},
		{"µµµ µµµ", 7, []string{"µµµ µµµ"}},
		{"no bound", -1, []string{"no", "bound"}},
	} {
		if got := Lines(test.text, test.columns); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}
