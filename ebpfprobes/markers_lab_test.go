//go:build lab

package ebpfprobes_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
	"github.com/peerdirect/peerdirect/internal/perf"
)

func followMarks(t testing.TB, pid int) *ebpfprobes.CompletionSession {
	t.Helper()
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// marks are the marked rows of a process, by device and opcode. No row may be lost.
func marks(t *testing.T, s *ebpfprobes.CompletionSession, pid int) map[string]ebpfprobes.CompletionRow {
	t.Helper()
	rows, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]ebpfprobes.CompletionRow)
	for _, r := range rows {
		if r.Wait != ebpfprobes.Marked {
			continue
		}
		t.Logf("%s pid %d %v %d bytes: %d, median %v longest %v, %d failed", r.Device, r.PID, r.Opcode, r.Size, r.Times.Count, r.Times.Quantile(.5), r.Times.Longest, r.Failed)
		if r.PID != pid || r.Command == "" || r.Queue != 0 || r.Number != -1 || r.Times.Count == 0 {
			t.Errorf("row of %+v %q", r.CompletionKey, r.Command)
		}
		name := r.Device + " " + r.Opcode.String()
		if before, ok := all[name]; ok {
			r.Times.Add(&before.Times)
		}
		all[name] = r
	}
	// Marks are a sample: one that could not be read, or whose program met another on its
	// CPU, as happens where two CPUs are emulated, is one less, and counted.
	l, err := s.Losses()
	if l.Flights+l.Runs != 0 {
		t.Logf("losses %+v", l)
		l.Flights, l.Runs = 0, 0
	}
	if err != nil || l.Any() {
		t.Errorf("losses %+v, %v", l, err)
	}
	return all
}

func rxeDevice(t testing.TB) string {
	t.Helper()
	dev := os.Getenv("PEERDIRECT_DEVICE")
	if driver, _ := os.Readlink("/sys/class/infiniband/" + dev + "/device/driver"); dev == "" || filepath.Base(driver) == "efa" {
		t.Skip("needs a lab guest whose device has RC: lab run --link rxe")
	}
	return dev
}

// Of a run of perf there is a row of what it does, and of nothing else.
func TestMarkersOfPerf(t *testing.T) {
	dev := rxeDevice(t)
	for _, c := range []struct {
		what, row string
		size      uint64
	}{
		{"perf write bw 8 20000", " write", 8}, // of a hundred requests one completes
		{"perf write bw 65536 2000", " write", 65536},
		{"perf read bw 4096 2000", " read", 4096},
		{"perf send bw 5000 2000", " send", 4096},
		{"perf write lat 64 1000", " write", 64},
		{"perf send lat 64 1000", " send", 64},
		{"perf read lat 4096 1000", " read", 4096},
		{"perf atomic lat 8 1000", " fetch-add", 8},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := startMarked(t, os.Args[0], c.what)
			s := followMarks(t, p.cmd.Process.Pid)
			if on := p.ask(t, "on"); on != "true" {
				t.Errorf("traced: %s", on)
			}
			var said perf.Result
			if err := json.Unmarshal([]byte(p.ask(t, "run")), &said); err != nil {
				t.Fatal(err)
			}
			all := marks(t, s, p.cmd.Process.Pid)
			row, ok := all[dev+c.row]
			if !ok || len(all) != 1 || row.Size != c.size || row.Failed != 0 || row.Bytes == 0 {
				t.Errorf("rows %+v", all)
			}
			if l := said.Latency; l != nil && c.row != " write" && c.row != " send" {
				t.Logf("by perf: median %v us of %v to %v", l.Typical, l.Min, l.Max)
				// Perf's sample of an operation has the marked time in it.
				if longest := float64(row.Times.Longest) / 1e3; longest > 1.02*l.Max {
					t.Errorf("an operation took %v us; perf's longest took %v", longest, l.Max)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if on := p.ask(t, "on"); on != "false" {
				t.Errorf("traced after the end: %s", on)
			}
		})
	}
}

// wantTransfer looks for what a transfer does, on each device.
func wantTransfer(t *testing.T, all map[string]ebpfprobes.CompletionRow, devices ...string) {
	t.Helper()
	for _, d := range devices {
		if r := all[d+" write"]; r.Times.Count == 0 || r.Size != 16<<10 || r.Failed != 0 {
			t.Errorf("%s: %+v", d, r)
		}
	}
	for name, r := range all {
		ok := slices.ContainsFunc(devices, func(d string) bool {
			return slices.Contains([]string{d + " write", d + " write-imm", d + " send"}, name)
		})
		if !ok || r.Failed != 0 {
			t.Errorf("row %q, %d failed", name, r.Failed)
		}
	}
}

