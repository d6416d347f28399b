package perf

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/internal/golden"
)

func sample(t *testing.T, op Op, test Test) Report {
	t.Helper()
	o := Defaults(op, test)
	o.Verify = true
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	machine := Side{
		Host: "left", Kernel: "7.3.4", Arch: "amd64", Version: "devel", Device: "rxe0", Port: 1,
		Protocol: "RoCE v2", LinkLayer: "Ethernet", GIDIndex: 1, GIDType: "RoCE v2", MTU: 4096, Inline: 220,
	}
	other := machine
	other.Host, other.Events, other.GIDIndex = "right", true, Auto
	r := Report{Schema: Schema, Conditions: Conditions{Workload: o.Workload, Client: &machine, Server: &other}}
	own := &sideResult{Sent: 5000, Seconds: 2, Verified: true}
	if test == Bandwidth {
		own.Peak = 200 << 20
		own.Completion = &LatencyStats{1, 2, 1.5, 1.6, 0.25, 1.9, 1.99}
	} else {
		own.Latency = &LatencyStats{1.25, 100, 2.5, 3, 0.75, 10, 99.5}
	}
	r.Results = []Result{combine(&o.Workload, o.Size, own, &sideResult{Verified: true})}
	return r
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	show := func(r Report, gbits bool) {
		table := NewTable(&b, gbits)
		if err := table.Begin(r.Conditions); err != nil {
			t.Fatal(err)
		}
		for _, row := range r.Results {
			if err := table.Row(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	bw := sample(t, Send, Bandwidth)
	show(bw, false)
	show(bw, true)
	bw.Conditions.QPs, bw.Conditions.Bidirectional, bw.Conditions.Duration = 4, true, 5*time.Second
	bw.Results[0].Peak = nil
	show(bw, false)
	show(sample(t, Write, Latency), false)
	copied := sample(t, Write, Bandwidth)
	copied.Conditions.Transport, copied.Conditions.Server = Memcpy, nil
	copied.Conditions.Client = &Side{Host: "left", Kernel: "7.3.4", Arch: "amd64", GIDIndex: Auto}
	show(copied, false)
	golden.Check(t, "table.txt", b.Bytes())
}

func TestJSON(t *testing.T) {
	for _, test := range []Test{Bandwidth, Latency} {
		b, err := json.MarshalIndent(sample(t, Write, test), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "write_"+string(test)+".json", append(b, '\n'))
	}
}

func TestCombineAddsDirections(t *testing.T) {
	w := Workload{Test: Bandwidth, Verify: true}
	r := combine(&w, 100, &sideResult{Sent: 10, Seconds: 1, Peak: 5000, Verified: true}, &sideResult{Sent: 30, Seconds: 2, Peak: 7000})
	if r.Iterations != 40 || r.TotalBytes != 4000 || r.Seconds != 2 || *r.Average != 1000+1500 || *r.Rate != 25 || *r.Peak != 12000 || *r.Verified {
		t.Errorf("%+v", r)
	}
}

func TestPeersWordsAreHarmless(t *testing.T) {
	s := Side{Host: "a\x1b[2Jb\nc", Kernel: strings.Repeat("é", 100), Arch: "amd64"}
	s.plain()
	if s.Host != "a?[2Jb?c" || len(s.Kernel) > 64 || !utf8.ValidString(s.Kernel) || s.Arch != "amd64" {
		t.Errorf("%+v", s)
	}
}
