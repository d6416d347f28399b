//go:build lab

package ebpfprobes_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/peerdirect/peerdirect/ebpfprobes"
)

// poller is testdata/poller.c at work: another program, which measures itself.
type poller struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

// pollerResult is what it printed.
type pollerResult struct {
	completions, empty, events, errors uint64
	median                             time.Duration
}

func startPoller(t *testing.T, program string, arguments ...string) *poller {
	t.Helper()
	p := &poller{cmd: exec.Command(program, arguments...)}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.cmd.Stdin, p.cmd.Stderr = write, read, os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	t.Cleanup(func() {
		p.in.Close()
		p.cmd.Wait()
	})
	p.out = bufio.NewReader(out)
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("poller said %q, %v", line, err)
	}
	return p
}

func (p *poller) run(t *testing.T) (r pollerResult) {
	t.Helper()
	fmt.Fprintln(p.in)
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(line, "completions %d %d empty %d events %d errors %d",
		&r.completions, &r.median, &r.empty, &r.events, &r.errors); err != nil {
		t.Fatalf("poller said %q: %v", line, err)
	}
	return r
}

func buildPoller(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "poller")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-o", program, "testdata/poller.c", "-libverbs", "-lefa").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// device gives the RDMA device and what its queue pairs are: "rc" or "srd".
func deviceAndTransport(t *testing.T) (device, transport string) {
	t.Helper()
	entries, _ := os.ReadDir("/sys/class/infiniband")
	if len(entries) == 0 {
		t.Skip("needs an RDMA device: run in the lab with --link rxe or --efa 1")
	}
	device = entries[0].Name()
	driver, _ := os.Readlink("/sys/class/infiniband/" + device + "/device/driver")
	if filepath.Base(driver) == "efa" {
		return device, "srd"
	}
	return device, "rc"
}

func TestCompletionEvents(t *testing.T) {
	device, transport := deviceAndTransport(t)
	const count = 1000
	p := startPoller(t, buildPoller(t), device, transport, "events", "64", strconv.Itoa(count))
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: p.cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, q := range s.Probes() {
		t.Log(q)
	}
	said := p.run(t)
	rows, err := s.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var all ebpfprobes.Histogram
	for _, r := range rows {
		t.Logf("%s pid %d queue %#x number %d %s: %d median %v longest %v", r.Device, r.PID, r.Queue, r.Number, r.Wait, r.Times.Count, r.Times.Quantile(.5), r.Times.Longest)
		if r.PID != p.cmd.Process.Pid || r.Device != device || r.Command != "poller" || r.Queue == 0 || r.Number < 0 {
			t.Errorf("row of %+v %q", r.CompletionKey, r.Command)
		}
		if r.Wait == ebpfprobes.Polled {
			t.Error("a polled row without Polled")
		}
		all.Add(&r.Times)
	}
	if all.Count != said.events {
		t.Errorf("%d events were counted; the program had %d", all.Count, said.events)
	}
	if m := all.Quantile(.5); m <= 0 || m >= said.median {
		t.Errorf("interrupt to wake-up takes %v in the median, post to completion %v by the program's own clock", m, said.median)
	}
	if l, err := s.Losses(); err != nil || l.Any() {
		t.Errorf("losses %+v, %v", l, err)
	}
}

