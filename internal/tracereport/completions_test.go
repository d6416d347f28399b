package tracereport

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/prometheus/common/model"
)

func madeCompletions() *Completions {
	row := func(pid int, command, device string, queue uint64, number int64, w ebpfprobes.Wait, o ebpfprobes.Opcode, size uint64, times int, each time.Duration) ebpfprobes.CompletionRow {
		r := ebpfprobes.CompletionRow{Command: command,
			CompletionKey: ebpfprobes.CompletionKey{PID: pid, Device: device, Queue: queue, Number: number, Wait: w, Opcode: o, Size: size}}
		for i := range times {
			one := histogramOfAll(each + each*time.Duration(i%8)/4)
			r.Times.Add(&one)
		}
		if w == ebpfprobes.Polled {
			r.Bytes = uint64(times) * size
		}
		return r
	}
	probe := func(role, function, module string, by ebpfprobes.By, usable ebpfprobes.State, why string) ebpfprobes.Probe {
		return ebpfprobes.Probe{Purpose: "completions", Role: role, Function: function, Module: module, By: by, Usable: usable, Why: why, Needed: module == "ib_uverbs"}
	}
	writes := row(4242, "trainer", "mlx5_0", 0x5588c4b21b90, -1, ebpfprobes.Polled, ebpfprobes.OpWrite, 4096, 300, 9*time.Microsecond)
	writes.Failed, writes.Untimed, writes.Repeated = 2, 12, 3
	receives := row(4242, "trainer", "mlx5_0", 0x5588c4b21d30, -1, ebpfprobes.Polled, ebpfprobes.OpcodeUnknown, 0, 0, 0)
	receives.Untimed = 290
	ended := row(0, "pytest", "rxe0", 0, -1, ebpfprobes.Woken, ebpfprobes.OpcodeUnknown, 0, 5, 30*time.Microsecond)
	return &Completions{
		Tracing: Tracing{At: objectsAt, Losses: ebpfprobes.Losses{Untold: 2}, Traced: 60 * time.Second, Attached: true, Probes: []ebpfprobes.Probe{
			probe("event read", "ib_uverbs_comp_event_read", "ib_uverbs", ebpfprobes.ByFentry, ebpfprobes.Yes, ""),
			probe("event raised", "ib_uverbs_comp_handler", "ib_uverbs", ebpfprobes.ByFentry, ebpfprobes.Yes, ""),
			probe("polled queues: poll_cq", "0x1ea80", "libmlx5.so.1.25.56.1", ebpfprobes.ByUprobe, ebpfprobes.Yes, ""),
			probe("polled queues: post_send", "0x58f10", "libmlx5\n.so", "", ebpfprobes.No, "operation not permitted"),
			probe("polled queues: end_poll", "?", "libmlx5.so.1.25.56.1", "", ebpfprobes.Unknown, "the process has no extended completion queue"),
		}},
		Rows: []ebpfprobes.CompletionRow{
			row(99, "a\x1b[2J\nb", "", 0x55d0, 7, ebpfprobes.Woken, ebpfprobes.OpcodeUnknown, 0, 3, 40*time.Microsecond),
			row(4242, "trainer", "mlx5_0", 0x5588c4b21b90, 5, ebpfprobes.Woken, ebpfprobes.OpcodeUnknown, 0, 100, 6*time.Microsecond),
			row(4242, "trainer", "mlx5_0", 0x5588c4b21b90, 5, ebpfprobes.Collected, ebpfprobes.OpcodeUnknown, 0, 20, 90*time.Microsecond),
			writes,
			receives,
			ended,
		},
		Failures: []ebpfprobes.CompletionFailure{
			{PID: 4242, Command: "trainer", Device: "mlx5_0", Queue: 0x5588c4b21b90, QP: 291, Status: 10, Opcode: ebpfprobes.OpWrite, Count: 2},
			{PID: 4242, Command: "trainer", Queue: 0x5588c4b21b90, Status: 5, Opcode: ebpfprobes.OpcodeUnknown, Count: 1},
		},
		Sampling: &ebpfprobes.Sampling{Windows: 60, Followed: 612 * time.Millisecond, Posts: 320, Unsignaled: 5,
			Opening: 480 * time.Millisecond, Closing: 90 * time.Millisecond},
	}
}

