package tracereport

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
)

// markedOnly is a trace of an embedded transfer on a machine without RDMA.
func markedOnly() *Completions {
	r := withoutEvents()
	key := ebpfprobes.CompletionKey{PID: 4711, Device: "efa_0", Number: -1, Wait: ebpfprobes.Marked, Opcode: ebpfprobes.OpWrite, Size: 65536}
	row := ebpfprobes.CompletionRow{CompletionKey: key, Command: "peerdirect", Failed: 1, Bytes: 4 << 16, Times: histogramOfAll(20*time.Microsecond, 21*time.Microsecond, 25*time.Microsecond, 90*time.Microsecond)}
	r.Probes = append(r.Probes[:2:2], ebpfprobes.Probe{Purpose: "completions", Role: "marked operations", Function: "peerdirect:complete", Module: "/usr/bin/peerdirect", By: ebpfprobes.ByUprobe, Usable: ebpfprobes.Yes})
	r.Rows, r.Sampling, r.Losses = []ebpfprobes.CompletionRow{row}, nil, ebpfprobes.Losses{}
	r.Failures = []ebpfprobes.CompletionFailure{{PID: 4711, Command: "peerdirect", Device: "efa_0", QP: 3, Status: 12, Opcode: ebpfprobes.OpWrite, Count: 1}}
	return r
}

func TestMarkedInWords(t *testing.T) {
	var b bytes.Buffer
	if err := markedOnly().WriteText(&b, Layout{Log2: true}); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "completions-marked.txt", b.Bytes())
}

func TestMarkedAsRecords(t *testing.T) {
	var b bytes.Buffer
	if err := markedOnly().WriteRecords(NewStream(&b, CompletionsSchema)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"device":"efa_0","queue":null,"number":null,"wait":"marked","opcode":"write","size":65536,"times":{"count":4,`,
		`"failed":1,"bytes":262144,"untimed":null,"repeated":null`,
		`"record":"failure"`, `"queue":null,"qp":3,"status":"retries exceeded"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is not in %s", want, b.String())
		}
	}
}

func TestMarkedMetricsAndPanels(t *testing.T) {
	r := markedOnly()
	for _, m := range r.Metrics() {
		if strings.Contains(m.Name, "bytes") && len(m.Samples) > 0 {
			t.Errorf("%s counts a sample's bytes", m.Name)
		}
		if m.Name == "peerdirect_completion_wait_seconds" {
			if got := strings.Join(m.Samples[0].Labels, " "); got != "peerdirect efa_0 marked write 65536" {
				t.Errorf("labels %s", got)
			}
		}
	}
	if p := r.Panels(); len(p) != 1 || p[0].Name != "marked, write" || p[0].Count != 4 {
		t.Errorf("panels %+v", p)
	}
}