func TestPolledCompletions(t *testing.T) {
	device, transport := deviceAndTransport(t)
	program := buildPoller(t)
	const count = 1000
	for _, how := range []string{"poll", "extended"} {
		t.Run(how, func(t *testing.T) {
			p := startPoller(t, program, device, transport, how, "4096", strconv.Itoa(count))
			// One window over the whole run, so that the counts have to be the same.
			s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{
				PID: p.cmd.Process.Pid, Polled: true, Window: time.Minute, Every: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, q := range s.Probes() {
				t.Log(q)
			}
			time.Sleep(time.Second) // until all is attached
			said := p.run(t)
			rows, err := s.Rows()
			if err != nil {
				t.Fatal(err)
			}
			var sends ebpfprobes.Histogram
			receives := uint64(0)
			for _, r := range rows {
				t.Logf("%s queue %#x %s %s %d bytes: %d median %v longest %v untimed %d repeated %d failed %d", r.Device, r.Queue, r.Wait, r.Opcode, r.Size, r.Times.Count, r.Times.Quantile(.5), r.Times.Longest, r.Untimed, r.Repeated, r.Failed)
				if r.Device != device {
					t.Errorf("device %q", r.Device)
				}
				receives += r.Untimed
				if r.Times.Count > 0 {
					sends.Add(&r.Times)
					want := ebpfprobes.OpWrite
					if transport == "srd" {
						want = ebpfprobes.OpSend
					}
					if r.Opcode != want || r.Size != 4096 {
						t.Errorf("opcode %s, size %d; want %s, 4096", r.Opcode, r.Size, want)
					}
				}
			}
			if sends.Count != said.completions {
				t.Errorf("%d completions were timed; the program had %d", sends.Count, said.completions)
			}
			if want := map[string]uint64{"rc": 0, "srd": count}[transport]; receives != want {
				t.Errorf("%d completions without a post; the program had %d receives", receives, want)
			}
			t.Logf("median %v, the program's own %v (%d empty polls)", sends.Quantile(.5), said.median, said.empty)
			if m := sends.Quantile(.5); m > said.median || m < said.median/2 {
				t.Errorf("median %v; the program's own is %v", m, said.median)
			}
			if l, err := s.Losses(); err != nil || l.Any() {
				t.Errorf("losses %+v, %v", l, err)
			}
			n, err := s.Sampling()
			if err != nil || n.Posts != said.completions {
				t.Errorf("%+v, %v", n, err)
			}
		})
	}
}

// A completion in error is told with its status and queue pair.
func TestFlushedCompletions(t *testing.T) {
	device, transport := deviceAndTransport(t)
	if transport == "srd" {
		t.Skip("needs a device with connected queue pairs: --link rxe")
	}
	p := startPoller(t, buildPoller(t), device, transport, "flush", "64", "50")
	s, err := ebpfprobes.Completions(ebpfprobes.CompletionFilter{
		PID: p.cmd.Process.Pid, Polled: true, Window: time.Minute, Every: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	time.Sleep(time.Second)
	said := p.run(t)
	list, err := s.Failures()
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	t.Logf("%+v", list[0])
	if f := list[0]; f.Count != said.errors || f.Status.String() != "flushed" || f.QP == 0 || f.Device != device {
		t.Errorf("%+v; the program had %d errors", f, said.errors)
	}
}

// Between windows the process runs as if nobody followed it.
func TestWindows(t *testing.T) {
	device, transport := deviceAndTransport(t)
	program := buildPoller(t)
	const count = 30000
	for i := range 6 {
		p := startPoller(t, program, device, transport, "poll", "64", strconv.Itoa(count))
		var s *ebpfprobes.CompletionSession
		if i%2 != 0 {
			var err error
			s, err = ebpfprobes.Completions(ebpfprobes.CompletionFilter{PID: p.cmd.Process.Pid, Polled: true})
			if err != nil {
				t.Fatal(err)
			}
		}
		began, before := time.Now(), usage(t)
		said := p.run(t)
		t.Logf("%v for %d completions, median %v; the tracer's processor time %v", time.Since(began), said.completions, said.median, usage(t)-before)
		if s == nil {
			continue
		}
		n, err := s.Sampling()
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.Rows()
		if err != nil {
			t.Fatal(err)
		}
		var h ebpfprobes.Histogram
		for _, r := range rows {
			h.Add(&r.Times)
		}
		t.Logf("followed %v in %d windows: median %v of %d", n.Followed, n.Windows, h.Quantile(.5), h.Count)
		if n.Windows == 0 || h.Count == 0 || h.Count > n.Posts {
			t.Errorf("%+v, %d timed", n, h.Count)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// usage is the processor time of this process.
func usage(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