// withoutWindows is a trace of events alone.
func withoutWindows() *Completions {
	r := madeCompletions()
	r.Probes, r.Rows, r.Failures, r.Sampling = r.Probes[:2], r.Rows[:3], nil, nil
	return r
}

// withoutEvents is a trace whose probes in the kernel could not be attached, on a kernel
// that lost some.
func withoutEvents() *Completions {
	r := madeCompletions()
	for i := range r.Probes[:2] {
		r.Probes[i].Usable, r.Probes[i].By, r.Probes[i].Why = ebpfprobes.No, "", "this kernel has no such function"
	}
	r.Rows = r.Rows[3:]
	r.Losses = ebpfprobes.Losses{Flights: 3, Untold: 2}
	r.Only("mlx5_0")
	return r
}

func TestCompletionsInWords(t *testing.T) {
	for name, c := range map[string]struct {
		r *Completions
		l Layout
	}{
		"completions.txt":         {madeCompletions(), Layout{}},
		"completions-log2.txt":    {madeCompletions(), Layout{Log2: true}},
		"completions-narrow.txt":  {madeCompletions(), Layout{Width: 72, Height: 14}},
		"completions-events.txt":  {withoutWindows(), Layout{Width: 100}},
		"completions-polled.txt":  {withoutEvents(), Layout{}},
		"completions-nothing.txt": {&Completions{Tracing: objectsTracing(), Sampling: &ebpfprobes.Sampling{}}, Layout{}},
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

func TestCompletionsAsRecords(t *testing.T) {
	var b bytes.Buffer
	s := NewStream(&b, CompletionsSchema)
	if err := madeCompletions().WriteRecords(s); err != nil {
		t.Fatal(err)
	}
	if err := withoutWindows().WriteRecords(s); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "completions.json", b.Bytes())
}

func TestCompletionMetrics(t *testing.T) {
	url := serve(t, NewCollector(objectsAt, MostSeries, func() ([]Metric, error) { return madeCompletions().Metrics(), nil }))
	_, b := get(t, url+"/metrics", "text/plain;version=0.0.4")
	golden.Check(t, "completions-metrics.txt", b)
	// A queue that a program makes anew is no new series.
	many := madeCompletions()
	for i := range 1000 {
		row := many.Rows[3]
		row.Queue += uint64(i) << 8
		many.Rows = append(many.Rows, row)
	}
	bound := NewBound(MostSeries)
	for _, m := range many.Metrics() {
		if !model.LegacyValidation.IsValidMetricName(m.Name) || m.Help == "" || (m.Type == Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: %s", m.Name, m.Help)
		}
		for _, s := range m.Samples {
			if len(s.Labels) != len(m.Labels) {
				t.Errorf("%s has labels %q with values %q", m.Name, m.Labels, s.Labels)
			}
			for _, l := range s.Labels {
				if l == "" || strings.ContainsAny(l, "\n\x1b") {
					t.Errorf("%s: label %q", m.Name, l)
				}
			}
		}
		if n := len(bound.Apply(m, objectsAt).Samples); n > 12 {
			t.Errorf("%s has %d series", m.Name, n)
		}
	}
}

func TestCompletionPanels(t *testing.T) {
	var names []string
	for _, p := range madeCompletions().Panels() {
		names = append(names, p.Name)
		if p.Count == 0 {
			t.Errorf("%s is empty", p.Name)
		}
	}
	if got := strings.Join(names, "; "); got != "collected; polled, write; woken" {
		t.Error(got)
	}
}

func TestCompletionsDrawn(t *testing.T) {
	h := NewHeat("waits", objectsAt, time.Second)
	h.Add(objectsAt.Add(time.Second), true, madeCompletions().Panels())
	var b bytes.Buffer
	if err := h.WriteSVG(&b, "Completions", objectsAt.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"polled, write", "300 waits", "108 waits", "waits:"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
}
