package tracereport

import (
	"bytes"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/golden"
)

var objectsAt = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func objectsTracing() Tracing {
	return Tracing{At: objectsAt, Traced: 90 * time.Second, Attached: true}
}

func madeLeaks() *Leaks {
	frame := func(function, file string) ebpfprobes.Frame {
		return ebpfprobes.Frame{Address: 0x1234, Function: function, Offset: 0x1c, File: file}
	}
	path := func(own ...string) []ebpfprobes.Frame {
		stack := []ebpfprobes.Frame{frame("ioctl", "/lib/x86_64-linux-gnu/libc.so.6"), frame("ibv_reg_mr", "/lib/libibverbs.so.1.14"), frame("", "/lib/libibverbs/libmlx5-rdmav34.so")}
		for _, f := range own {
			stack = append(stack, frame(f, "/opt/trainer/bin/trainer"))
		}
		return append(stack, frame("__libc_start_main", "/lib/x86_64-linux-gnu/libc.so.6"))
	}
	return &Leaks{Tracing: objectsTracing(), Window: 6, Interval: 10 * time.Second, Rows: []ebpfprobes.LeakRow{
		{PID: 4711, Command: "gone\n", Resource: ebpfprobes.DMABuffer, Exporter: "nvidia", Alive: 2, Bytes: 4 << 20, Survivors: 2, Oldest: objectsAt.Add(-70 * time.Second),
			Gone: true, Unheld: 2, Unsearched: 1, Verdict: ebpfprobes.Abandoned, StackNote: "the process had ended before its files were read"},
		{PID: 4242, Command: "trainer", Device: "mlx5_0", Resource: ebpfprobes.MemoryRegion, Alive: 75, Bytes: 75 << 13, Born: 7, Survivors: 68, Grown: 39,
			Oldest: objectsAt.Add(-85 * time.Second), Verdict: ebpfprobes.Leaking, Stack: path("pin_batch", "next_batch", "main")},
		{PID: 4242, Command: "trainer", Device: "mlx5_0", Resource: ebpfprobes.QueuePair, Alive: 16, Survivors: 16, Ended: 2,
			Oldest: objectsAt.Add(-89 * time.Second), Stack: path("connect\x1b[31m", "main")},
		{Kernel: true, Command: "rdma_cm", Device: "mlx5_0", Resource: ebpfprobes.ProtectionDomain, Alive: 1, Survivors: 1, Oldest: objectsAt.Add(-3 * time.Hour)},
	}}
}

func madeConnections() *Connections {
	return &Connections{Tracing: objectsTracing(),
		QPs: []ebpfprobes.QP{
			{Device: "mlx5_0", Number: 291, Type: 2, PID: 4242, Command: "trainer", State: ebpfprobes.StateRTS, Born: objectsAt.Add(-time.Minute), Changes: 3,
				RemoteQPN: 292, RemoteGID: netip.MustParseAddr("::ffff:192.0.2.7"), Port: 1, MTU: 4096},
			{Device: "mlx5_0", Number: 17, Type: 4, PID: 99, Command: "older", State: ebpfprobes.StateUnknown},
		},
		Transitions: []ebpfprobes.QPTransition{
			{PID: 4242, Command: "trainer", Device: "mlx5_0", Type: 2, Change: ebpfprobes.Modified, From: ebpfprobes.StateInit, To: ebpfprobes.StateRTR,
				Count: 12, Sum: 12 * time.Millisecond, Longest: 4 * time.Millisecond},
			{PID: 4242, Command: "trainer", Device: "mlx5_0", Type: 2, Change: ebpfprobes.Modified, From: ebpfprobes.StateReset, To: ebpfprobes.StateRTS,
				Err: syscall.EINVAL, Count: 1, Sum: 9 * time.Microsecond, Longest: 9 * time.Microsecond},
			{PID: 4242, Command: "trainer", Device: "mlx5_0", Type: 2, Change: ebpfprobes.Created, From: ebpfprobes.StateUnknown, To: ebpfprobes.StateReset, Count: 1},
			{Command: "pytest", Ended: true, Device: "rxe0", Type: 2, Change: ebpfprobes.Destroyed, From: ebpfprobes.StateRTS, To: ebpfprobes.StateUnknown, Count: 40},
		}}
}

