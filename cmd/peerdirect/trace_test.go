package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

func TestTraceUsage(t *testing.T) {
	for args, want := range map[string]string{
		"registrations extra":                      "unknown command",
		"registrations --pid -1":                   `"-1" is no process`,
		"registrations --device=":                  "--device needs a name",
		"registrations --slower-than -1s":          "--slower-than",
		"registrations --interval 1ms":             "at least 50ms",
		"registrations --duration -1s":             "0 or more",
		"registrations --svg=":                     "--svg needs a name",
		"registrations --listen=":                  "--listen needs an address",
		"registrations --json --log2":              "--log2 is for the table",
		"registrations --json --svg -":             "choose one",
		"registrations --events --svg -":           "leaves standard output to the picture",
		"registrations --interval 1s --svg -":      "leaves standard output to the picture",
		"registrations --max-series 10":            "--max-series is for --listen",
		"registrations --listen :0 --max-series 1": "at least 2",
		"registrations --max-overhead 5":           "5",
		"registrations --max-overhead -1%":         "is no share",
		"probes --purpose nothing":                 "choose registrations",
		"nothing":                                  "unknown command",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"trace"}, strings.Fields(args)...), nil, &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("trace %s: %d, %s", args, code, &stderr)
		}
	}
}

func TestTraceNoProcess(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"trace", "registrations", "--pid", "2147483647"}, nil, &stdout, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "no such process") {
		t.Errorf("%d, %s", code, &stderr)
	}
}

func TestPercentFlag(t *testing.T) {
	for s, want := range map[string]float64{"1%": 0.01, "0.5%": 0.005, "0.01": 0.01, "0": 0, "100%": 1, "1": 1} {
		var p percentFlag
		if err := p.Set(s); err != nil || float64(p) != want {
			t.Errorf("%q: %v, %v", s, float64(p), err)
		}
	}
	for _, s := range []string{"", "%", "101%", "2", "-1%", "NaN", "Inf", "a"} {
		var p percentFlag
		if err := p.Set(s); err == nil {
			t.Errorf("%q: %v", s, float64(p))
		}
	}
	p := percentFlag(0.01)
	if p.String() != "1%" {
		t.Error(p.String())
	}
}

// TestLiveText plays what is drawn on a made-up terminal: each drawing takes the place
// of the one before, and nothing scrolls.
func TestLiveText(t *testing.T) {
	var out bytes.Buffer
	l := &liveText{w: &out, size: func() (int, int) { return 40, 5 }}
	show := func(n int) string {
		if err := l.draw(func(w io.Writer, width, height int) error {
			if width != 39 || height != 4 {
				t.Errorf("%d by %d", width, height)
			}
			for i := range n {
				fmt.Fprintf(w, "line %d of %d\n", i, n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return playTerminal(out.String())
	}
	for _, c := range []struct {
		lines int
		want  string
	}{
		{2, "line 0 of 2\nline 1 of 2\n"},
		{4, "line 0 of 4\nline 1 of 4\nline 2 of 4\nline 3 of 4\n"},
		{1, "line 0 of 1\n"},
		{9, "line 0 of 9\nline 1 of 9\nline 2 of 9\nline 3 of 9\n"},
	} {
		if got := show(c.lines); got != c.want {
			t.Errorf("%d lines: %q, want %q", c.lines, got, c.want)
		}
	}
	if err := l.clear(); err != nil || playTerminal(out.String()) != "" {
		t.Errorf("%v, %q is left", err, playTerminal(out.String()))
	}
}

// playTerminal gives the lines that a terminal shows, for the few controls in use.
func playTerminal(s string) string {
	var lines []string
	row, column := 0, 0
	for s != "" {
		switch {
		case strings.HasPrefix(s, "\x1b["):
			end := strings.IndexAny(s, "AKJ")
			switch n := 0; s[end] {
			case 'A':
				fmt.Sscanf(s, "\x1b[%dA", &n)
				row -= n
			case 'K':
				lines[row] = lines[row][:column]
			case 'J':
				lines = lines[:min(row, len(lines))]
			}
			s = s[end+1:]
			continue
		case s[0] == '\n':
			row++
			column = 0
		case s[0] == '\r':
			column = 0
		default:
			for len(lines) <= row {
				lines = append(lines, "")
			}
			line := []byte(lines[row])
			lines[row] = string(append(line[:column], append([]byte{s[0]}, line[min(column+1, len(line)):]...)...))
			column++
		}
		s = s[1:]
	}
	return strings.Join(append(lines, ""), "\n")
}

func TestOfPurpose(t *testing.T) {
	all := []ebpfprobes.Probe{{Purpose: "a", Role: "x"}, {Purpose: "b"}, {Purpose: "a", Role: "y"}}
	if got, err := ofPurpose(all, "a"); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ofPurpose(all, "c"); err == nil || !strings.Contains(err.Error(), "choose a, b") {
		t.Error(err)
	}
}
