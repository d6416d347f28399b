package tracereport

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
)

func event() *ebpfprobes.Registration {
	e := &ebpfprobes.Registration{At: noon.Add(1234567 * time.Microsecond), PID: 512, TID: 513, Command: "vllm\x1b worker", Device: "mlx5_0",
		Operation: ebpfprobes.Register, Kind: ebpfprobes.DMABuf, Length: 2 << 20, IOVA: 1<<63 + 1, Took: 125 * time.Microsecond,
		Err: syscall.ENOMEM, Cause: syscall.EREMOTEIO, CausePhase: ebpfprobes.BufferMap, Exporter: "nvidia", Inode: 77, BufferSize: 4 << 20}
	e.Spent[ebpfprobes.Uverbs], e.Spent[ebpfprobes.BufferMap] = 5*time.Microsecond, 120*time.Microsecond
	return e
}

func TestRecords(t *testing.T) {
	var b bytes.Buffer
	s := NewStream(&b, RegistrationsSchema)
	r := made()
	ok := event()
	ok.Err, ok.Cause, ok.Kind, ok.LKey, ok.RKey = 0, 0, ebpfprobes.Host, 0x1234, 0x1234
	for _, write := range []func() error{
		func() error { return s.Begin(noon, 0, "", r.Probes) },
		func() error { return s.Begin(noon, 41, "mlx5_0", nil) },
		func() error { return s.Event(event(), []string{"ibv_reg_dmabuf_mr+0x10 (libibverbs.so.1)"}) },
		func() error { return s.Event(ok, nil) },
		func() error { return s.Notice(noon, "detached", "nothing is traced") },
		func() error { return r.WriteRecords(s) },
		func() error { return s.Tracing(&Tracing{At: noon}) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "records.jsonl", b.Bytes())
	for line := range strings.Lines(b.String()) {
		var head struct {
			Schema, Record string
			At             time.Time
		}
		if err := json.Unmarshal([]byte(line), &head); err != nil || head.Schema != RegistrationsSchema || head.Record == "" || head.At.IsZero() {
			t.Errorf("%v: %s", err, line)
		}
	}
}

func TestProbes(t *testing.T) {
	var b bytes.Buffer
	if err := WriteProbes(&b, made().Probes); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "probes.json", b.Bytes())
	b.Reset()
	if err := WriteProbesText(&b, made().Probes, 0); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "probes.txt", b.Bytes())
}

func TestEventLine(t *testing.T) {
	var b bytes.Buffer
	e := event()
	e.At = time.Date(2026, 11, 30, 12, 0, 1, 234567000, time.Local)
	if err := WriteEvent(&b, e, []string{"main+0x4 (a)", "0x7f00"}); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "event.txt", b.Bytes())
}
