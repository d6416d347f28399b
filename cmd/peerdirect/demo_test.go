package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/transfer/pages"
	"github.com/peerdirect/peerdirect/transfer/report"
)

func TestTheDemoRunsAtOnce(t *testing.T) {
	start := time.Now()
	stdout, stderr, code := execute(t.Context(), "demo --pages 128 --page-size 16K")
	if code != exitOK {
		t.Fatalf("exit %d\n%s\n%s", code, stdout, stderr)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{
		"verified: 128 of 128 pages in node0's memory", "efa_0..efa_3", "(4 NICs) on each side, EFA SRD, direct data path",
		"Software EFA devices inside this process", "0 bytes of pages through TCP", "p99",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout+stderr, "\x1b") {
		t.Errorf("escapes in a pipe: %q", stdout+stderr)
	}
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	var stages []string
	for line := range strings.Lines(stderr) {
		if f := strings.Fields(line); len(f) > 0 {
			stages = append(stages, f[0])
		}
	}
	if got := strings.Join(stages[:min(5, len(stages))], " "); got != "devices connect register transfer verify" || !strings.Contains(stderr, "peerdirect demo --lab") {
		t.Errorf("%s", stderr)
	}
}

func TestTheDemoAsJSON(t *testing.T) {
	stdout, stderr, code := execute(t.Context(), "demo --pages 16 --page-size 4K --nics 1 --json")
	var got struct {
		Schema           string
		Sender, Receiver pages.Result
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || got.Schema != demoSchema || strings.Contains(stderr, "--lab") ||
		!got.Sender.Verified || !got.Receiver.Verified || got.Sender.Conditions.NICs != 1 || !got.Sender.Conditions.Embedded {
		t.Errorf("exit %d: %v\n%s\n%s", code, err, stdout, stderr)
	}
}

// TestTheDemoOnANarrowTerminal: what a carriage return is to take back is in one row.
func TestTheDemoOnANarrowTerminal(t *testing.T) {
	var b strings.Builder
	s := &demoStages{w: &b, live: true, columns: func() int { return 40 }, ended: make(chan struct{})}
	s.begin("devices", strings.Repeat("software ", 9))
	for part := range strings.SplitSeq(b.String(), "\r") {
		if line := strings.TrimSuffix(part, "\x1b[K"); utf8.RuneCountInString(line) >= 40 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
	if s.end(); !strings.Contains(b.String(), strings.TrimSpace(strings.Repeat("software ", 9))) {
		t.Errorf("a stage that is over is cut: %q", b.String())
	}
}

func TestTheDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stdout, stderr, code := execute(ctx, "demo")
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestTheDemoWithoutRoomForThePicture tells in words what it has no room to draw.
func TestTheDemoWithoutRoomForThePicture(t *testing.T) {
	stdout, _, _ := execute(t.Context(), "demo --pages 16 --page-size 4K --nics 1 --json")
	var got struct{ Sender, Receiver *pages.Result }
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	s := report.Sides{From: "node1", To: "node0", Sent: got.Sender, Received: got.Receiver}
	for columns, drawn := range map[int]bool{report.LeastColumns: true, report.LeastColumns - 1: false, 20: false} {
		var out strings.Builder
		if err := picture(&out, s, report.Style{Columns: columns}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "+---") != drawn || strings.Contains(out.String(), "The picture takes 60 columns") == drawn ||
			strings.Count(out.String(), "verified") == 0 {
			t.Errorf("%d columns:\n%s", columns, &out)
		}
	}
}