func transferMarks(t *testing.T) {
	p := startMarked(t, os.Args[0], "transfer")
	s := followMarks(t, p.cmd.Process.Pid)
	dev := os.Getenv("PEERDIRECT_DEVICE")
	// Marks are a sample: on a slow machine a whole run may have but sends in it.
	for end := time.Now().Add(time.Minute); ; {
		p.ask(t, "run")
		all := marks(t, s, p.cmd.Process.Pid)
		if all[dev+" write"].Times.Count != 0 || time.Now().After(end) {
			wantTransfer(t, all, dev)
			return
		}
	}
}

func TestMarkersOfATransfer(t *testing.T) {
	rxeDevice(t)
	transferMarks(t)
}

func TestEFAMarkersOfATransfer(t *testing.T) {
	if os.Getenv("PEERDIRECT_EFA") == "" {
		t.Skip("needs a lab guest with EFA devices: lab run --efa 1")
	}
	if os.Getenv("PEERDIRECT_KERNEL") == "6.1" {
		t.Skip("needs RDMA write, which the efa driver of linux 6.1 lacks")
	}
	transferMarks(t)
}

// A transfer between devices that are software in the process, on any machine: each NIC
// has its rows.
func TestMarkersOfEmbeddedNICs(t *testing.T) {
	p := startMarked(t, os.Args[0], "embedded")
	s := followMarks(t, p.cmd.Process.Pid)
	p.ask(t, "run")
	all := marks(t, s, p.cmd.Process.Pid)
	var devices []string
	for _, r := range all {
		if !slices.Contains(devices, r.Device) {
			devices = append(devices, r.Device)
		}
	}
	if len(devices) < 4 {
		t.Errorf("devices %q; the sender has four", devices)
	}
	for _, r := range all {
		if r.Failed != 0 || r.Device == "" {
			t.Errorf("row %+v", r)
		}
	}
}

func TestMarkersOfAFailure(t *testing.T) {
	p := startMarked(t, os.Args[0], "unresponsive")
	s := followMarks(t, p.cmd.Process.Pid)
	p.ask(t, "run")
	failed := uint64(0)
	for _, r := range marks(t, s, p.cmd.Process.Pid) {
		failed += r.Failed
	}
	told, err := s.Failures()
	if err != nil {
		t.Fatal(err)
	}
	counted := uint64(0)
	for _, f := range told {
		t.Logf("%+v", f)
		if f.PID != p.cmd.Process.Pid || f.Device == "" || f.QP == 0 || f.Status.String() != "retries exceeded" {
			t.Errorf("failure %+v", f)
		}
		counted += f.Count
	}
	if failed == 0 || counted != failed {
		t.Errorf("%d operations failed by the rows, %d by the failures", failed, counted)
	}
}

// A program that comes after the tracer is found by its file, whatever file it is.
func TestMarkersOfAnotherProgram(t *testing.T) {
	s := followMarks(t, 0)
	file := filepath.Join(t.TempDir(), "other")
	copyFile(t, os.Args[0], file)
	p := startMarked(t, file, "embedded")
	found := func() bool {
		return slices.ContainsFunc(s.Probes(), func(q ebpfprobes.Probe) bool { return q.Module == file && q.Usable == ebpfprobes.Yes })
	}
	for end := time.Now().Add(time.Minute); !found(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it was not found: %v", s.Probes())
		}
	}
	p.ask(t, "run")
	if all := marks(t, s, p.cmd.Process.Pid); len(all) == 0 {
		t.Error("it has no rows")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// A tracer that is killed leaves no mark on: the semaphore is down again.
func TestMarkersAfterAKilledTracer(t *testing.T) {
	p := startMarked(t, os.Args[0], "embedded")
	tracer := startMarked(t, os.Args[0], "trace")
	if on := p.ask(t, "on"); on != "true" {
		t.Fatalf("traced: %s", on)
	}
	if err := tracer.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	tracer.cmd.Wait()
	// Its descriptors are closed a moment after.
	for end := time.Now().Add(30 * time.Second); p.ask(t, "on") != "false"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the semaphore stays raised")
		}
	}
	p.ask(t, "run") // and nothing is wrong with the program
}