func madeErrors() *Errors {
	row := func(class ebpfprobes.ErrorClass, what string, e syscall.Errno) ebpfprobes.ErrorRow {
		return ebpfprobes.ErrorRow{ErrorSort: ebpfprobes.ErrorSort{Class: class, PID: 4242, Device: "efa_0", What: what, Err: e}, Command: "trainer", Count: 3,
			First: objectsAt.Add(-time.Minute), Last: objectsAt.Add(-5 * time.Second)}
	}
	call, command := row(ebpfprobes.CallError, "QP: create (ioctl)", syscall.ENOMEM), row(ebpfprobes.CommandError, "mlx5 CREATE_MKEY (0x200)", syscall.EINVAL)
	call.Cause = &ebpfprobes.CommandFailure{What: "efa_com_create_qp", Err: syscall.ENOMEM}
	command.Cause = &ebpfprobes.CommandFailure{What: command.What, Err: syscall.EINVAL, Status: 3, Syndrome: 0x3e4d3}
	completion, port := row(ebpfprobes.CompletionError, "REM_ACCESS_ERR", 0), row(ebpfprobes.EventError, "PORT_ERR", 0)
	completion.Number, completion.Vendor = 291, 0x88
	port.PID, port.Command, port.Number = 0, "", 1
	ended := row(ebpfprobes.CallError, "MR: reg (write)", syscall.EFAULT)
	ended.PID, ended.Command, ended.Ended = 0, "pytest", true
	question := row(ebpfprobes.CallError, "DEVICE: query gid entry (ioctl)", syscall.ENODATA)
	r := &Errors{Tracing: objectsTracing(), Rows: []ebpfprobes.ErrorRow{call, question, command, completion, port, ended}}
	r.WithoutQuestions()
	return r
}

func TestObjectsInWords(t *testing.T) {
	leaks, connections, errors := madeLeaks(), madeConnections(), madeErrors()
	for name, write := range map[string]func(b *bytes.Buffer) error{
		"leaks.txt":              func(b *bytes.Buffer) error { return leaks.WriteText(b, Layout{}) },
		"leaks-narrow.txt":       func(b *bytes.Buffer) error { return leaks.WriteText(b, Layout{Width: 70, Height: 16}) },
		"leaks-nothing.txt":      func(b *bytes.Buffer) error { return (&Leaks{Tracing: objectsTracing()}).WriteText(b, Layout{}) },
		"connections.txt":        func(b *bytes.Buffer) error { return connections.WriteText(b, Layout{}) },
		"connections-narrow.txt": func(b *bytes.Buffer) error { return connections.WriteText(b, Layout{Width: 70, Height: 12}) },
		"errors.txt":             func(b *bytes.Buffer) error { return errors.WriteText(b, Layout{}) },
		"errors-narrow.txt":      func(b *bytes.Buffer) error { return errors.WriteText(b, Layout{Width: 60, Height: 8}) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, b.Bytes())
			width := map[string]int{"leaks-narrow.txt": 70, "connections-narrow.txt": 70, "errors-narrow.txt": 60}[name]
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if width > 0 && utf8.RuneCountInString(line) > width {
					t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("not printable: %q", line)
				}
			}
		})
	}
}

func TestObjectsAsRecords(t *testing.T) {
	for name, write := range map[string]func(s *Stream) error{
		"leaks.json":       madeLeaks().WriteRecords,
		"connections.json": madeConnections().WriteRecords,
		"errors.json":      madeErrors().WriteRecords,
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(NewStream(&b, "schema")); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, b.Bytes())
		})
	}
}

func TestObjectMetrics(t *testing.T) {
	for _, all := range [][]Metric{madeLeaks().Metrics(), madeConnections().Metrics(), madeErrors().Metrics()} {
		for _, m := range all {
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
		}
	}
}
