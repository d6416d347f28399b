package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/internal/golden"
)

func TestWatch(t *testing.T) {
	check := Check{Name: "ports", Group: "ports"}
	round := func(found ...Finding) *Report {
		for i := range found {
			found[i].Check = check.Name
		}
		return &Report{Source: "/", Live: true, Checked: []Checked{{check, found}}}
	}
	port := func(v Verdict, summary string, discards uint64) Finding {
		return Finding{Subject: "mlx5_0/1", Verdict: v, Summary: summary, Counters: map[string]uint64{"rx_discards": discards, "symbol_error": 0}}
	}
	var w Watch
	var text, records bytes.Buffer
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	zone := time.Local
	time.Local = time.UTC
	defer func() { time.Local = zone }()
	for i, c := range []struct {
		r    *Report
		want string
	}{
		{round(port(OK, "ACTIVE", 5), Finding{Subject: "mlx5_1/1", Summary: "ACTIVE"}), "[]"},
		{round(port(OK, "ACTIVE", 5), Finding{Subject: "mlx5_1/1", Summary: "ACTIVE"}), "[]"},
		{round(port(OK, "ACTIVE", 9), Finding{Subject: "mlx5_1/1", Verdict: Fail, Summary: "DOWN"}), "[rose ok warn rx_discards rose by 4 to 9; changed ok fail DOWN]"},
		{round(port(OK, "ACTIVE", 9)), "[gone fail - DOWN; changed warn ok ACTIVE]"},
		// A counter that was set back, by a reset, did not rise.
		{round(port(OK, "ACTIVE", 2), Finding{Subject: "new", Verdict: Note, Summary: "come"}), "[appeared - note come]"},
		{round(port(Fail, "DOWN", 3), Finding{Subject: "new", Verdict: Note, Summary: "come"}), "[rose ok fail rx_discards rose by 1 to 3; changed ok fail DOWN]"},
	} {
		got := w.Next(c.r, at.Add(time.Duration(i)*time.Second))
		if got.Number != i+1 || fmt.Sprint(events(got.Changes)) != c.want {
			t.Errorf("round %d: %s; want %s", got.Number, events(got.Changes), c.want)
		}
		if err := got.WriteText(&text, TextOptions{Width: 60}); err != nil {
			t.Fatal(err)
		}
		if err := got.WriteJSON(&records, 0); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "watch.txt", text.Bytes())
	lines := strings.Split(strings.TrimSpace(records.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d records", len(lines))
	}
	golden.Check(t, "watch.json", []byte(lines[2]+"\n"))
	for i, line := range lines {
		var d struct {
			Schema  string
			Round   int
			Time    time.Time
			Changes []json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Schema != Schema || d.Round != i+1 || d.Time.IsZero() || d.Changes == nil {
			t.Errorf("%s: %v, %+v", line, err, d)
		}
	}
}

func events(changes []Change) string {
	var all []string
	name := func(v *Verdict) string {
		if v == nil {
			return "-"
		}
		return v.String()
	}
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s %s %s %s", c.Event, name(c.From), name(c.To), c.Detail))
	}
	return "[" + strings.Join(all, "; ") + "]"
}

// What a check says of one subject several times is compared in order.
func TestWatchManyOfOneSubject(t *testing.T) {
	of := func(last string) *Report {
		return &Report{Checked: []Checked{{Check{Name: "a"}, []Finding{{Summary: "one"}, {Summary: last}}}}}
	}
	var w Watch
	w.Next(of("two"), time.Time{})
	if got := events(w.Next(of("three"), time.Time{}).Changes); got != "[changed ok ok three]" {
		t.Error(got)
	}
}

func TestLook(t *testing.T) {
	var order []string
	say := func(name string, found ...Finding) Check {
		return Check{Name: name, Run: func(context.Context, *System) []Finding { return found }}
	}
	s := machine(t, kernelIs)
	began := func(c Check) { order = append(order, "begin "+c.Name) }
	each := func(c Checked) error {
		order = append(order, fmt.Sprintf("%s %d", c.Check.Name, len(c.Findings)))
		return nil
	}
	live := say("live", Finding{Summary: "x"})
	live.Live = true
	r, err := Look(t.Context(), s, "here", []Check{say("a", Finding{Summary: "x"}), live, say("b")}, began, each)
	if err != nil || r.Kernel != "6.12.0" || r.Source != "here" || r.Live || fmt.Sprint(order) != "[begin a a 1 begin live begin b b 0]" || r.Findings()[0].Check != "a" {
		t.Errorf("%+v, %v, %v", r, err, order)
	}
	if NewSystem(root(t, "proc/version = Linux version 6.1.9-x (gcc) #1"), false).Kernel() != "6.1.9-x" || machine(t, "sys/").Kernel() != "" {
		t.Error("the kernel's release is not the one of /proc/version")
	}
}

// A check that waits holds nobody up, and is told; what prints may end the look.
func TestLookEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	waiting := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	stuck := Check{Name: "stuck", Run: func(ctx context.Context, _ *System) []Finding {
		close(waiting)
		<-ctx.Done()
		return []Finding{{Summary: "late"}}
	}}
	go func() { <-waiting; cancel() }()
	none := func(Checked) error { return nil }
	if r, err := Look(ctx, machine(t), "", []Check{stuck, stuck}, func(Check) {}, none); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
	broken := errors.New("a pipe that is closed")
	quick := Check{Name: "quick", Run: func(context.Context, *System) []Finding { return nil }}
	if _, err := Look(t.Context(), machine(t), "", []Check{quick, quick}, func(Check) {}, func(Checked) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), before)
		}
	}
}

// Devices whose counters are alike are followed each alone: that of the one that rises
// is told.
func TestWatchDevicesThatAreAlike(t *testing.T) {
	look := func(second string) *Report {
		s := machine(t, nic("mlx5_core"), rdma("mlx5_0", nicAt, "4: ACTIVE", hdr, ib, "hw_counters/out_of_sequence = 5"),
			function(farOther, "15b3", "1021", "020700", "mlx5_core"), rdma("mlx5_1", farOther, "4: ACTIVE", hdr, ib, "hw_counters/out_of_sequence = "+second))
		return &Report{Checked: []Checked{{Check{Name: "rdma-counters"}, runCheck(t, s, "rdma-counters")}}}
	}
	var w Watch
	w.Next(look("5"), time.Time{})
	r := w.Next(look("9"), time.Time{})
	if got := events(r.Changes); !strings.HasPrefix(got, "[rose note warn ports/1/hw_counters/out_of_sequence rose by 4 to 9") || r.Changes[0].Subject != "mlx5_1" {
		t.Error(got)
	}
	want(t, told(r.Report.Findings()), "note mlx5_0: |warn mlx5_1: ")
	if got := events(w.Next(look("9"), time.Time{}).Changes); strings.Contains(got, "rose") {
		t.Error(got)
	}
}
