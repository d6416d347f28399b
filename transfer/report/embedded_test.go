package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

// over puts both sides' transfer on other devices.
func over(s Sides, change func(*pages.Conditions)) Sides {
	change(&s.Sent.Conditions)
	change(&s.Received.Conditions)
	return s
}

func TestSeveralEFADevices(t *testing.T) {
	kernels := func(c *pages.Conditions) {
		c.Device, c.NICs, c.Transport, c.LinkLayer, c.MTU, c.Path = "efa_0..efa_3", 4, "EFA SRD", "unspecified", 8928, "direct"
	}
	embedded := func(c *pages.Conditions) {
		kernels(c)
		c.Embedded = true
	}
	for name, change := range map[string]func(*pages.Conditions){"efa": kernels, "embedded": embedded} {
		s := over(sides(512, 2, 1), change)
		for _, columns := range []int{60, 80} {
			var b bytes.Buffer
			if err := Picture(&b, s, Style{Columns: columns}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := len(strings.TrimSuffix(line, "\n")); n > columns {
					t.Errorf("%s, %d columns: a line of %d: %s", name, columns, n, line)
				}
			}
			if columns == 80 {
				golden.Check(t, "picture-"+name+"-80.txt", b.Bytes())
			}
		}
		var b bytes.Buffer
		if err := Text(&b, s.Sent); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "text-"+name+".txt", b.Bytes())
	}
}

// TestPagesThroughALink: where the pages went through TCP, text and picture say so.
func TestPagesThroughALink(t *testing.T) {
	s := over(sides(512, 2, 1), func(c *pages.Conditions) { c.Device, c.Transport, c.Embedded = "efa_0", "EFA SRD", true })
	s.Sent.LinkSent, s.Sent.LinkReceived = 33_600_000, 25_408
	var text, picture bytes.Buffer
	if err := Text(&text, s.Sent); err != nil {
		t.Fatal(err)
	}
	if err := Picture(&picture, s, Style{Columns: 80}); err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{text.String(), picture.String()} {
		words := strings.Join(strings.Fields(b), " ")
		if !strings.Contains(words, "went through their link's TCP connection, 33625408 bytes in all") || strings.Contains(words, " 0 bytes of pages") {
			t.Errorf("%s", b)
		}
	}
}
