package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/internal/golden"
	"github.com/peerdirect/peerdirect/transfer/pages"
)

func sides(count, stride int, seed uint64, badPages ...int) Sides {
	c := pages.Conditions{
		Device: "rxe0", Memory: "cuda:0", PeerMemory: "host", Port: 1, Transport: "RoCE v2", LinkLayer: "Ethernet", GIDIndex: 1, MTU: 4096, Queues: 1,
		Kernel: "7.3.4+deb13-amd64", Peer: "node0", Local: "192.0.2.2:41234", Remote: "192.0.2.1:18630",
		PageSize: 64 << 10, PagesEach: count, Stride: stride * 64 << 10, Seed: seed, Batch: 16, Depth: 64, TimeoutSec: 30,
	}
	bytes := uint64(count) * 64 << 10
	sent := &pages.Result{
		Schema: pages.Schema, Role: pages.RoleSender, Bytes: bytes, Pages: uint64(count), Iterations: 1, Seconds: 1.05,
		PerSecond: float64(bytes) / 1.05, Gbit: float64(bytes) / 1.05 * 8e-9, Writes: uint64(count), Notices: 30,
		Latency:  &pages.Latency{Of: "batch", Count: 32, Min: 9000, P50: 35500, P90: 71000, P99: 107000, P999: 107000, Max: 110000},
		Verified: len(badPages) == 0, BadPages: len(badPages), Bad: badPages, PageSum: "crc32c",
		Rails:    []pages.Rail{{Device: "rxe0", Transport: "RoCE v2", GID: "::ffff:192.0.2.2", Path: "libibverbs", Bytes: bytes}},
		Checksum: strings.Repeat("97da7060eccf22ec", 4), ControlSent: 700, ControlReceived: 650, Conditions: c,
	}
	sent.Rate.Interval = 0.016
	for i := range 66 {
		sent.Rate.Bytes = append(sent.Rate.Bytes, bytes/66*uint64(10+i%7)/13)
	}
	received := *sent
	received.Role, received.Latency, received.Writes = pages.RoleReceiver, nil, 0
	received.Conditions.Batch, received.Conditions.Depth = 0, 0
	received.Conditions.Memory, received.Conditions.PeerMemory = c.PeerMemory, c.Memory
	s := Sides{From: "node1", To: "node0", Sent: sent, Received: &received, PageOK: make([]bool, count)}
	for i := range s.PageOK {
		s.PageOK[i] = true
	}
	for _, p := range badPages {
		s.PageOK[p] = false
	}
	return s
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestThePictureFitsItsColumns(t *testing.T) {
	for _, columns := range []int{60, 80, 100} {
		for _, colour := range []bool{false, true} {
			for name, s := range map[string]Sides{
				"good":    sides(512, 2, 1),
				"bad":     sides(512, 2, 1, 3, 4, 500),
				"ordered": sides(96, 3, 0),
				"one":     sides(1, 1, 9),
				"large":   sides(100_000, 2, 5),
			} {
				var b bytes.Buffer
				if err := Picture(&b, s, Style{Columns: columns, Colour: colour}); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(b.String()) {
					plain := strings.TrimSuffix(escapes.ReplaceAllString(line, ""), "\n")
					if n := utf8.RuneCountInString(plain); n > columns {
						t.Errorf("%s, %d columns: a line of %d: %s", name, columns, n, plain)
					}
					if !colour && plain+"\n" != line {
						t.Errorf("%s: escapes without a terminal: %q", name, line)
					}
				}
				if name == "good" || name == "bad" && columns == 80 {
					file := fmt.Sprintf("picture-%s-%d", name, columns)
					if colour {
						file += "-colour"
					}
					golden.Check(t, file+".txt", b.Bytes())
				}
			}
		}
	}
}

func TestAResultAsText(t *testing.T) {
	var b bytes.Buffer
	good, bad := sides(512, 2, 1), sides(512, 2, 1, 7, 9)
	for _, r := range []*pages.Result{good.Sent, good.Received, bad.Received, {Role: pages.RoleSender}} {
		if err := Text(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "text.txt", b.Bytes())
}

// TestWhatBecameOfTheNICs: who carried what, and which failed.
func TestWhatBecameOfTheNICs(t *testing.T) {
	r := sides(512, 2, 1).Sent
	r.Conditions.Device, r.Conditions.NICs = "efa_0..efa_9", 10
	for i := range 10 {
		r.Rails = append(r.Rails, pages.Rail{Device: fmt.Sprintf("efa_%d", i), Transport: "EFA SRD", GID: fmt.Sprintf("fe80::%d", i+1), Bytes: 3 << 20})
	}
	r.Rails[9].Losses, r.Rails[9].Failed = 2, 37
	var b bytes.Buffer
	if err := Text(&b, r); err != nil {
		t.Fatal(err)
	}
	err := Sum(&b, &pages.Group{Receivers: 3, Done: 2, Bytes: 64 << 20, Seconds: 0.5, PerSecond: 128 << 20})
	if before := b.Len(); err != nil || Sum(&b, nil) != nil || b.Len() != before {
		t.Errorf("%v: %s", err, &b)
	}
	golden.Check(t, "text-rails.txt", b.Bytes())
}

func TestAResultAsJSON(t *testing.T) {
	b, err := json.MarshalIndent(sides(512, 2, 1, 7, 9).Sent, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "result.json", append(b, '\n'))
}

func TestSizesAreReadAndPrinted(t *testing.T) {
	for text, want := range map[string]Bytes{
		"4096": 4096, "64K": 65536, "64k": 65536, "64KiB": 65536, "64 KiB": 65536, "1M": 1 << 20, "2g": 2 << 30, "1B": 1, "0": 0,
	} {
		var b Bytes
		if err := b.Set(text); err != nil || b != want {
			t.Errorf("%q is %d: %v", text, b, err)
		}
		var again Bytes
		if err := again.Set(b.String()); err != nil || again != b {
			t.Errorf("%d prints as %v", b, b)
		}
	}
	for _, text := range []string{"", "K", "x", "-1", "1.5M", "64KK", "99999999999T", "18446744073709551616"} {
		if err := new(Bytes).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
