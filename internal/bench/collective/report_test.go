package collective

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files and the picture in docs anew")

// golden compares with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is now (go test -update writes it)\n%s", name, got)
	}
}

func indented(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFormats(t *testing.T) {
	m := plain()
	m.hops = func(h *Hop) {
		if h.From == 1 {
			h.GBs, h.Most = 2.5, 2.6
		}
	}
	m.change = func(x *Measurement) {
		if x.Nodes == 4 {
			x.Seconds *= 4
		}
	}
	r := m.report()
	var text bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/report.txt", text.Bytes())
	golden(t, "testdata/report.json", indented(t, r))
	golden(t, "testdata/report.svg", SVG(r))
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// TestPictureOfTheDocs: the picture in docs is what was measured, drawn.
func TestPictureOfTheDocs(t *testing.T) {
	b, err := os.ReadFile("testdata/measured.json")
	if err != nil {
		t.Fatal(err)
	}
	r := new(Report)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		t.Fatal(err)
	}
	if got := indented(t, r); !bytes.Equal(got, b) {
		t.Error("a report is another one when it was read and written")
	}
	r.Verdict = verdict(r)
	picture := SVG(r)
	for x := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := x.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "../../../docs/pictures/collective.svg", picture)
}
