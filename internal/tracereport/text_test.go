package tracereport

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
)

func TestTable(t *testing.T) {
	broken := made()
	broken.Losses = ebpfprobes.Losses{Cells: 3, Runs: 1}
	broken.Attached, broken.Overhead, broken.Unmeasured = false, nil, "operation not permitted"
	for name, c := range map[string]struct {
		r *Registrations
		l Layout
	}{
		"table.txt":    {made(), Layout{}},
		"narrow.txt":   {made(), Layout{Width: 72, Height: 18}},
		"log2.txt":     {made(), Layout{Log2: true}},
		"detached.txt": {broken, Layout{Width: 100}},
		"nothing.txt":  {&Registrations{Tracing: Tracing{Attached: true}}, Layout{}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.r.WriteText(&b, c.l); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, b.Bytes())
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if c.l.Width > 0 && utf8.RuneCountInString(line) > c.l.Width {
					t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("not printable: %q", line)
				}
			}
			if n := strings.Count(b.String(), "\n"); c.l.Height > 0 && n >= c.l.Height {
				t.Errorf("%d lines on a terminal of %d", n, c.l.Height)
			}
		})
	}
}

func TestRatesSince(t *testing.T) {
	before, now := made(), made()
	before.At = now.At.Add(-2 * time.Second)
	before.Rows = before.Rows[2:] // the second row is new
	before.Rows = append(before.Rows, now.Rows[0])
	for range 50 {
		one := histogramOfAll(time.Millisecond)
		now.Rows[3].Whole.Add(&one)
	}
	got := now.RatesSince(before)
	want := []float64{0, 50, 0, 25, 0, 0}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOnly(t *testing.T) {
	r := made()
	r.Only("mlx5_0")
	if len(r.Rows) != 4 || len(r.Failures) != 1 {
		t.Errorf("%d rows, %d failures", len(r.Rows), len(r.Failures))
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Duration(0), "0ns"}, {Duration(999), "999ns"}, {Duration(1000), "1.00us"}, {Duration(12345), "12.3us"},
		{Duration(99950), "100us"}, {Duration(999499), "999us"}, {Duration(999500), "1.00ms"}, {Duration(2500 * time.Millisecond), "2.50s"},
		{Duration(90 * time.Minute), "5400s"},
		{Bytes(0), "0"}, {Bytes(4096), "4K"}, {Bytes(4097), "4097"}, {Bytes(3 << 20), "3M"}, {Bytes(1 << 63), "8E"},
		{sizeClass(0), "?"}, {Rate(0), "0"}, {Rate(0.051), "0.05"}, {Rate(45678), "45678"},
		{Percent(0), "0%"}, {Percent(0.00001), "<0.01%"}, {Percent(0.0012), "0.12%"}, {Percent(0.055), "5.5%"}, {Percent(0.61), "61%"},
		{Name(""), "?"}, {Name("a b"), "a b"}, {Name("a\x1b[31m\n"), `a\x1b[31m\n`}, {Name(`"\`), `"\\`}, {Name("\u202egpj"), `\u202egpj`}, {Name("\xff"), `\xff`},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestHints holds the hints to the errors that users meet; a remedy for one must not be
// taken by a row above it.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		o          ebpfprobes.Operation
		k          ebpfprobes.Kind
		err, cause syscall.Errno
		p          ebpfprobes.Phase
		want       string
	}{
		{ebpfprobes.Register, ebpfprobes.Host, syscall.ENOMEM, syscall.ENOMEM, ebpfprobes.Driver, "ulimit -l"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.ENOMEM, 0, ebpfprobes.Uverbs, "ulimit -l"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.ENOMEM, syscall.ENOMEM, ebpfprobes.Pin, "cgroup's memory"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.EFAULT, syscall.EFAULT, ebpfprobes.Pin, "not mapped"},
		{ebpfprobes.Register, ebpfprobes.DMABuf, syscall.EREMOTEIO, syscall.EREMOTEIO, ebpfprobes.BufferMap, "cannot reach"},
		{ebpfprobes.Register, ebpfprobes.DMABuf, syscall.EINVAL, syscall.EINVAL, ebpfprobes.Attach, "the exporter refused"},
		{ebpfprobes.Register, ebpfprobes.DMABuf, syscall.EINVAL, syscall.EINVAL, ebpfprobes.Driver, "no dma-buf"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.EINVAL, syscall.EINVAL, ebpfprobes.Driver, "argument was refused"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.EIO, syscall.ETIMEDOUT, ebpfprobes.Command, "did not answer"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.EIO, syscall.EPROTO, ebpfprobes.Command, "device refused"},
		{ebpfprobes.Deregister, ebpfprobes.Host, syscall.EBUSY, syscall.EBUSY, ebpfprobes.Driver, "memory window"},
		{ebpfprobes.Register, ebpfprobes.Host, syscall.ENOTTY, syscall.ENOTTY, ebpfprobes.Uverbs, ""},
	} {
		got := Hint(c.o, c.k, c.err, c.cause, c.p)
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v of %v: %v in %v: %q, want %q", c.o, c.k, c.cause, c.p, got, c.want)
		}
	}
}
